"""Writes the Helm chart's templates, schema and table of values from manifests/: `python -m tests.manifests.chart`.

The manifests are the source, because they are what is tested, commented and compared by `doctor`, and a component is a patch that
says what it changes. Here a patch becomes a condition around the lines that it adds or removes, and FIELDS become values.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.manifests.files import MANIFESTS, documents
from tests.manifests.lines import Lines, steps, under
from tests.manifests.values import CHART, page, policy_keys, schema

COMPONENTS = MANIFESTS / "components"
COPIED = (MANIFESTS / "policy.yaml", COMPONENTS / "monitoring" / "dashboard.json")
"""What templates read: Helm reads nothing outside the chart, and no link."""
HEADER = "{{{{- /* Made from manifests/{} by `make manifests`; the reasons for what it says are there. */}}}}\n"
BRACES = "\ue000"
"""In place of two braces in a manifest: those of Prometheus are not for Helm."""
LABELS = ("app.kubernetes.io/name: gpu-admission", "app.kubernetes.io/part-of: gpu-admission")
_OURS = "{{ .Release.Namespace }}"
_NAME = "{{ .Release.Namespace | quote }}"
NAMESPACED = (
    (r"(?<=namespace: )gpu-admission$", _NAME),
    (
        r"(?<=values: )\[gpu-admission, kube-system\]$",
        "{{ prepend .Values.exemptNamespaces .Release.Namespace | toJson }}",
    ),
    (r"(?<=values: \[)gpu-admission(?=\]$)", _NAME),
    (r"(?<=system:serviceaccount:)gpu-admission(?=:)", _OURS),
    (r"(?<=\[gpu-admission\.)gpu-admission(?=\.svc\])", _OURS),
    (r"(?<=inject-ca-from: )gpu-admission(?=/)", _OURS),
    (r"(?<=namespace: )gpu-operator$", "{{ .Values.nvidiaSmi.namespace | quote }}"),
    (r"(?<=expression: \"')gpu-training(?='\"$)", "{{ .Values.podGroups.priorityClass }}"),
    (r"(?<=in \['')(?=\]$)", "{{ with .Values.podGroups.globalDefault }}, '{{ . }}'{{ end }}"),
)
"""What follows the namespace of the release, or another value, as patterns in a line. Quoted where it stands alone: a name may
look like a number."""
_POD = "spec/template/spec"
_CONTAINER = f"{_POD}/containers/0"
FIELDS = {
    ("Namespace", "metadata/name"): _NAME,
    ("Deployment", "spec/replicas"): "{{ .Values.replicas }}",
    ("Deployment", f"{_POD}/priorityClassName"): "{{ .Values.priorityClassName | quote }}",
    ("Deployment", "spec/template/metadata/labels"): (
        '{{- toYaml (merge (dict "app.kubernetes.io/name" "gpu-admission") (.Values.podLabels | default dict)) | nindent %d }}'
    ),
    ("Deployment", "spec/template/metadata/annotations"): (
        '{{- $port := dict "prometheus.io/port" (toString .Values.ports.ops) }}'
        "{{- toYaml (merge (dict) (.Values.podAnnotations | default dict) $port) | nindent %d }}"
    ),
    ("Deployment", f"{_POD}/affinity"): "{{- toYaml .Values.affinity | nindent %d }}",
    ("Deployment", f"{_CONTAINER}/env/2/value"): "{{ .Values.ports.https | quote }}",
    ("Deployment", f"{_CONTAINER}/env/3/value"): "{{ .Values.ports.ops | quote }}",
    ("Deployment", f"{_CONTAINER}/ports/0/containerPort"): "{{ .Values.ports.https }}",
    ("Deployment", f"{_CONTAINER}/ports/1/containerPort"): "{{ .Values.ports.ops }}",
    ("Deployment", f"{_POD}/nodeSelector"): "{{- toYaml .Values.nodeSelector | nindent %d }}",
    ("Deployment", f"{_CONTAINER}/image"): '{{ include "gpu-admission.image" . }}',
    ("Deployment", f"{_CONTAINER}/imagePullPolicy"): "{{ .Values.image.pullPolicy }}",
    ("Deployment", f"{_CONTAINER}/resources"): "{{- toYaml .Values.resources | nindent %d }}",
    ("MutatingWebhookConfiguration", "webhooks/0/failurePolicy"): "{{ .Values.failurePolicies.mutate }}",
    ("ValidatingWebhookConfiguration", "webhooks/0/failurePolicy"): "{{ .Values.failurePolicies.validate }}",
    ("ValidatingWebhookConfiguration", "webhooks/1/failurePolicy"): "{{ .Values.failurePolicies.validate }}",
}
"""Fields that are values: kind and path, and what stands there. %d: the column of what is in the field."""
OPTIONAL = {
    ("Deployment", _POD): {"tolerations": "tolerations", "imagePullSecrets": "image.pullSecrets"},
    ("PodMonitor", "metadata"): {"labels": "monitoring.labels"},
    ("PrometheusRule", "metadata"): {"labels": "monitoring.labels"},
}
"""Fields that are left out if their value is empty: where they are added, their names and values."""
ADDED = {("Deployment", f"{_CONTAINER}/env"): "env"}
"""Lists with more entries if their value has some."""
_SEVERAL = "gt (int .Values.replicas) 1"
GUARD = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
CONDITIONS = {
    "Namespace": ".Values.namespace.create",
    "PriorityClass": ".Values.priorityClasses.create",
    "PodDisruptionBudget": _SEVERAL,
    "GpuAdmissionOneReplica": _SEVERAL,
}
"""Kinds and alerts that are not always there."""

KEPT = {
    ("ClusterRole", "gpu-admission-profile-assigner"),
    ("ClusterRole", "gpu-admission-class-assigner"),
    *((kind, "gpu-admission-profile-label") for kind in GUARD),
    *((kind, "gpu-admission-preemption") for kind in GUARD),
}
"""What stays after `helm uninstall` with the priority classes, which pods name: it says who may use those that preempt."""


def templates() -> Iterator[tuple[str, str]]:
    """Name and text of each template that is made from a manifest."""
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    found = dict(components())
    for name in kustomization["resources"]:
        parts = _parts(MANIFESTS / name)
        for part in parts:
            _label(part)
            _with_values(part)
            for component in sorted(found):
                for patch in found[component].get("patches", ()):
                    _patch(part, patch, _condition(component, found))
            _with_optional(part)
        yield name, _text(name, parts)
    for component, kustomization in sorted(found.items()):
        for name in kustomization.get("resources", ()):
            where = f"components/{component}/{name}"
            parts = _parts(MANIFESTS / where)
            for part in parts:
                _with_optional(part)
                _without_some_alerts(part)
            yield f"{component}-{name}", _text(where, parts, [_condition(component, found)])
        for made in kustomization.get("configMapGenerator", ()):
            parts = [Lines(_config_map(made))]
            where = f"components/{component}/kustomization.yaml"
            yield f"{component}-{made['name']}.yaml", _text(where, parts, [_condition(component, found)])


def components() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in COMPONENTS.glob("*/kustomization.yaml"):
        (kustomization,) = documents(path)
        yield path.parent.name, kustomization


def camel(name: str) -> str:
    return re.sub(r"-(\w)", lambda match: match[1].upper(), name)


def _condition(component: str, found: dict[str, dict[str, Any]]) -> str:
    """The value that switches a component on, or one that includes it."""
    including = [name for name, each in found.items() if f"../{component}" in each.get("components", ())]
    values = [f".Values.components.{camel(name)}" for name in sorted([component, *including])]
    return values[0] if len(values) == 1 else f"or {' '.join(values)}"


def _parts(path: Path) -> list[Lines]:
    text = re.sub(r"^ *#.*\n", "", path.read_text(), flags=re.MULTILINE)
    text = text.replace("{{", BRACES)
    return [Lines(part) for part in re.split(r"^---\n", text, flags=re.MULTILINE) if part.strip()]


def _config_map(made: dict[str, Any]) -> str:
    """A ConfigMap with a file, of which the chart has a copy."""
    (entry,) = made["files"]
    key, _, file = entry.partition("=")
    labels = made["options"]["labels"]
    metadata = yaml.safe_dump({"name": made["name"], "namespace": made["namespace"], "labels": labels}, sort_keys=False)
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata:", *(f"  {line}" for line in metadata.splitlines())]
    return "\n".join([*lines, "data:", f"  {key}: |", f'    {{{{- .Files.Get "{file}" | trim | nindent 4 }}}}'])


def _text(source: str, parts: list[Lines], conditions: list[str] | None = None) -> str:
    lines = "".join(str(part) for part in parts).splitlines()
    text = HEADER.format(source) + under(conditions or [], lines)
    for pattern, value in NAMESPACED:
        text = re.sub(pattern, value, text, flags=re.MULTILINE)
    return text.replace(BRACES, '{{ "{{" }}')


def _label(part: Lines) -> None:
    """The labels that the kustomization adds, and an annotation."""
    if part.kind == "PriorityClass" or part.identity in KEPT:
        part.append("metadata", ["annotations:", "  helm.sh/resource-policy: keep"])
    if part.has("metadata/labels"):
        part.append("metadata/labels", list(LABELS))
    else:
        part.append("metadata", ["labels:", *(f"  {label}" for label in LABELS)])


def _with_values(part: Lines) -> None:
    for (kind, path), value in FIELDS.items():
        if kind == part.kind:
            part.put(path, value)
    if part.kind in CONDITIONS:
        part.surround(CONDITIONS[part.kind])


def _with_optional(part: Lines) -> None:
    for (kind, path), fields in OPTIONAL.items():
        for name, value in fields.items() if kind == part.kind else ():
            part.append(path, [f"{name}:", "  {{- toYaml . | nindent %d }}"], opening=f"with .Values.{value}")
    for (kind, path), value in ADDED.items():
        if kind == part.kind:
            part.append(path, ["{{- toYaml . | nindent %c }}"], opening=f"with .Values.{value}")


def _without_some_alerts(part: Lines) -> None:
    groups = part.value("spec/groups") if part.kind == "PrometheusRule" else ()
    for group, found in enumerate(groups):
        for number, rule in enumerate(found["rules"]):
            if rule["alert"] in CONDITIONS:
                part.surround(CONDITIONS[rule["alert"]], f"spec/groups/{group}/rules/{number}")


def _patch(part: Lines, patch: dict[str, Any], condition: str) -> None:
    """What a patch of a component does to this object, if anything, under a condition."""
    operations = yaml.safe_load(patch["patch"])
    if isinstance(operations, dict):  # the only one of this form deletes an object
        if operations["$patch"] == "delete" and (operations["kind"], operations["metadata"]["name"]) == part.identity:
            part.surround(f"not ({condition})" if " " in condition else f"not {condition}")
        return
    target = patch["target"]
    if not re.fullmatch(target["kind"], part.kind) or not re.fullmatch(target.get("name", ".*"), part.identity[1]):
        return
    for each in operations:
        path = each["path"].removeprefix("/")
        if each["op"] == "remove":
            part.surround(f"not ({condition})" if " " in condition else f"not {condition}", path)
        elif each["op"] == "replace":
            part.put(path, f"{{{{ if {condition} }}}}{each['value']}{{{{ else }}}}{part.value(path)}{{{{ end }}}}")
        elif each["op"] == "add" and path.endswith("/-"):
            part.append(path.removesuffix("/-"), _item(each["value"]), opening=f"if {condition}")
        elif each["op"] == "add":
            where, name = path.rpartition("/")[0], steps(path)[-1]
            part.append(where, yaml.safe_dump({name: each["value"]}).splitlines(), opening=f"if {condition}")
        elif part.value(path) != each["value"]:
            raise ValueError(
                f"{part.identity}: {path} is {part.value(path)!r}, and a component tests for {each['value']!r}"
            )


def _item(value: Any) -> list[str]:
    return yaml.safe_dump([value], sort_keys=False).splitlines()


def files() -> dict[Path, str]:
    """All that is made, by its path."""
    found = {CHART / "templates" / name: text for name, text in templates()}
    found |= {CHART / path.name: path.read_text() for path in COPIED}
    readme = CHART / "README.md"
    return {
        **found,
        CHART / "values.schema.json": schema(),
        CHART / "policy-keys.json": policy_keys(),
        readme: page(readme.read_text()),
    }


def left() -> set[Path]:
    """Templates that were made from what is no more."""
    made = {
        path for path in (CHART / "templates").glob("*.yaml") if path.read_text().startswith(HEADER.format("")[:16])
    }
    return made - files().keys()


def main() -> None:
    for path in left():
        path.unlink()
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()

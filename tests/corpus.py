"""Real manifests through the API server, with us and without: for the tests and `bench.corpus`.

Every pod in FOLDER, the pod of every template, and every workload itself, is created as a dry run in two namespaces that are
alike but for the opt-in. What is admitted without us must be admitted with us, or be refused by a rule that is named here. Prints
what each rule said, what was refused with us alone, and what we repaired. The nodes are generous: they offer every resource that
the manifests name, so that the size of one cluster says nothing here.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.controlplane.api import Api, ApiError
from tests.controlplane.kinds import path
from tests.controlplane.nodes import Json, node
from webhook.policy.templates import Templates, is_workload, templates

_RULE = re.compile(r"\[(\w+)\](?:$| \(policy|\n)", re.MULTILINE)


@dataclass
class Tally:
    """What came of a folder. Names are `file kind/name`."""

    both: list[str] = field(default_factory=list)
    neither: list[tuple[str, str, str]] = field(default_factory=list)
    """Refused either way: name, the API server's words, ours."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Refused with us alone: name, our words."""
    repaired: list[tuple[str, str]] = field(default_factory=list)
    """Refused without us, admitted with us: name, the API server's words."""
    rules: Counter[str] = field(default_factory=Counter)
    """Findings in refusals, by rule."""
    warned: Counter[str] = field(default_factory=Counter)
    """Warnings, by rule or injector."""


def documents(folder: Path) -> Iterator[tuple[str, Json]]:
    """Every document of every YAML file, with the file's name."""
    for file in sorted(folder.glob("*.yaml")):
        for found in yaml.safe_load_all(file.read_text()):
            if isinstance(found, dict) and found.get("kind"):
                yield file.name, found


def pods(name: str, found: Json) -> Iterator[tuple[str, Json]]:
    """The pods that a document makes, with nothing of its namespace."""
    kind, metadata = found["kind"], found.get("metadata") or {}
    title = f"{name} {kind}/{metadata.get('name')}"
    if kind == "Pod":
        kept = {k: v for k, v in metadata.items() if k in ("labels", "annotations", "name", "generateName")}
        yield title, {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": found["spec"]}
    else:
        group = str(found.get("apiVersion", "")).rpartition("/")[0]
        for template in templates(found, group, kind, Templates()):
            (owner,) = template.pod["metadata"]["ownerReferences"]
            owned = owner | {"uid": "00000000-0000-0000-0000-000000000001", "apiVersion": found["apiVersion"]}
            written = {k: v for k, v in template.pod["metadata"].items() if k in ("labels", "annotations")}
            metadata = written | {"generateName": "corpus-", "ownerReferences": [owned]}
            spec = template.pod["spec"]
            claims = [
                {"name": c["metadata"]["name"], "emptyDir": {}} for c in found["spec"].get("volumeClaimTemplates") or ()
            ]
            spec = spec | {"volumes": [*(spec.get("volumes") or ()), *claims]}
            yield title, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def workload(name: str, found: Json) -> Iterator[tuple[str, Json]]:
    """A document that is a workload of Kubernetes' own, with nothing of its namespace."""
    kind, metadata = found["kind"], found.get("metadata") or {}
    if is_workload(str(found.get("apiVersion", "")).rpartition("/")[0], kind):
        kept = {key: value for key, value in metadata.items() if key != "namespace"}
        yield f"{name} {kind}/{metadata.get('name')}", found | {"metadata": kept}


def resources(found: Json) -> set[str]:
    """The extended resources that a pod names."""
    spec = found["spec"]
    containers = [c for key in ("containers", "initContainers") for c in spec.get(key) or ()]
    parts = [(c.get("resources") or {}).get(part) or {} for c in containers for part in ("limits", "requests")]
    return {name for part in parts for name in part if "/" in name}


async def tried(api: Api, found: Json, namespace: str) -> tuple[str, tuple[str, ...]]:
    """Why the object is refused, empty where it is admitted; and the warnings that came with the answer."""
    try:
        answer = await api.request("POST", path(found["kind"], namespace), found, dryRun="All")
    except ApiError as error:
        return str(error.body.get("message", error)), error.warnings
    return "", answer.warnings


async def compare(api: Api, found: list[tuple[str, Json]], plain: str, ours: str) -> Tally:
    """Create every object in both namespaces, and count."""
    tally = Tally()
    for name, each in found:
        (without, before), (with_us, after) = await tried(api, each, plain), await tried(api, each, ours)
        tally.rules.update(_RULE.findall(with_us))
        tally.warned.update(text.partition(": ")[0] for text in after if text not in before)
        if without and with_us:
            tally.neither.append((name, without, with_us))
        elif with_us:
            tally.refused.append((name, with_us))
        elif without:
            tally.repaired.append((name, without))
        else:
            tally.both.append(name)
    return tally


def generous(found: list[tuple[str, Json]]) -> list[Json]:
    """Nodes that offer all that the pods name, and one for each set of labels that a pod wants to see."""
    names = {name for _, pod in found for name in resources(pod) if re.fullmatch(r"[a-z0-9.-]+/[\w.-]+", name)}
    offered = {name: "100000" for name in names if "kubernetes.io/" not in name}
    wanted: list[Json] = [{}]
    wanted += [labels for _, pod in found if (labels := node_labels(pod["spec"])) and labels not in wanted]
    kinds = [labels for number, labels in enumerate(wanted) if labels not in wanted[:number]]
    return [
        node(f"generous-{number}", cpu="4000", memory="64Ti", resources=offered, labels=labels)
        for number, labels in enumerate(kinds)
    ]


def node_labels(spec: Json) -> Json:
    """Labels that a pod's nodeSelector and the first term of its required node affinity are content with."""
    labels = dict(spec.get("nodeSelector") or {})
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in (required.get("nodeSelectorTerms") or ())[:1]:
        for expression in term.get("matchExpressions") or ():
            values = expression.get("values") or ["true"]
            if expression["operator"] in ("In", "Exists"):
                labels[expression["key"]] = values[0]
            elif expression["operator"] == "Gt":
                labels[expression["key"]] = str(int(values[0]) + 1)
    return labels

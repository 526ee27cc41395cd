"""A GPU pod is one that the API server takes.

What is found here the API server would refuse a moment later, between the two hooks: with the text of a regular expression,
without the word that was meant, and without what the other rules have to say. It is said here first, all at once. Nothing
is refused that it would accept; where a release or a feature gate decides, this rule is silent.

Switch it off where another mutating webhook completes pods after this one: one that fills in images, or adds volumes.

Fields read:   of GPU pods (a resource with a domain, or resourceClaims), and of templates with hostPath volumes, as those of
               drivers: metadata.name, generateName and labels; name, image, volumeMounts[*].name and resources of
               containers and init containers; names of spec.volumes and spec.serviceAccountName; spec.resourceClaims and
               tolerations; topologyKey of podAffinity and podAntiAffinity
Refused:       no image; names and values of labels that are none; names that come twice; mounts of volumes that are not
               there; claims without a source, or that the pod does not list; resources with a domain that have a request and
               no limit, or a different one; tolerations that match nothing; (anti-)affinity terms without topologyKey
DRA:           claims are looked at, not what they ask for.

Source: ValidatePodSpec and what it calls, pkg/apis/core/validation/validation.go; ValidateObjectMeta, apimachinery.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from webhook.errors import QuantityError
from webhook.interface import Context, Finding, Rule
from webhook.names import LABEL, SUBDOMAIN, VALUE_WORDS, Form, fix_of_value, generates, is_label_value
from webhook.pod import Container, Pod, claims_devices, labels_of, mounts_the_host
from webhook.quantity import parse
from webhook.text import Hint, bare, listed, nearest, quoted

_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
"""The last two only with feature gate TaintTolerationComparisonOperators, which is not for us to know."""
_NOT_THE_AUTHORS = "kube-api-access-"  # the API server adds this volume before we are asked
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class PodForm(Rule):
    """A GPU pod has the form that the API server demands: names, images, volumes, claims, tolerations."""

    early: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        spec = pod["spec"]
        of_a_driver = context.holder is not None and mounts_the_host(pod)
        if not (context.gpu_names or claims_devices(pod) or of_a_driver or _names_a_device(pod, context)):
            return
        if not context.template:
            yield from _pod_name(pod["metadata"])
        for key, value in labels_of(pod).items():
            if not is_label_value(value):
                yield Finding(f"metadata.labels[{bare(key)}]", quoted(value), VALUE_WORDS, fix_of_value(value))
        account = spec.get("serviceAccountName")
        if account and not SUBDOMAIN.holds(account):  # of a pod the API server looks it up before we are asked
            yield _renamed("spec.serviceAccountName", "service account", account, SUBDOMAIN)
        volumes = {volume.get("name") for volume in spec.get("volumes") or ()}
        claims = {claim.get("name") for claim in spec.get("resourceClaims") or ()}
        found = [container for container in context.containers(pod) if container.kind != "ephemeralContainers"]
        names = [container.spec.get("name") for container in found]
        if len(set(names)) < len(names) or not all([name and LABEL.holds(name) for name in names]):
            yield from _container_names(found)
        for container in found:
            fields = container.spec
            if not fields.get("image"):
                yield _no_image(container)
            mounts = fields.get("volumeMounts")
            if mounts and any([mount.get("name") not in volumes for mount in mounts]):
                yield from _mounts(container, mounts, volumes)
            if resources := fields.get("resources"):
                yield from _resources(container, resources, claims, context)
        if claims:
            yield from _claims(spec["resourceClaims"])
        if tolerations := spec.get("tolerations"):
            yield from _tolerations(tolerations)
        affinity = spec.get("affinity")
        if affinity and ("podAffinity" in affinity or "podAntiAffinity" in affinity):
            yield from _affinity(affinity)


def _names_a_device(pod: Pod, context: Context) -> bool:
    """Whether a container names a resource with a domain: what the policy calls GPUs may be too little."""
    every = [container.spec.get("resources") or {} for container in context.containers(pod)]
    return any([_is_extended(name) for r in every for part in ("limits", "requests") for name in r.get(part) or ()])


def _is_extended(name: str) -> bool:
    """IsNativeResource, pkg/apis/core/helper/helpers.go, the other way round."""
    return "/" in name and "kubernetes.io/" not in name


def _pod_name(metadata: Mapping[str, Any]) -> Iterator[Finding]:
    name = metadata.get("name")
    if name and not SUBDOMAIN.holds(name):
        yield _renamed("metadata.name", "pod name", name, SUBDOMAIN)
    elif not name and not generates(prefix := metadata.get("generateName") or ""):
        yield _renamed("metadata.generateName", "pod name", prefix, SUBDOMAIN, "-" if prefix.endswith("-") else "")


def _container_names(found: Sequence[Container]) -> Iterator[Finding]:
    """Of two that share a name the API server blames the init container, or the second one."""
    regular = {container.name for container in found if container.kind == "containers"}
    before: dict[str, set[str]] = {"initContainers": set(regular), "containers": set()}
    for container in found:
        name, path, taken = container.name, f"{container.field}.name", before[container.kind]
        if not name:
            yield Finding(path, "a container without a name", "a name for every container", "Name it, as main")
        elif not LABEL.holds(name):
            yield _renamed(path, "container name", name, LABEL)
        elif name in taken:
            wanted = "a name of its own for every container, init containers included"
            fix = f"Rename it, as {_another(name, regular.union(*before.values()))}"
            yield Finding(path, f"a second container {quoted(name)}", wanted, fix)
        taken.add(name)


def _renamed(path: str, what: str, name: str, form: Form, end: str = "") -> Finding:
    return Finding(path, f"{what} {quoted(name)}", form.words, form.fix(name, end))


def _another(name: str, taken: Collection[str]) -> str:
    numbered = (f"{name[: LABEL.longest - 5]}-{number}" for number in range(2, len(taken) + 3))
    return next(free for free in numbered if free not in taken)


def _no_image(container: Container) -> Finding:
    seen = f"no image in container {quoted(container.name)}"
    fix = "Set image, as registry.example/app:1.2; if a patch or a tool fills it in, apply what comes out of that"
    return Finding(f"{container.field}.image", seen, "the image to run", fix)


def _mounts(container: Container, mounts: Sequence[Mapping[str, Any]], volumes: Collection[str]) -> Iterator[Finding]:
    known = _authors(volumes)
    for index, mount in enumerate(mounts):
        name = mount.get("name") or ""
        if name not in volumes:
            seen = f"a mount of volume {quoted(name)} in container {quoted(container.name)}"
            path = f"{container.field}.volumeMounts[{index}].name"
            yield _unknown(path, seen, name, known, "volume", "Add it to spec.volumes, or remove the mount")


def _resources(
    container: Container, resources: Mapping[str, Any], claims: Collection[str], context: Context
) -> Iterator[Finding]:
    limits = resources.get("limits") or {}
    for name, request in (resources.get("requests") or {}).items():
        if "/" not in name or context.gpus.kind(name) is not None or not _is_extended(name):
            continue  # GPUs are for another rule, which can say more
        if name in limits and _same(request, limits[name]):
            continue
        limit = f"beside a limit of {quoted(limits[name])}" if name in limits else "without a limit"
        yield Finding(
            path=f"{container.field}.resources.requests[{bare(name)}]",
            seen=f"a request of {quoted(request)} {bare(name)} {limit} in container {quoted(container.name)}",
            wanted="the same number as limit: such resources cannot be overcommitted",
            fix=f"Write limits.{bare(name)}; if it is a GPU, name it under gpus in the policy, which then fills limits in",
        )
    known = _authors(claims) if resources.get("claims") else ()
    for index, claim in enumerate(resources.get("claims") or ()):
        name = claim.get("name") or ""
        if name not in claims:
            path, seen = f"{container.field}.resources.claims[{index}].name", f"claim {quoted(name)}"
            fix = "Add it to spec.resourceClaims, or remove it"
            yield _unknown(path, f"{seen} in container {quoted(container.name)}", name, known, "claim", fix)


def _same(request: Any, limit: Any) -> bool:
    try:
        return request == limit or parse(request) == parse(limit)
    except QuantityError:
        return True  # the API server did not even decode it


def _authors(known: Collection[str]) -> tuple[str, ...]:
    """The names that whoever wrote the pod gave, sorted."""
    return tuple(sorted([name for name in known if name and not name.startswith(_NOT_THE_AUTHORS)]))


def _unknown(path: str, seen: str, name: str, names: tuple[str, ...], kind: str, fix: str) -> Finding:
    wanted = f"a {kind} of the pod: {listed(names, show=bare)}" if names else f"a {kind} of the pod, which has none"
    return Finding(path, seen, wanted, Hint(name, names, "Write ", f" if that is meant; or a{fix[1:]}", fix))


def _claims(claims: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name, path = claim.get("name") or "", f"spec.resourceClaims[{index}]"
        given = [key for key, value in claim.items() if value is not None and key not in ("name", "source")]
        if not name:
            yield Finding(f"{path}.name", "a claim without a name", "a name that containers use", "Name it, as gpu")
        elif name in seen:
            fix = f"Rename it, as {_another(name, seen)}"
            yield Finding(f"{path}.name", f"a second claim {quoted(name)}", "a name of its own for every claim", fix)
        if not given:
            yield Finding(
                path=path,
                seen=f"claim {quoted(name)} without a source",
                wanted="resourceClaimName or resourceClaimTemplateName",
                fix="Name the ResourceClaim or its template right there: the old wrapper `source:` is no longer read",
            )
        elif "resourceClaimName" in given and "resourceClaimTemplateName" in given:
            fix = "Keep resourceClaimName for a claim that exists, resourceClaimTemplateName for one of the pod's own"
            yield Finding(path, f"claim {quoted(name)} with two sources", "one of the two", fix)
        seen.add(name)


def _tolerations(tolerations: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    for index, toleration in enumerate(tolerations):
        key, value = toleration.get("key"), toleration.get("value")
        operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
        if key and not value and operator in ("Exists", "Equal") and effect in _EFFECTS:
            continue  # the fast way
        path, of = f"spec.tolerations[{index}]", f"in the toleration of {quoted(key)}" if key else "in a toleration"
        if operator not in _OPERATORS:
            near = nearest(operator[:20].capitalize(), _OPERATORS[:2]) or "Exists"
            yield Finding(f"{path}.operator", f"operator {quoted(operator)} {of}", "Exists or Equal", f"Write {near}")
        elif not key and operator != "Exists":
            wanted, fix = "a key, or operator Exists, which tolerates every taint", "Write the key of the taint"
            yield Finding(f"{path}.key", f"operator {operator} without a key {of}", wanted, f"{fix}, as nvidia.com/gpu")
        elif operator == "Exists" and value:
            seen, fix = f"value {quoted(value)} beside operator Exists {of}", "Remove the value to tolerate any"
            yield Finding(f"{path}.value", seen, "no value: Exists takes any", f"{fix}, or write operator Equal")
        if effect not in (*_EFFECTS, ""):
            fix = f"Write {nearest(effect, _EFFECTS) or 'one of those, or remove it to tolerate every effect'}"
            yield Finding(f"{path}.effect", f"effect {quoted(effect)} {of}", " or ".join(_EFFECTS), fix)


def _affinity(affinity: Mapping[str, Any]) -> Iterator[Finding]:
    for kind in ("podAffinity", "podAntiAffinity"):
        for when, inner in _TERMS:
            for index, term in enumerate((affinity.get(kind) or {}).get(when) or ()):
                if not ((term.get(inner) or {}) if inner else term).get("topologyKey"):
                    yield Finding(
                        path=f"spec.affinity.{kind}.{when}[{index}].{inner}{'.' if inner else ''}topologyKey",
                        seen=f"a term of {kind} without topologyKey",
                        wanted="the node label over which pods are kept together or apart",
                        fix="Add topologyKey, as kubernetes.io/hostname",
                    )


_TERMS = (
    ("requiredDuringSchedulingIgnoredDuringExecution", ""),
    ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
)

"""What the API server does to a new pod before it calls webhooks, and what it refuses.

The pod in a review has been through this. A pod from a template or a file has not: the node selector, tolerations and overhead
of its RuntimeClass, the defaults of LimitRanges and its priority are missing. They are added here, so that it is checked as it
would be stored.

In the order of the API server: SetDefaults_Pod (pkg/apis/core/v1/defaults.go), then in plugin/pkg/admission limitranger,
priority, runtimeclass; after the webhooks have changed the pod, limitranger again, which refuses (`limit_ranges`). A second
application changes nothing. Left out is what decides nothing here: tolerations for a while of NoExecute taints, beside which
there are NoSchedule ones; names and volumes of the service account; a PriorityClass that does not exist, of which the rule
`priorityClass` tells.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.errors import QuantityError
from webhook.framework.cluster_view import Cluster, LimitRange, RuntimeClass
from webhook.framework.interface import Finding
from webhook.kube.pod import Pod, containers, with_requests
from webhook.kube.quantity import parse_quantity
from webhook.text import bare, quoted

UNIT: Final = "apiServer"
"""The name of a unit in messages, for what the API server refuses. No policy can turn it off."""


class Stored(NamedTuple):
    pod: Pod
    """A copy of the pod, as webhooks get it."""
    refusals: tuple[Finding, ...]
    """Why the API server refuses it before it calls any webhook."""


def as_stored(pod: Pod, namespace: str, cluster: Cluster) -> Stored:
    """The pod as the API server brings it to the mutating webhooks. What is not known of the cluster changes nothing."""
    stored = with_requests(pod)
    for limit_range in cluster.limit_ranges(namespace):
        _add_defaults(stored, limit_range)
    refusals = [*_set_priority(stored, cluster), *_apply_runtime_class(stored, cluster)]
    return Stored(stored, tuple(refusals))


def _add_defaults(pod: Pod, limit_range: LimitRange) -> None:
    """Limits and requests that containers do not state. An ephemeral container may state none."""
    for container in containers(pod) if limit_range.limits or limit_range.requests else ():
        if container.list_name != "ephemeralContainers":
            resources = container.spec.get("resources") or {}
            for part, defaults in (("limits", limit_range.limits), ("requests", limit_range.requests)):
                if missing := defaults.keys() - (resources.get(part) or {}).keys():
                    added = {name: amount for name, amount in defaults.items() if name in missing}
                    resources[part] = {**(resources.get(part) or {}), **added}
            if resources:
                container.spec["resources"] = resources


def _set_priority(pod: Pod, cluster: Cluster) -> Iterator[Finding]:
    spec, classes = pod["spec"], cluster.priority_classes
    if not cluster.knows_priority_classes:
        return
    if not spec.get("priorityClassName"):
        defaults = [each for each in classes.values() if each.global_default]
        if default := min(defaults, key=lambda each: each.value, default=None):
            spec["priorityClassName"] = default.name
    name = spec.get("priorityClassName")
    known = classes.get(name) if name else None
    if name and not known:
        return
    of = f"that of PriorityClass {quoted(name)}" if known else "none: the pod has no PriorityClass"
    wanted: dict[str, Any] = {"priority": known.value if known else 0}
    if known:
        wanted |= {"preemptionPolicy": known.preemption_policy}
    for field, value in wanted.items():
        if spec.get(field) not in (None, value):
            yield Finding(f"spec.{field}", quoted(str(spec[field])), f"{value}, {of}", "Remove the line")
        elif known:
            spec[field] = value


def _apply_runtime_class(pod: Pod, cluster: Cluster) -> Iterator[Finding]:
    spec = pod["spec"]
    name, own = spec.get("runtimeClassName"), spec.get("overhead")
    known = cluster.runtime_class(name) if name else None
    if not cluster.knows_runtime_classes:
        return
    if name and known is None:
        fix = "Name another, or have an administrator create it"
        yield Finding("spec.runtimeClassName", quoted(name), "a RuntimeClass that exists", fix)
        return
    overhead = known.overhead if known else {}
    if own and not _equal(own, overhead):
        of = f"that of RuntimeClass {quoted(name)}" if overhead else "none: no RuntimeClass gives the pod one"
        yield Finding("spec.overhead", "an overhead", of, "Remove the field")
    if known is not None:
        if overhead:
            spec["overhead"] = {**overhead}
        yield from _schedule(spec, known)


def _schedule(spec: dict[str, Any], runtime_class: RuntimeClass) -> Iterator[Finding]:
    """Where pods of the RuntimeClass may run."""
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in runtime_class.node_selector.items():
        if selector.setdefault(key, value) != value:
            wanted = f"{quoted(value)}, which RuntimeClass {quoted(runtime_class.name)} sets"
            fix = "Remove the line, or name another spec.runtimeClassName"
            yield Finding(f"spec.nodeSelector[{bare(key)}]", quoted(selector[key]), wanted, fix)
    if selector:
        spec["nodeSelector"] = selector
    if runtime_class.tolerations:
        spec["tolerations"] = _merged(spec.get("tolerations") or (), runtime_class.tolerations)


def _merged(first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Both, without those that another one covers (pkg/util/tolerations)."""
    every = [*first, *second]
    merged: list[Mapping[str, Any]] = []
    for position, each in enumerate(every):
        later = [other for other in every[position + 1 :] if _key(other) != _key(each)]
        if not any(_covers(other, each) for other in (*merged, *later)):
            merged.append(each)
    return merged


def _key(toleration: Mapping[str, Any]) -> tuple[Any, ...]:
    operator, seconds = toleration.get("operator") or "Equal", toleration.get("tolerationSeconds")
    return (operator, *[toleration.get(field) or "" for field in ("key", "value", "effect")], seconds)


def _covers(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether `wide` tolerates all that `narrow` does (isSuperset)."""
    operator, key, value, effect, seconds = _key(wide)
    other_operator, other_key, other_value, other_effect, other_seconds = _key(narrow)
    if _key(wide) == _key(narrow):
        return True
    if key != other_key and (key or operator != "Exists"):
        return False
    if effect not in ("", other_effect):
        return False
    if effect == "NoExecute" and seconds is not None and (other_seconds is None or other_seconds > seconds):
        return False
    same_value = operator == other_operator == "Equal" and value == other_value
    return bool(same_value or operator == "Exists")


def _equal(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two maps of quantities are equal in value."""
    try:
        return {k: parse_quantity(v) for k, v in one.items()} == {k: parse_quantity(v) for k, v in other.items()}
    except QuantityError:
        return False

"""Which nodes a pod fits by the rules of kube-scheduler, computed node by node from the plain objects.

Slow and literal on purpose: it shares no code with the tested modules but the parsing of quantities and
`total_requests`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import milli, whole

Object = dict[str, Any]
BAD_STATES = ("upgrade-failed", "drain-required")


def feasible(pod: Object, nodes: Iterable[Object], bound: Iterable[Object]) -> set[str]:
    """Names of the nodes that could take `pod`, with the `bound` pods on them."""
    bound = list(bound)
    return {n["metadata"]["name"] for n in nodes if _takes(pod, n, bound)}


def _takes(pod: Object, node: Object, bound: list[Object]) -> bool:
    spec = pod["spec"]
    return (
        _available(node, spec)
        and _tolerated(node, spec)
        and all(_labels(node).get(k) == v for k, v in (spec.get("nodeSelector") or {}).items())
        and _affine(node, spec)
        and _enough(pod, node, bound)
    )


def _available(node: Object, spec: Object) -> bool:
    conditions = {c["type"]: c["status"] for c in node["status"]["conditions"]}
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    may = not node["spec"].get("unschedulable") or any(_tolerates(t, cordon) for t in spec.get("tolerations") or ())
    healthy = _labels(node).get("nvidia.com/gpu-driver-upgrade-state") not in BAD_STATES
    return conditions["Ready"] == "True" and may and healthy and conditions.get("GpuUnhealthy") != "True"


def _tolerated(node: Object, spec: Object) -> bool:
    return all(
        any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or ())
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] in ("NoSchedule", "NoExecute")
    )


def penalty(pod: Object, node: Object) -> tuple[bool, int]:
    """Why a node that `pod` could use comes late: a cordon, and the number of soft taints that it does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or ()
    soft = [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "PreferNoSchedule"]
    ignored = sum(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in soft)
    return bool(node["spec"].get("unschedulable")), len(soft) - ignored


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect", "") not in ("", taint["effect"]):
        return False
    if toleration.get("key", "") not in ("", taint["key"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")


def _affine(node: Object, spec: Object) -> bool:
    selector = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    return selector is None or any(matches(node, term) for term in selector["nodeSelectorTerms"])


def matches(node: Object, term: Object) -> bool:
    """Whether a node matches one term."""
    stated = [(False, e) for e in term.get("matchExpressions") or ()] + [
        (True, e) for e in term.get("matchFields") or ()
    ]
    return bool(stated) and all(_matches(node, e, by_field) for by_field, e in stated)


def _matches(node: Object, expression: Object, by_field: bool) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    have = {"metadata.name": node["metadata"]["name"]} if by_field else _labels(node)
    value = have.get(key)
    if operator in ("Gt", "Lt"):
        try:
            number, limit = int(value or ""), int(values[0])
        except ValueError:
            return False
        return number > limit if operator == "Gt" else number < limit
    return {
        "In": value is not None and value in values,
        "NotIn": value is None or value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[operator]


def _enough(pod: Object, node: Object, bound: list[Object]) -> bool:
    name, offered = node["metadata"]["name"], node["status"]["allocatable"]
    here = [total_requests(p) for p in bound if p["spec"].get("nodeName") == name]
    if len(here) + 1 > int(offered["pods"]):
        return False
    for resource, amount in total_requests(pod).items():
        if amount > 0:
            read = milli if resource == "cpu" else whole
            if amount > read(offered.get(resource, "0")) - sum(used.get(resource, 0) for used in here):
                return False
    return True


def _labels(node: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("labels") or {}
    return found

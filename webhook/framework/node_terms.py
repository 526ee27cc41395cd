"""Node affinity terms that name nodes: writes them for ranked nodes, recognises them in a pod, and removes them."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from webhook.framework.cluster_view import Cluster, Placement
from webhook.kube.json_patch import Edit
from webhook.kube.pod import HOSTNAME, PREFERRED, REQUIRED

_NODE = ("spec", "affinity", "nodeAffinity")
PREFERRED_TERMS = (*_NODE, PREFERRED)
REQUIRED_TERMS = (*_NODE, REQUIRED, "nodeSelectorTerms")
CONSTRAINTS = ("spec", "topologySpreadConstraints")
NEUTRAL: Final[Mapping[str, Any]] = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"gpu-admission.io/selects": "nothing"}},
}
"""The constraint that selects no pod: with it, the scheduler spreads the pod by none of its own."""


def preferred_terms(placement: Placement, cluster: Cluster) -> list[dict[str, Any]]:
    """The PreferredSchedulingTerms of a placement: those that name the ranked nodes, then its further ones."""
    renamed = cluster.renamed_nodes
    terms = [
        {"weight": weight, "preference": _of_node(ranked.node, renamed)}
        for weight, ranked in zip(placement.weights, placement.nodes, strict=False)
    ]
    for preferred in placement.preferred:
        term: dict[str, Any] = {}
        for key, operator, values, field in preferred.expressions:
            if field:
                term |= _of_node(values[0], renamed)
                continue
            expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            term.setdefault("matchExpressions", []).append(expression)
        terms.append({"weight": preferred.weight, "preference": term})
    return terms


def _of_node(node: str, renamed: Set[str]) -> dict[str, Any]:
    """A term that prefers one node: by its hostname label, unless that differs from its name.

    Karpenter reads labels only, and of the heaviest term alone. Where a term says nothing to it, it makes a node without regard
    to the lighter ones, which may be the author's (karpenter/pkg/scheduling/requirements.go, newPodRequirements).
    """
    if node in renamed:
        return {"matchFields": [has_name(node)]}
    return {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}


def remove_terms(edit: Edit, preferred: Sequence[Mapping[str, Any]], pinned: str = "") -> None:
    """Remove these preferred terms, the constraint that stands beside them, and the requirement of the node `pinned`; also the
    affinity that is then empty, since who compares pods (Kueue) takes it for another one than none."""
    edit.put(PREFERRED_TERMS, [term for term in edit.get(PREFERRED_TERMS) or () if term not in preferred])
    edit.put(CONSTRAINTS, [each for each in edit.get(CONSTRAINTS) or () if each != NEUTRAL])
    pin = has_name(pinned)
    if edit.get(REQUIRED_TERMS) == [{"matchFields": [pin]}]:
        edit.remove(REQUIRED_TERMS[:-1])
    for index, term in enumerate(edit.get(REQUIRED_TERMS) or ()):
        if fields := term.get("matchFields"):
            edit.put((*REQUIRED_TERMS, index, "matchFields"), [field for field in fields if field != pin])
    if preferred or pinned:
        for path in (_NODE, _NODE[:-1]):
            if edit.get(path) == {}:
                edit.remove(path)


def named_node(term: Any) -> str | None:
    """The node that a term names, by its name or its hostname label, if that is its only requirement, as in our own terms."""
    if not isinstance(term, dict):
        return None
    fields, expressions = term.get("matchFields") or [], term.get("matchExpressions") or []
    if len(fields) + len(expressions) != 1:
        return None
    key, operator, values = map((fields or expressions)[0].get, ("key", "operator", "values"))
    if key == ("metadata.name" if fields else HOSTNAME) and operator == "In" and len(values or ()) == 1:
        return str(values[0])
    return None


def has_name(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "In", "values": [node]}


_VOLUMES = frozenset(
    (
        *("persistentVolumeClaim", "ephemeral", "csi"),  # VolumeBinding, VolumeZone, NodeVolumeLimits
        *("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd"),  # VolumeRestrictions
    )
)


def unchecked_part(spec: dict[str, Any]) -> str:
    """A part of the pod by which the scheduler filters nodes and placement does not; "" if there is none.

    These are the filters of the default profile (apis/config/v1/default_plugins.go) without those of `placement.feasible`.
    """
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get(REQUIRED):
            return f"required {kind}"
    if any([c.get("whenUnsatisfiable") == "DoNotSchedule" for c in spec.get("topologySpreadConstraints") or ()]):
        return "DoNotSchedule spread"
    if any([not _VOLUMES.isdisjoint(volume) for volume in spec.get("volumes") or ()]):
        return "volumes"
    if spec.get("resourceClaims"):
        return "resource claims"
    for containers in (spec.get("containers"), spec.get("initContainers")):
        for container in containers or ():
            if any([port.get("hostPort") for port in container.get("ports") or ()]):
                return "host ports"
    return ""

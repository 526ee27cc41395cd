"""Affinity to the nodes that placement ranked for the pod.

`preferred` (default): one preferred term per ranked node, the weights falling so that the scheduler's other scores do not
turn the order round; after them what the policy and the pod's annotations prefer in a node (`placement.preferences`), lighter
than these. The scheduler may take another node; the pod never waits because of us.

`required`: the first node, added to every term of the required affinity that there is. Terms are ORed, so a term of our own
beside them would widen the user's choice; an empty term matches nothing, and the pin would make it match, so it is left
alone. A pod that the scheduler judges by more than we look at (pods on other nodes, volumes, host ports, claimed devices)
is not pinned: the chosen node might be one that it can never take. It gets preferences instead, and the record says
`["notPinned", [why, terms]]`. Which pods are scheduled first is not known at admission: another one may take the room, or
have an anti-affinity against this one. Then the pod waits: its event says «didn't match Pod's node affinity/selector», its
reservation ends at once (`gpu_admission_reservations_ended_total{end="unschedulable"}`), so that other pods may have what
was reserved, and it runs once its node has room again. The scheduler of Kubernetes 1.34 does not notice that a pod went
which kept others away by its anti-affinity: they are tried again within five minutes, or when they are created again
(kubernetes/kubernetes#134393). Who cannot wait uses `preferred`.

Fields: spec.affinity.nodeAffinity. Sources: k8s.io/component-helpers scheduling/corev1/nodeaffinity,
pkg/scheduler/framework/plugins/nodeaffinity (scores are normalised to the best feasible node), and the filters in
pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from webhook.framework.cluster_view import Placement
from webhook.framework.interface import Context, Injector, Outcome
from webhook.framework.node_terms import PREFERRED_TERMS, REQUIRED_TERMS, is_node, preferences
from webhook.kube.json_patch import Edit
from webhook.kube.pod import REQUIRED


class NodeAffinity(Injector):
    """The chosen nodes go into the pod's node affinity."""

    needs_placement: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs the state of the cluster"
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "no node is preferred: {}",
        "present": "it prefers the chosen nodes already",
        "preferredPools": "no node was chosen ({}), so pools are preferred by label",
        "notPinned": "not pinned to one node ({}), the chosen ones are preferred",
        "preferred": "{} node(s) are preferred, the chosen one most",
        "required": "it must run on {}",
    }

    mode: Literal["preferred", "required"] = "preferred"
    """preferred (the scheduler may take another node) | required (only the first one: a pod may wait if it fills up; a pod
    with volume claims, host ports or rules about other pods is not pinned, for the node might not be able to take it)"""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        placement = context.placement
        if placement is None:
            return Outcome("none", "no placement")
        terms, unseen = preferences(placement), ""
        if not placement.nodes and not terms:
            return Outcome("none", placement.reason, placement.warning)
        if self.mode == "required" and placement.nodes:
            unseen = _unseen(edit.object["spec"])
            if not unseen:
                return _require(edit, placement)._replace(warning=placement.warning)
        if present := edit.get(PREFERRED_TERMS):
            terms = [term for term in terms if term not in present]
        if not terms:
            return Outcome("present", None, placement.warning)
        edit.extend(PREFERRED_TERMS, terms)
        if not placement.nodes:
            return Outcome("preferredPools", [placement.reason, len(terms)], placement.warning)
        if unseen:
            return Outcome("notPinned", [unseen, len(terms)], placement.warning)
        return Outcome("preferred", len(terms), placement.warning)


_VOLUMES = frozenset(
    (
        *("persistentVolumeClaim", "ephemeral", "csi"),  # VolumeBinding, VolumeZone, NodeVolumeLimits
        *("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd"),  # VolumeRestrictions
    )
)


def _unseen(spec: dict[str, Any]) -> str:
    """What the scheduler judges nodes by for this pod, and placement does not look at; "" where there is nothing.

    The filters of the default profile (apis/config/v1/default_plugins.go) less those that `placement.filters` follows.
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
    if spec.get("schedulingGroup") or spec.get("workloadRef"):
        return "gang scheduling"
    for containers in (spec.get("containers"), spec.get("initContainers")):
        for container in containers or ():
            if any([port.get("hostPort") for port in container.get("ports") or ()]):
                return "host ports"
    return ""


def _require(edit: Edit, placement: Placement) -> Outcome:
    pin = is_node(placement.nodes[0].node)
    if edit.get(REQUIRED_TERMS[:-1]) is None:
        edit.set(REQUIRED_TERMS, [{"matchFields": [pin]}])
        return Outcome("required", placement.nodes[0].node)
    terms: list[dict[str, Any]] = edit.get(REQUIRED_TERMS) or []
    pinned = False
    for index, term in enumerate(terms):
        if (term.get("matchExpressions") or term.get("matchFields")) and pin not in (term.get("matchFields") or ()):
            edit.extend((*REQUIRED_TERMS, index, "matchFields"), [pin])
            pinned = True
    return Outcome("required", placement.nodes[0].node) if pinned else Outcome("present")

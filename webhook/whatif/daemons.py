"""Pods of DaemonSets: the controller makes one for each node that is for it, and names that node in it.

k8s.io/kubernetes pkg/controller/daemon: util.AddOrUpdateDaemonPodTolerations, ReplaceDaemonSetPodNodeNameNodeAffinity.
"""

from typing import Final

from webhook.kube.pod import REQUIRED, Pod
from webhook.whatif.waiting import nodes, taints
from webhook.whatif.waiting.diagnosis import Filtered
from webhook.whatif.waiting.situation import Case, Situation, with_spec

_TOLERATED: Final = {
    **dict.fromkeys(("not-ready", "unreachable"), "NoExecute"),
    **dict.fromkeys(("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"), "NoSchedule"),
}
"""Taints of the node controller that its pods tolerate, with their effect."""


def as_daemon(pod: Pod, node: str = "") -> Pod:
    """The pod as the controller makes it, for this node; "": for any."""
    more = [
        {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": effect}
        for word, effect in _TOLERATED.items()
    ]
    made = with_spec(pod, tolerations=[*(pod["spec"].get("tolerations") or ()), *more])
    made = {"status": {"phase": "Pending"}, **made}
    if not node:
        return made
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = made["spec"].get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = (of_nodes.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    required = {"nodeSelectorTerms": [{**term, **here} for term in terms]}
    return with_spec(made, affinity={**affinity, "nodeAffinity": {**of_nodes, REQUIRED: required}})


def eligible(situation: Situation, pod: Pod) -> tuple[list[str], set[str]]:
    """The names of the nodes for which the controller makes a pod, and of those that could take it now."""
    case = Case(situation, pod)
    out = nodes.pinned(case).fails | nodes.selection(case).fails | taints.taints(case).fails
    return list(situation.named(situation.alive & ~out)), set(situation.named(Filtered(case).able))

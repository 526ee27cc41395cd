"""Taints and tolerations: what a taint says of its node, and which taints a toleration matches.

Source of the matching: k8s.io/api core/v1 (Toleration.ToleratesTaint).
"""

from collections.abc import Container, Mapping
from typing import Any, Final, Literal, NamedTuple

from webhook.vendors import model as vendors
from webhook.vendors.catalogue import taints

TaintKind = Literal["condition", "leaving", "starting", "gpu", "other"]
"""What a taint says of its node.

condition: something is wrong there, and the taint goes when it is repaired. leaving: the node will soon be removed. starting: a
program on the node is not ready yet. gpu: it keeps pods without GPUs away. other: who runs the cluster keeps it for some pods.
"""
KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
"""The effects of taints that keep pods away from the node."""
Tolerated = tuple[str, str | None, str]
"""Key, value and effect of taints: "" means any key and any effect, None any value."""


class Taint(NamedTuple):
    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        """As kubectl takes it: key=value:Effect."""
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


def node_taints(node: Mapping[str, Any]) -> list[Taint]:
    """The taints of a Node, in the order in which it has them."""
    return [
        Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
        for t in (node.get("spec") or {}).get("taints") or ()
    ]


CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that follows from `spec.unschedulable`, which is what the scheduler reads."""
_SAID: Final[tuple[vendors.TaintSays, ...]] = ("leaving", "starting", "gpu")
KUBERNETES: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
"""Prefixes of taints that Kubernetes itself sets."""
KNOWN: Final[tuple[tuple[str, str | None, TaintKind], ...]] = (
    # pkg/controller/nodelifecycle, and cloud-provider/api
    ("node.kubernetes.io/out-of-service", None, "leaving"),
    ("node.kubernetes.io/*", None, "condition"),
    ("node.cloudprovider.kubernetes.io/shutdown", None, "leaving"),
    ("node.cloudprovider.kubernetes.io/uninitialized", None, "starting"),
    ("node.cloudprovider.kubernetes.io/*", None, "condition"),
    # cluster-autoscaler/utils/taints
    ("ToBeDeletedByClusterAutoscaler", None, "leaving"),
    ("DeletionCandidateOfClusterAutoscaler", None, "leaving"),
    ("startup-taint.cluster-autoscaler.kubernetes.io/*", None, "starting"),
    ("ignore-taint.cluster-autoscaler.kubernetes.io/*", None, "starting"),
    ("status-taint.cluster-autoscaler.kubernetes.io/*", None, "condition"),
    # sigs.k8s.io/karpenter pkg/apis: "disruption" before version 1, "disrupted" since
    ("karpenter.sh/disrupt*", None, "leaving"),
    # sigs.k8s.io/node-readiness-controller
    ("readiness.k8s.io/*", None, "starting"),
    # by vendors and clouds
    *[(taint.key, taint.value, taint.says) for says in _SAID for taint in taints(says)],
    ("gpu", None, "gpu"),
    ("dedicated", "gpu", "gpu"),
)
"""Key (exact, or with a trailing `*`), value (None: any) and kind of taints, the first that matches."""
_STARTING: Final = ("agent-not-ready", "unregistered", "uninitialized")
"""Last parts of keys: of Cilium, of the CSI drivers of AWS, of Karpenter, of Cluster API, and of what is called alike."""


def kind_of(taint: Taint) -> TaintKind:
    """What a taint says of its node."""
    for key, value, kind in KNOWN:
        if value in (None, taint.value) and (taint.key.startswith(key[:-1]) if key.endswith("*") else taint.key == key):
            return kind
    return "starting" if taint.key.rpartition("/")[2] in _STARTING else "other"


def passes(taint: Taint) -> bool:
    """Whether a taint comes and goes with the state of its node, so that no pod should tolerate it to run there."""
    return kind_of(taint) in ("condition", "leaving", "starting")


def toleration(key: str, value: str | None, effect: str) -> dict[str, Any]:
    """A toleration as a pod has it. `value` None: of any value; `effect` "": of every effect."""
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator} | ({"effect": effect} if effect else {})


def matched(toleration: Mapping[str, Any]) -> Tolerated | None:
    """What a toleration matches; None if nothing.

    Which values `Gt` and `Lt` match depends on a feature gate (KEP-5471). The scheduler decides it: here they match any.
    """
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    effect = toleration.get("effect") or ""
    if operator == "Exists" or (operator in ("Gt", "Lt") and key):
        return key, None, effect
    return (key, toleration.get("value") or "", effect) if operator == "Equal" and key else None


def tolerates(tolerations: Container[Tolerated], taint: Tolerated) -> bool:
    """Whether one of these matches a taint, or all taints that `taint` stands for.

    Every node may have different taints, and a pod hundreds of tolerations: these are looked up, not tried one by one.
    """
    key, value, effect = taint
    keys = ("", None), (key, None), (key, value)
    return any([(k, v, "") in tolerations or (k, v, effect) in tolerations for k, v in keys])

"""What forbids that a pod is moved from its node: budgets, and annotations that say so."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from webhook.kube.pod import Pod, annotations_of, labels_of, owner
from webhook.kube.selectors import matcher
from webhook.text import quoted
from webhook.whatif.cluster.report import stays
from webhook.whatif.cluster.snapshot import Object, Snapshot

_CONTROLLERS: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds whose pods have the labels of their template; others add some, which a budget may select."""
_FORBIDDING: Final[Mapping[str, str]] = {
    "karpenter.sh/do-not-disrupt": "true",
    "karpenter.sh/do-not-evict": "true",
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
}
"""Annotations of pods, with the value that forbids it."""


CREATE_BUDGET: Final = "Create one with the selector of the workload, with maxUnavailable 1"


class Budgets:
    """The PodDisruptionBudgets of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._of: dict[str, list[tuple[Object, Callable[[Mapping[str, str]], bool]]]] = {}
        for each in snapshot.of("PodDisruptionBudget"):
            counts = matcher(each["spec"].get("selector"))
            self._of.setdefault(each["metadata"].get("namespace") or "", []).append((each, counts))

    def lacks(self, pod: Pod, replicas: int, *, serves: bool) -> str:
        """That a drain of nodes may evict all replicas at once of a workload that `serves` (`Policy.spreads`); "" if a budget
        counts them, and if that is not known."""
        by, namespace = owner(pod), pod["metadata"].get("namespace") or ""
        replicated = serves and replicas > 1 and by is not None and by.kind in _CONTROLLERS
        if not replicated or self._snapshot.lacks("PodDisruptionBudget", namespace) or self.of(pod):
            return ""
        why = f"{replicas} pods of a service without a PodDisruptionBudget: a drain of nodes may evict all of them at once"
        return f"{why}. {CREATE_BUDGET}"

    def of(self, pod: Pod) -> list[Object]:
        """The budgets that count the pod."""
        here, labels = self._of.get(pod["metadata"].get("namespace") or "", ()), labels_of(pod)
        return [each for each, counts in here if counts(labels)]

    def spent(self, pod: Pod) -> list[str]:
        """The names of those that allow no further disruption now."""
        return [
            each["metadata"]["name"] for each in self.of(pod) if not int(each["status"].get("disruptionsAllowed") or 0)
        ]


def forbidden(pod: Pod, budgets: Budgets) -> Iterator[str]:
    """Why nobody should move the pod. Nobody would create a bare pod again, one of its node comes back, and a claim that it
    names stays where it is."""
    if owner(pod) is None:
        yield "it has no controller: nobody would create it again"
    elif stays(pod):
        yield "it is one of its node, and comes back there"
    if any(entry.get("resourceClaimName") for entry in pod["spec"].get("resourceClaims") or ()):
        yield "it names a ResourceClaim, whose devices stay on the node"
    notes = annotations_of(pod)
    yield from [f"its annotation {key} is {value}" for key, value in _FORBIDDING.items() if notes.get(key) == value]
    yield from [f"PodDisruptionBudget {quoted(name)} allows no disruption now" for name in budgets.spent(pod)]

"""What both hooks say of one new pod, one after the other, as the API server asks them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from webhook.admission.decision import Decision, UnitFinding
from webhook.cli.offline import ask
from webhook.cluster.state import ClusterState
from webhook.errors import BadInput, BadReview
from webhook.framework.cluster_view import Placement
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_schema import check
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy

Outcome = Literal["refused", "changed", "unchanged", "notAsked"]
"""`notAsked`: the namespace has not opted in, or the pod has no GPU."""


class Verdict(NamedTuple):
    outcome: Outcome
    pod: Pod
    """As it would be stored, without the decision record; as it was asked for, where it is refused."""
    findings: tuple[UnitFinding, ...] = ()
    placement: Placement | None = None
    message: str = ""
    """Why it is refused."""

    @property
    def ranking(self) -> list[str]:
        """The nodes that it prefers, the chosen one first."""
        return [ranked.node for ranked in self.placement.nodes] if self.placement else []

    @property
    def node(self) -> str:
        """The one that is chosen; "" for none."""
        return next(iter(self.ranking), "")

    @property
    def units(self) -> list[str]:
        """The rules that found something."""
        return sorted({finding.unit for finding in self.findings})


def verdict(request: Request, where: str, policy: Policy, state: ClusterState, placer: Placer, now: float) -> Verdict:
    """Nothing is reserved. `where` stands for the pod in messages. Raises BadInput where it is none."""
    view = state.view(now)
    try:
        pod = check(request.object)
        first, second, after = ask(request, policy, view, placer)
    except BadReview as error:
        raise BadInput(f"{where}: {error}") from None
    if second.result == "denied":
        return _refused(pod, second)
    if first.result == second.result == "ignored":
        return Verdict("notAsked", pod)
    before, stored = _undecided(pod), _undecided(after)
    outcome: Outcome = "unchanged" if stored == before else "changed"
    return Verdict(outcome, stored, second.findings, first.placement)


def _refused(pod: Pod, decision: Decision) -> Verdict:
    return Verdict("refused", pod, decision.findings, None, decision.message)


def _undecided(pod: Pod) -> Pod:
    """Without the decision record, which differs from policy to policy."""
    annotations = {k: v for k, v in (pod["metadata"].get("annotations") or {}).items() if k != DECISION}
    metadata = {k: v for k, v in pod["metadata"].items() if k != "annotations"}
    return {**pod, "metadata": metadata | ({"annotations": annotations} if annotations else {})}

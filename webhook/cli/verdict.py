"""The decision of both hooks on one new pod, summed up as one outcome. The commands `test` and `replay` compare it."""

from typing import Literal, NamedTuple

from webhook.admission.decision import IGNORED, UnitFinding
from webhook.cli.offline import Document, as_new, ask, opted_in, refused, refused_by_limits
from webhook.errors import BadInput, BadReview
from webhook.framework.cluster_view import Placement
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_schema import check
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.state import ClusterState

Outcome = Literal["refused", "changed", "unchanged", "notAsked"]
"""`notAsked`: the namespace has not opted in, or the pod has no GPU."""


class Verdict(NamedTuple):
    outcome: Outcome
    pod: Pod
    """The pod as it would be stored, without the decision record. If it is refused: the pod as the hooks would get it."""
    findings: tuple[UnitFinding, ...] = ()
    placement: Placement | None = None
    message: str = ""
    """Why the pod is refused; "" if it is not."""

    @property
    def ranking(self) -> list[str]:
        """The names of the ranked nodes, the chosen one first."""
        return [ranked.node for ranked in self.placement.nodes] if self.placement else []

    @property
    def node(self) -> str:
        """The name of the chosen node; "" if none is chosen."""
        return next(iter(self.ranking), "")

    @property
    def units(self) -> list[str]:
        """The names of the rules that have a finding, sorted."""
        return sorted({finding.unit for finding in self.findings})


def verdict(document: Document, policy: Policy, state: ClusterState, placer: Placer, now: float) -> Verdict:
    """Ask both hooks about a new pod. No node is reserved. Raises BadInput if the object is not a pod."""
    try:
        check(document.request.object)
        view = state.view(now)
        document = as_new(document, view)
        request, pod = document.request, document.request.object or {}
        asked = opted_in(request.namespace, view)
        if before := refused(request, document.refusals):
            return Verdict("refused", pod, before.findings, None, before.message)
        mutated, validated, patched = ask(request, policy, view, placer) if asked else (IGNORED, IGNORED, pod)
        if document.plain and mutated.result != "denied":
            validated = refused_by_limits(request, patched, view) or validated
    except BadReview as error:
        raise BadInput(f"{document.where}: {error}") from None
    if validated.result == "denied":
        return Verdict("refused", pod, validated.findings, None, validated.message)
    if not asked:
        return Verdict("notAsked", pod)
    if mutated.result == validated.result == "ignored":
        return Verdict("notAsked", pod)
    stored = without_record(patched)
    outcome: Outcome = "unchanged" if stored == without_record(pod) else "changed"
    return Verdict(outcome, stored, validated.findings, mutated.placement)


def without_record(pod: Pod) -> Pod:
    metadata = pod.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != DECISION}
    kept = {**metadata, "annotations": annotations}  # at their place, so that a diff shows no more than changes
    return {**pod, "metadata": {k: v for k, v in kept.items() if k != "annotations" or v}}

"""The decision of the API server and of both hooks on one new pod, summed up as one outcome. `try`, `policy test` and `policy
diff` show it."""

from typing import Literal, NamedTuple

from webhook.admission.decision import IGNORED, Decision
from webhook.errors import BadInput, BadReview
from webhook.framework.cluster_view import Placement
from webhook.kube.pod import DECISION, Pod
from webhook.kube.pod_schema import check
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.state.view import StateView
from webhook.whatif.offline import Document, as_new, ask, opted_in, refused, refused_by_limits

Outcome = Literal["refused", "changed", "unchanged", "notAsked"]
"""`notAsked`: the namespace has not opted in, or the pod has no GPU."""


class Verdict(NamedTuple):
    outcome: Outcome
    request: Request
    """The request with the pod as the API server brings it to the hooks."""
    decided: Pod
    """The pod as it would be stored. If it is refused: as the hooks would get it."""
    mutated: Decision = IGNORED
    validated: Decision = IGNORED
    asked: bool = True
    """Whether the namespace has opted in."""

    @property
    def brought(self) -> Pod:
        return self.request.object or {}

    @property
    def pod(self) -> Pod:
        """As it would be stored, without the decision record."""
        return without_record(self.decided)

    @property
    def message(self) -> str:
        """Why the pod is refused, or would be if its profile were not in dry run; "" if it is not."""
        return self.validated.message or self.mutated.message

    @property
    def placement(self) -> Placement | None:
        return None if self.outcome == "refused" else self.mutated.placement

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
        return sorted({finding.unit for finding in self.validated.findings})


def verdict(
    document: Document,
    policy: Policy,
    view: StateView,
    placer: Placer,
    *,
    asks: bool = True,
    chooses: bool = True,
    everywhere: bool = False,
) -> Verdict:
    """Ask both hooks about a new pod, with `asks` and if its namespace has opted in or `everywhere`. `chooses`: whether a node is
    chosen; none is reserved. Raises BadInput if the object is not a pod."""
    try:
        check(document.request.object)
        document = as_new(document, view)
        request = document.request
        asked = asks and (everywhere or opted_in(request.namespace, view))
        if before := refused(request, document.refusals):
            return Verdict("refused", request, request.object or {}, IGNORED, before, asked)
        mutated, validated, pod = (
            ask(request, policy, view, placer, chooses=chooses) if asked else (IGNORED, IGNORED, request.object or {})
        )
        if document.plain and mutated.result != "denied":
            validated = refused_by_limits(request, pod, view) or validated
    except BadReview as error:
        raise BadInput(f"{document.where}: {error}") from None
    if validated.result == "denied":
        return Verdict("refused", request, request.object or {}, mutated, validated, asked)
    outcome: Outcome = "unchanged" if without_record(pod) == without_record(request.object or {}) else "changed"
    if not asked or mutated.result == validated.result == "ignored":
        outcome = "notAsked"
    return Verdict(outcome, request, pod, mutated, validated, asked)


def without_record(pod: Pod) -> Pod:
    metadata = pod.get("metadata") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != DECISION}
    kept = {**metadata, "annotations": annotations}  # at their place, so that a diff shows no more than changes
    return {**pod, "metadata": {k: v for k, v in kept.items() if k != "annotations" or v}}

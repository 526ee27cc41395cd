"""Decides: a request, a policy and the cluster at one moment in; a decision out. No I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from webhook import explain
from webhook.cluster.pods import claim_of
from webhook.decision import (
    IGNORED,
    Decision,
    Findings,
    Home,
    context_of,
    exempt,
    findings,
    fitting,
    home_of,
    pod_of,
)
from webhook.facts import Cluster, Placement
from webhook.injectors.node_affinity import PREFERRED, REQUIRED, named_node
from webhook.interface import Context, Finding, Refusal
from webhook.patch import Edit, apply
from webhook.placement import Placer, Rank, ask_of
from webhook.placement.settings import PlacementSettings
from webhook.pod import DECISION, Pod, annotations_of
from webhook.policy import Policy
from webhook.review import Request

_MOST_GPU_NAMES = 64
"""Of one pod. More were invented to keep this program busy; the validating hook says so."""
_ANNOTATION = ("metadata", "annotations", DECISION)


def mutate(
    request: Request,
    policy: Policy,
    cluster: Cluster,
    original: Callable[[], Pod],
    placer: Placer | None = None,
    rank: Rank | None = None,
) -> Decision:
    """Decide for a new pod. `request.object` is changed in place; `original` gives it again as it was received.
    `placer` chooses nodes of that `cluster`; without one none is chosen.

    Raises BadPod where there is no object, and anything where it has not the shape of a pod.
    """
    if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
        return IGNORED
    home = home_of(request.namespace, policy, cluster)
    if home is None:
        return IGNORED
    pod = pod_of(request.object)
    context = context_of(request, pod, policy, cluster)
    if len(context.gpu_names) > _MOST_GPU_NAMES:
        return IGNORED
    injectors = policy.injectors(home.profile) if context.gpu_names else policy.injectors_for_every_pod(home.profile)
    decision = Decision("unchanged", home.profile, context.workload.name, unknown_profile=home.unknown)
    decision.warnings = [home.warning, context.workload.warning]
    if not injectors:  # it has no GPU that we know, but may have claims or other devices
        early = _early(request, pod, context, policy, home)
        return _refused_early(decision, early, request, context, policy, home, placer) if early else IGNORED
    edit = Edit(pod)
    context.strategy = home.settings.placement.strategy(context.workload.name) if context.gpu_names else "pack"
    if placer is not None:
        context.place = partial(
            placer.place,
            cluster=cluster,
            settings=home.settings.placement,
            strategy=context.strategy,
            gpus=context.gpus,
            workload=context.workload.name,
        )
        rank = rank or placer.answer
    before = explain.previous(pod, _named_nodes(edit), context.strategy) if DECISION in annotations_of(pod) else None
    said: Findings = []
    for name, injector in injectors:
        if name in _AFTER_PLACEMENT and context.placement is None:
            context.placement = before or _chosen(decision, pod, context, home.settings.placement, rank)
        try:
            outcome = decision.outcomes[name] = injector.inject(edit, context)
        except Refusal as refusal:  # the others go on: rules judge the pod as it would have been
            said += [(name, "deny", finding) for finding in refusal.findings]
        else:
            decision.warnings.append(outcome.warning)
    if said or _early(request, pod, context, policy, home):
        return _refused_early(decision, said, request, context, policy, home, placer)
    decision.placement = context.placement
    _finish(decision, edit, policy, known=before is not None)
    if decision.patch is not None and not _holds(decision.patch, original, pod):
        decision.result, decision.patch = "gated", None
        decision.warnings = ["gpu-admission: internal error, the pod was left as it was: please report this"]
    elif home.settings.shadow:
        decision.result, decision.patch = "shadow", None
    if decision.result == "patched" and decision.ask is not None and decision.placement and decision.placement.nodes:
        decision.claim, decision.reserve = claim_of(pod), not request.dry_run
    return decision


def _chosen(
    decision: Decision, pod: Pod, context: Context, settings: PlacementSettings, rank: Rank | None
) -> Placement:
    """The ranked nodes, or why there are none."""
    if rank is None:
        return Placement((), context.strategy, "cluster state is not known")
    ask = ask_of(pod, settings, context.strategy, context.gpus, context.workload.name)
    if isinstance(ask, Placement):
        return ask
    decision.ask = ask
    return rank(ask, context.cluster, settings, context.gpus)


def _early(request: Request, pod: Pod, context: Context, policy: Policy, home: Home) -> Findings:
    """What the API server would refuse in its own words before the validating hook is asked."""
    found = _denials(findings(pod, context, policy.early_rules(home.profile)))
    return [] if found and exempt(request, pod, home) else found


def _refused_early(
    decision: Decision,
    said: Findings,
    request: Request,
    context: Context,
    policy: Policy,
    home: Home,
    placer: Placer | None,
) -> Decision:
    """Refused before the API server looks, with what every rule has to say: one round trip, all mistakes.

    Where no rule says it, because that one is off, the injector's own words stand: `said`.
    """
    pod = pod_of(request.object)
    context.fits_empty = fitting(placer, context.cluster, policy, home)
    found = [] if exempt(request, pod, home) else list(findings(pod, context, policy.rules(home.profile)))
    decision.findings = found if _denials(found) else [*said, *found]
    return refused(decision, policy, shadow=home.settings.shadow)


def _denials(found: Iterable[tuple[str, str, Finding]]) -> Findings:
    return [told for told in found if told[1] == "deny"]


_AFTER_PLACEMENT = frozenset(("topologySpread", "nodeAffinity"))
"""These two must agree on the chosen nodes: placement comes before the first of them, on the pod as it is then."""


def _finish(decision: Decision, edit: Edit, policy: Policy, *, known: bool) -> None:
    found = explain.record(policy.hash, decision.profile, decision.workload, decision.outcomes, decision.placement)
    decision.record = explain.encoded(found)
    if edit or not (known or DECISION in (edit.get(("metadata", "annotations")) or ())):
        edit.set(_ANNOTATION, decision.record)
        decision.result, decision.patch = "patched", edit.patch()


def _holds(patch: bytes, original: Callable[[], Pod], edited: Pod) -> bool:
    """The gate: a patch that does not apply is a 500 for the user, even under failurePolicy Ignore."""
    try:
        return apply(patch, original()) == edited
    except (LookupError, TypeError, ValueError):
        return False


def _named_nodes(edit: Edit) -> set[str | None]:
    """The nodes that the pod's affinity calls by name as our own terms do."""
    preferred = {named_node(term.get("preference")) for term in edit.get(PREFERRED) or ()}
    fields = [field for term in edit.get(REQUIRED) or () for field in term.get("matchFields") or ()]
    return preferred | {named_node({"matchFields": [field]}) for field in fields}


def validate(request: Request, policy: Policy, cluster: Cluster, placer: Placer | None = None) -> Decision:
    """Check a pod. On an UPDATE only what the update brings counts: what was there before is not its fault.

    Raises BadPod where there is no object, and anything where it has not the shape of a pod.
    """
    if request.resource != "pods" or request.subresource not in ("", "ephemeralcontainers"):
        return IGNORED
    if request.operation not in ("CREATE", "UPDATE"):
        return IGNORED
    home = home_of(request.namespace, policy, cluster)
    if home is None:
        return IGNORED
    pod = pod_of(request.object)
    old = None if request.old is None else pod_of(request.old)
    if (
        old is not None
        and old["spec"] == pod["spec"]
        and old["metadata"].get("annotations") == pod["metadata"].get("annotations")
    ):
        return IGNORED
    if exempt(request, pod, home):
        return Decision("allowed", home.profile)
    context = context_of(request, pod, policy, cluster)
    context.old = old
    context.fits_empty = fitting(placer, cluster, policy, home)
    decision = Decision("allowed", home.profile, context.workload.name, unknown_profile=home.unknown)
    decision.findings.extend(findings(pod, context, policy.rules(home.profile)))
    if any(action == "deny" for _, action, _ in decision.findings):
        refused(decision, policy, shadow=home.settings.shadow)
    return decision


def refused(decision: Decision, policy: Policy, *, shadow: bool) -> Decision:
    denials = [(name, finding) for name, action, finding in decision.findings if action == "deny"]
    decision.complaint = explain.complaint(denials, policy.hash)
    decision.result = "shadow" if shadow else "denied"
    return decision

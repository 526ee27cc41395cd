"""Shared by the decisions about pods and workloads: the namespace's profile, the context of the units, the rules' findings."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from webhook.admission.decision import Decision, Result, UnitFinding
from webhook.admission.earlier import Choice
from webhook.admission.record import refusal_message
from webhook.errors import BadPod
from webhook.framework.cluster_view import Cluster
from webhook.framework.interface import Context, Edit, Finding, Injector, Outcome, Rule, Template
from webhook.kube import bounds
from webhook.kube.asked import AskedPod
from webhook.kube.claim_requests import ClaimRequest
from webhook.kube.other_gpus import CLASS_VENDORS
from webhook.kube.pod import (
    INJECTION,
    OFF,
    PROFILE_LABEL,
    Pod,
    annotations_of,
)
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.placement.strategies import spreads
from webhook.policy.model import Checks, Policy, Profile
from webhook.text import quoted

MAX_FINDINGS = 20
"""Maximum number of findings reported per rule."""
_MAX_OLD_FINDINGS = 200
"""Maximum number of findings per rule in the old object. Only these are subtracted from the findings in the new object."""
_SIZE = "podSize"
"""The unit name under which messages and metrics report an exceeded bound. No policy can turn it off."""
Injectors = Sequence[tuple[str, Injector]]
"""With their names, in run order."""


class NamespaceProfile(NamedTuple):
    """The profile that a namespace's label names."""

    name: str
    settings: Profile
    unknown: bool
    """The policy has no profile of the name in the label, so this is the default one."""
    warning: str | None


def profile_of(namespace: str, policy: Policy, cluster: Cluster) -> NamespaceProfile:
    """The profile of a namespace; the default one if we know no label of it.

    The API server sends requests of labelled namespaces only. So a namespace that we do not know, or know without the label,
    has opted in, and our watch lags behind.
    """
    label = (cluster.namespace_labels(namespace) or {}).get(PROFILE_LABEL, "")
    name, settings = policy.profile(label)
    unknown = label not in (name, "")
    warning = f'namespace label {PROFILE_LABEL}: the policy has no such profile; "{name}" is used' if unknown else None
    return NamespaceProfile(name, settings, unknown, warning)


def pod_of(obj: Pod | None) -> Pod:
    """The object itself. Raises BadPod if there is none.

    Its types are not checked here: the API server has decoded it. If a decision fails, the handler calls `pod_schema.check`
    to tell a malformed pod from a bug of ours.
    """
    if obj is None:
        raise BadPod("object: wanted a Pod, saw none")
    return obj


def context_of(
    request: Request,
    pod: Pod,
    policy: Policy,
    cluster: Cluster,
    profile: NamespaceProfile,
    placer: Placer | None,
    *,
    written: Pod | None = None,
    old: Pod | None = None,
    template: Template | None = None,
    claimed: tuple[ClaimRequest, ...] = (),
) -> Context:
    """The context of the units for one pod. `placer` ranks the nodes of `cluster`; None: no node is chosen. The others: see
    `Context`. Only the rules of the validating hook read `claimed`."""
    asked = AskedPod(pod, policy.gpus)
    labels = cluster.namespace_labels(request.namespace) or ()
    workload = policy.classify(pod, asked.owner, request.namespace, labels)
    settings = profile.settings.placement
    strategy = settings.strategy(workload.name) if asked.gpu_names or asked.claims_devices else "pack"
    nodes = None
    if placer is not None:
        nodes = Choice(placer, cluster, settings, strategy, workload.name)
    return Context(
        namespace=request.namespace,
        gpus=policy.gpus,
        cluster=cluster,
        workload=workload,
        pod=asked,
        other_gpus=asked.other_gpus | _claimable(cluster) if asked.claims_devices else asked.other_gpus,
        claimed=claimed,
        left_alone=asked.annotations.get(INJECTION) == OFF,
        written=written,
        groups=request.groups,
        operation=request.operation,
        old=old,
        template=template,
        nodes=nodes,
        spreads=spreads(strategy),
    )


class Injected(NamedTuple):
    """What injectors did to a pod."""

    outcomes: dict[str, Outcome]
    idle: dict[str, Injector]
    """Those that changed nothing."""
    pod: AskedPod
    """The pod that the node is chosen for: as all others leave it."""

    @property
    def done(self) -> list[str]:
        """The names of those that changed it."""
        return [name for name in self.outcomes if name not in self.idle]


def injected(injectors: Injectors, edit: Edit, context: Context) -> Injected:
    """Change the pod of `edit` by these injectors. If one of them has changed it, the pod is read again before a node is
    chosen."""
    outcomes: dict[str, Outcome] = {}
    idle: dict[str, Injector] = {}
    pod: AskedPod | None = None
    for name, injector in injectors:
        if injector.chooses:
            pod = context.pod.changed(edit.object)
            context = context._replace(pod=pod)
        before = len(edit.operations)
        outcomes[name] = injector.apply(edit, context)
        if len(edit.operations) == before:
            idle[name] = injector
    return Injected(outcomes, idle, pod or context.pod.changed(edit.object))


def _claimable(cluster: Cluster) -> frozenset[str]:
    """Every vendor with a DRA driver: which device a claim is for is not known here."""
    return frozenset([CLASS_VENDORS.get(driver, driver.removeprefix("gpu.")) for driver in cluster.dra_drivers])


def exempt(request: Request, pod: Pod, profile: NamespaceProfile) -> bool:
    """Whether an exemption of the profile covers this request for the pod."""
    return any([exemption.covers(request, pod) for exemption in profile.settings.exempt])


def findings_of(pod: AskedPod, context: Context, checks: Checks) -> list[UnitFinding]:
    """The findings of the rules. On an UPDATE only those that the old object does not have.

    Each rule yields at most MAX_FINDINGS, so that neither the message nor the time grows with the pod. Findings of several
    rules with the same cause are reported by one of them: the first that denies, else the first.
    """
    found: list[tuple[str, Rule, Finding]] = []
    if context.old is None:
        for name, rule, check in checks:
            most = len(found) + MAX_FINDINGS
            for finding in check(pod, context):
                found.append((name, rule, finding))
                if len(found) == most:
                    break
    else:
        old = AskedPod(_as_before(context.old, pod.json), context.gpus)
        new = ((name, rule, _new(check(pod, context), rule, old, context)) for name, rule, check in checks)
        found = [(name, rule, f) for name, rule, of_rule in new for f in islice(of_rule, MAX_FINDINGS)]
    if not found:
        return []
    findings: list[UnitFinding] = []
    by_cause: dict[str, UnitFinding] = {}
    for name, rule, finding in found:
        unit_finding = UnitFinding(name, "warn" if finding.only_warn else rule.action, finding)
        findings.append(unit_finding)
        first = by_cause.setdefault(finding.cause, unit_finding)
        if unit_finding.action == "deny" and first.action != "deny":
            by_cause[finding.cause] = unit_finding
    return [
        unit_finding
        for unit_finding in findings
        if not unit_finding.finding.cause or by_cause[unit_finding.finding.cause].unit == unit_finding.unit
    ]


def _new(findings: Iterable[Finding], rule: Rule, old: AskedPod, context: Context) -> Iterator[Finding]:
    """The findings that the old object does not have. The rule checks it only if there is a finding.

    The text of a finding is cut, so two values may give the same one. What is added is told by the number of equal findings.
    """
    before: Counter[Finding] | None = None
    for finding in findings:
        if before is None:
            before = Counter(islice(rule.check(old, context), _MAX_OLD_FINDINGS))
        before[finding] -= 1
        if before[finding] < 0:
            yield finding


def _as_before(old: Pod, pod: Pod) -> Pod:
    """The old object, to compare its findings with those of the pod.

    It is without the annotations that have another value now: these are the only values that an update can change and a rule
    quotes, and findings quote them cut. Its ephemeral containers are where the pod has them: a patch puts a new one first.
    """
    now = annotations_of(pod)
    kept = {key: value for key, value in annotations_of(old).items() if now.get(key) == value}
    found: Pod = {**old, "metadata": {**old["metadata"], "annotations": kept}}
    if before := {each.get("name"): each for each in old["spec"].get("ephemeralContainers") or ()}:
        after = pod["spec"].get("ephemeralContainers") or ()
        moved = [before.get(each.get("name"), {}) for each in after]
        found["spec"] = {**old["spec"], "ephemeralContainers": moved}
    return found


def size_findings(excesses: Iterable[bounds.Excess]) -> list[UnitFinding]:
    """The findings for exceeded bounds. The rules do not run on such an object."""
    return [
        UnitFinding(
            _SIZE,
            "deny",
            Finding(
                field,
                f"{number} {noun}{'' if field == 'object' else ' in all'}",
                f"at most {limit}",
                "Split it; nothing else in it was checked",
            ),
        )
        for field, number, noun, limit in excesses
    ]


def without_none(*warnings: str | None) -> tuple[str, ...]:
    return tuple([warning for warning in warnings if warning])


def denials(findings: Sequence[UnitFinding]) -> list[UnitFinding]:
    return [finding for finding in findings if finding.action == "deny"]


def decided(
    request: Request,
    findings: Sequence[UnitFinding],
    policy: Policy,
    profile: NamespaceProfile,
    workload: str = "",
    would: str = "",
) -> Decision:
    """The decision by the findings: to refuse, for all denials among them, else to allow. A refusal with a profile in dry run has
    the result "dryRun"."""
    result: Result = "allowed"
    message, dry_run = "", profile.settings.dry_run
    if denied := denials(findings):
        result, would = "dryRun" if dry_run else "denied", ""
        why = refusal_message([(denial.unit, denial.finding) for denial in denied], policy.hash)
        message = f"{subject_of(request)}: {why}"
    return Decision(
        result,
        profile.name,
        workload,
        policy.hash,
        message=message,
        findings=tuple(findings),
        unknown_profile=profile.unknown,
        quiet=dry_run,
        would=would,
    )


def subject_of(request: Request) -> str:
    """The kind and name of the object, for messages.

    If the name is generated, only generateName: a controller tries again with another name each time, and equal messages
    make one Event with a count (client-go/tools/record/events_cache.go).
    """
    kind = "pod" if request.kind == "Pod" else request.kind
    if (request.generated and request.name.startswith(request.generated)) or not request.name:
        return f"{kind} generateName {quoted(request.generated)}"
    return f"{kind} {quoted(request.name)}"

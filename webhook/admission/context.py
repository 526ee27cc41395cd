"""What a decision is made from: the profile of the namespace, the context of the units, and the findings of the rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from webhook.admission import record
from webhook.admission.decision import Decision, Found
from webhook.errors import BadPod
from webhook.framework.cluster_view import Cluster
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import bounds
from webhook.kube.pod import Pod, gpu_names, owner
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import DEFAULT_PROFILE, Policy, Profile
from webhook.text import quoted

PROFILE_LABEL = "gpu-admission.io/profile"
_MOST_OF_ONE_RULE = 20
_MOST_EXCUSED = 200
"""Findings of one rule on the old object. Those beyond that excuse nothing in the new one."""
_SIZE = "podSize"
"""The name under which messages and metrics report bounds. No policy can turn it off."""
Rules = Sequence[tuple[str, Rule]]


class NamespaceProfile(NamedTuple):
    """The profile that a namespace's label names."""

    name: str
    settings: Profile
    unknown: bool
    """The policy has no profile of that name; this is the default one."""
    warning: str | None


def profile_of(namespace: str, policy: Policy, cluster: Cluster) -> NamespaceProfile | None:
    """The profile of a namespace; None where it has not opted in.

    A namespace that we do not know counts as opted in: the API server asks only for labelled ones, and our watch may lag.
    """
    labels = cluster.namespace_labels(namespace)
    if labels is None:
        return NamespaceProfile(*policy.profile(DEFAULT_PROFILE), unknown=False, warning=None)
    wanted = labels.get(PROFILE_LABEL)
    if wanted is None:
        return None
    name, settings = policy.profile(wanted)
    unknown = wanted not in (name, "")
    warning = f'namespace label {PROFILE_LABEL}: the policy has no such profile; "{name}" is used' if unknown else None
    return NamespaceProfile(name, settings, unknown, warning)


def pod_of(obj: Pod | None) -> Pod:
    """The object itself. Its types are not checked here: the API server has decoded it. If a decision fails, the handler calls
    `pod_schema.check` to tell a malformed pod from a bug of ours.
    """
    if obj is None:
        raise BadPod("object: wanted a Pod, saw none")
    return obj


def context_of(
    request: Request, pod: Pod, policy: Policy, cluster: Cluster, profile: NamespaceProfile, placer: Placer | None
) -> Context:
    """What units may know. `placer` chooses nodes of that `cluster`; None: no node is chosen."""
    controller, obstacles = owner(pod), None
    if placer is not None:
        obstacles = partial(placer.obstacles, cluster=cluster, settings=profile.settings.placement, gpus=policy.gpus)
    return Context(
        namespace=request.namespace,
        gpus=policy.gpus,
        cluster=cluster,
        workload=policy.classify(pod, controller, request.namespace),
        owner=controller,
        gpu_names=gpu_names(pod, policy.gpus),
        groups=request.groups,
        operation=request.operation,
        obstacles=obstacles,
    )


def exempt(request: Request, pod: Pod, profile: NamespaceProfile) -> bool:
    """Whether the user who creates the pod, or its ServiceAccount, is exempt from the rules."""
    return any([exemption.covers(request, pod) for exemption in profile.settings.exempt])


def findings(pod: Pod, context: Context, rules: Rules) -> Iterator[Found]:
    """What the rules find. On an UPDATE only what is new.

    At most _MOST_OF_ONE_RULE findings of each rule, so that neither the message nor the time grows with the pod.
    """
    for name, rule in rules:
        found = iter(rule.check(pod, context))
        first = next(found, None)
        if first is None:
            continue
        found = chain((first,), found)
        if context.old is not None:
            before = frozenset(islice(rule.check(context.old, context), _MOST_EXCUSED))
            found = (finding for finding in found if finding not in before)
        for finding in islice(found, _MOST_OF_ONE_RULE):
            yield Found(name, "warn" if finding.only_warn else rule.action, finding)


def excessive(past: Iterable[bounds.Excess]) -> list[Found]:
    """Findings for what is past a bound. The rules did not run."""
    return [
        Found(
            _SIZE,
            "deny",
            Finding(
                field,
                f"{number} {what}{'' if field == 'object' else ' in all'}",
                f"at most {limit}",
                "Split it; nothing else in it was checked",
            ),
        )
        for field, number, what, limit in past
    ]


def denials(found: Sequence[Found]) -> list[Found]:
    return [each for each in found if each.action == "deny"]


def refused(
    request: Request, found: Sequence[Found], policy: Policy, profile: NamespaceProfile, workload: str = ""
) -> Decision:
    """Refused for every denial in `found`; in a shadow profile only recorded."""
    complaint = record.complaint([(each.unit, each.finding) for each in denials(found)], policy.hash)
    return Decision(
        "shadow" if profile.settings.shadow else "denied",
        profile.name,
        workload,
        message=f"{subject_of(request)}: {complaint}",
        findings=tuple(found),
        unknown_profile=profile.unknown,
    )


def subject_of(request: Request) -> str:
    """The object that is refused, as the user knows it.

    Of a generated name only the prefix. A controller tries again with another name each time; an equal message makes one
    Event with a count instead of many (client-go/tools/record/events_cache.go).
    """
    what = "pod" if request.kind == "Pod" else request.kind
    if (request.generated and request.name.startswith(request.generated)) or not request.name:
        return f"{what} generateName {quoted(request.generated)}"
    return f"{what} {quoted(request.name)}"

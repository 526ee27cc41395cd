"""What a decision is made by: the profile of a namespace, what units may know, and how rules are run."""

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
"""Of one rule: what an old object has beyond that excuses nothing, and is not worked out."""
_SIZE = "podSize"
"""The unit that speaks of bounds, in messages and metrics. No policy switches it off."""
Rules = Sequence[tuple[str, Rule]]


class Home(NamedTuple):
    """The profile that a namespace lives under."""

    profile: str
    settings: Profile
    unknown: bool
    """The namespace names a profile that the policy has not; this is the default one."""
    warning: str | None


def home_of(namespace: str, policy: Policy, cluster: Cluster) -> Home | None:
    """The profile of a namespace, or None where it has not opted in. One that is not known counts as opted in.

    The API server asks only for namespaces that it knows to be labelled; our watch may be a moment behind.
    """
    labels = cluster.namespace_labels(namespace)
    if labels is None:
        return Home(*policy.profile(DEFAULT_PROFILE), unknown=False, warning=None)
    wanted = labels.get(PROFILE_LABEL)
    if wanted is None:
        return None
    name, settings = policy.profile(wanted)
    unknown = wanted not in (name, "")
    warning = f'namespace label {PROFILE_LABEL}: the policy has no such profile; "{name}" is used' if unknown else None
    return Home(name, settings, unknown, warning)


def pod_of(obj: Pod | None) -> Pod:
    """The object itself. Its shape is not looked at: the API server has decoded it. Where something fails on it, the handler
    asks `pod_schema.check` whether the pod is misshapen or the fault is ours.
    """
    if obj is None:
        raise BadPod("object: wanted a Pod, saw none")
    return obj


def context_of(
    request: Request, pod: Pod, policy: Policy, cluster: Cluster, home: Home, placer: Placer | None
) -> Context:
    """What units may know. `placer` chooses nodes of that `cluster`; None where nobody does."""
    controller, fits_empty = owner(pod), None
    if placer is not None:
        fits_empty = partial(placer.fits_empty, cluster=cluster, settings=home.settings.placement, gpus=policy.gpus)
    return Context(
        namespace=request.namespace,
        gpus=policy.gpus,
        cluster=cluster,
        workload=policy.classify(pod, controller, request.namespace),
        owner=controller,
        gpu_names=gpu_names(pod, policy.gpus),
        groups=request.groups,
        operation=request.operation,
        fits_empty=fits_empty,
    )


def exempt(request: Request, pod: Pod, home: Home) -> bool:
    """Whether who asked for this pod, or what it runs as, is not asked to keep the rules."""
    return any([exemption.covers(request, pod) for exemption in home.settings.exempt])


def findings(pod: Pod, context: Context, rules: Rules) -> Iterator[Found]:
    """What the rules find. On an UPDATE only what it brings.

    Of one rule no more than a person reads: what a pod has a thousand times is not told, nor paid for, a thousand times. Of the
    old object no more than of this one.
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
    """What is past a bound, as findings: nothing else was looked at."""
    return [
        Found(
            _SIZE,
            "deny",
            Finding(
                field,
                f"{number} {what}{'' if field == 'object' else ' in all'}",
                f"at most {most}, to be looked at in good time",
                "Split it; nothing else in it was checked",
            ),
        )
        for field, number, what, most in past
    ]


def denials(found: Sequence[Found]) -> list[Found]:
    return [each for each in found if each.action == "deny"]


def refused(request: Request, found: Sequence[Found], policy: Policy, home: Home, workload: str = "") -> Decision:
    """Refused for every denial in `found`; in a shadow profile only recorded."""
    complaint = record.complaint([(each.unit, each.finding) for each in denials(found)], policy.hash)
    return Decision(
        "shadow" if home.settings.shadow else "denied",
        home.profile,
        workload,
        message=f"{subject_of(request)}: {complaint}",
        findings=tuple(found),
        unknown_profile=home.unknown,
    )


def subject_of(request: Request) -> str:
    """What is refused, as the user knows it.

    Of a generated name only the beginning: nobody will ever see a pod of this name, and what is the same at every try of a
    controller is one event with a count, not one for each (client-go/tools/record/events_cache.go).
    """
    what = "pod" if request.kind == "Pod" else request.kind
    if (request.generated and request.name.startswith(request.generated)) or not request.name:
        return f"{what} generateName {quoted(request.generated)}"
    return f"{what} {quoted(request.name)}"

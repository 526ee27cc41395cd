"""What is decided, and by what: the answer in the making, the profile of a namespace, what units may know, how rules run."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple

import orjson

from webhook import explain
from webhook.cluster.pods import Claim
from webhook.errors import BadPod
from webhook.facts import Cluster, Placement, Rejected
from webhook.interface import Context, Finding, Outcome, Rule
from webhook.placement import Ask, Placer
from webhook.pod import Pod, gpu_names, owner
from webhook.policy import DEFAULT_PROFILE, Policy, Profile
from webhook.review import Request, ending, warned

PROFILE_LABEL = "gpu-admission.io/profile"
_MOST_OF_ONE_RULE = 20
Rules = Sequence[tuple[str, Rule]]
Findings = list[tuple[str, str, Finding]]
"""Unit, action, finding."""


@dataclass
class Decision:
    """What is answered, recorded and, where a node was chosen, reserved.

    `result`: `ignored` (none of our business), `patched`, `unchanged`, `allowed`, `denied`, `shadow`, `gated` (our own
    patch did not hold: allowed without it).
    """

    result: str
    profile: str = ""
    workload: str = ""
    encoded: bytes | None = None
    """A JSON Patch in base64; None where the pod is left as it is."""
    complaint: str = ""
    """What is wrong, for the user; "" where nothing is refused. The same for all pods of a template: see `answers.message_of`."""
    warnings: list[str | None] = field(default_factory=list)
    """What the caller is told besides findings. None stands for nothing."""
    quoted: bytes = b""
    """The record, as a JSON string."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    findings: list[tuple[str, str, Finding]] = field(default_factory=list)
    """Unit, action, finding. The action is `deny`, `warn`, or `foretold`: the pods of this workload will be refused."""
    placement: Placement | None = None
    ask: Ask | None = None
    """What the ranking looked at, where this very call chose."""
    claim: Claim | None = None
    """What is promised on the first node, where this very call chose and the pod may come."""
    reserve: bool = False
    """The caller makes that promise: this was no dry run."""
    unknown_profile: bool = False
    _ending: bytes | None = field(default=None, repr=False, compare=False)
    _said: bytes | None = field(default=None, repr=False, compare=False)
    _logged: bytes | None = field(default=None, repr=False, compare=False)

    # What follows is worked out once: whoever asks changes nothing any more.

    @property
    def ending(self) -> bytes:
        """Of the answer, where it has no patch: those with one have a record each. That of a refusal begins with what the
        message says after its subject.
        """
        if self._ending is None:
            refused = orjson.dumps(f": {self.complaint}")[1:] + b"}" if self.result == "denied" else b""
            self._ending = refused + ending_of(self)
        return self._ending

    @property
    def said(self) -> bytes:
        """The warnings, as a field of the answer."""
        if self._said is None:
            self._said = warned(self.told)
        return self._said

    @property
    def logged(self) -> bytes:
        """What the log says of it and of its likes: the fields of a JSON object.

        Findings by rule, action and path; the record where the pod was left as it is, and does not have it.
        """
        if self._logged is None:
            fields: dict[str, Any] = {"profile": self.profile}
            if self.quoted and self.encoded is None:
                fields["record"] = orjson.Fragment(self.record)
            if self.findings:
                fields["findings"] = [[rule, action, finding.path] for rule, action, finding in self.findings]
            self._logged = _shared(orjson.dumps(fields)[1:])
        return self._logged

    def like(self, encoded: bytes, quoted: bytes, placement: Placement, *, reserve: bool) -> Decision:
        """The same for another pod of the template, with a patch, a record and nodes of its own."""
        made = Decision.__new__(Decision)  # __init__ takes ten times as long
        made.result, made.profile, made.workload = self.result, self.profile, self.workload
        made.encoded, made.complaint, made.warnings = encoded, self.complaint, self.warnings
        made.quoted, made.outcomes, made.findings = quoted, self.outcomes, self.findings
        made.placement, made.ask, made.claim, made.reserve = placement, self.ask, self.claim, reserve
        made.unknown_profile = self.unknown_profile
        made._ending, made._said, made._logged = None, self.said, self.logged
        return made

    @property
    def patch(self) -> bytes | None:
        return None if self.encoded is None else a2b_base64(self.encoded)

    @patch.setter
    def patch(self, patch: bytes | None) -> None:
        self.encoded = None if patch is None else b2a_base64(patch, newline=False)

    @property
    def record(self) -> str:
        return str(orjson.loads(self.quoted or b'""'))

    @record.setter
    def record(self, record: str) -> None:
        self.quoted = orjson.dumps(record)

    @property
    def told(self) -> list[str]:
        """The warnings as the API server takes them: few, short, one line each."""
        refused = "its pods will be refused: "
        if not self.findings and not any(self.warnings):
            return []
        briefs = [
            f"{unit}: {refused if action == 'foretold' else ''}{finding.brief}"
            for unit, action, finding in self.findings
            if action != "deny"
        ]
        return explain.warnings((*self.warnings, *briefs))


def ending_of(decision: Decision) -> bytes:
    """The end of the answer: warnings, and the record for the audit log."""
    return ending(decision.said, decision.quoted)


@lru_cache(maxsize=256)
def _shared(text: bytes) -> bytes:
    """One for all that are equal: many templates are refused for the same reason, and what is read often is in the caches."""
    return text


class Home(NamedTuple):
    """The profile that a namespace lives under."""

    profile: str
    settings: Profile
    unknown: bool
    warning: str | None


IGNORED = Decision("ignored")


def findings(pod: Pod, context: Context, rules: Rules) -> Iterator[tuple[str, str, Finding]]:
    """What the rules find: unit, action, finding. On an UPDATE only what it brings.

    Of one rule no more than a person reads: what a pod has a thousand times is not told, nor paid for, a thousand times.
    """
    for name, rule in rules:
        found = iter(rule.check(pod, context))
        first = next(found, None)
        if first is None:
            continue
        before = frozenset(rule.check(context.old, context) if context.old is not None else ())
        new = list(islice((finding for finding in chain((first,), found) if finding not in before), _MOST_OF_ONE_RULE))
        for finding in new:
            yield name, "warn" if finding.only_warn else rule.action, finding
        if new and rule.gate and rule.action == "deny":  # one that only warns must not silence the others
            return


def fitting(placer: Placer | None, cluster: Cluster, policy: Policy, home: Home) -> Callable[[Pod], Rejected] | None:
    """What tells rules whether a pod fits any node; None where nobody chooses nodes."""
    if placer is None:
        return None
    return partial(placer.fits_empty, cluster=cluster, settings=home.settings.placement, gpus=policy.gpus)


def exempt(request: Request, pod: Pod, home: Home) -> bool:
    """Whether who asked for this pod, or what it runs as, is not asked to keep the rules."""
    return any([exemption.covers(request, pod) for exemption in home.settings.exempt])


def pod_of(obj: Pod | None) -> Pod:
    """The object itself. Its shape is not looked at here: the API server has decoded it, and a look at every field takes a
    tenth of the whole decision. Whoever calls says whether an exception is ours or comes of a misshapen pod (`shape.check`).
    """
    if obj is None:
        raise BadPod("object: wanted a Pod, saw none")
    return obj


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


def context_of(request: Request, pod: Pod, policy: Policy, cluster: Cluster) -> Context:
    controller = owner(pod)
    return Context(
        namespace=request.namespace,
        gpus=policy.gpus,
        cluster=cluster,
        workload=policy.classify(pod, controller, request.namespace),
        owner=controller,
        gpu_names=gpu_names(pod, policy.gpus),
        user=request.user,
        groups=request.groups,
        operation=request.operation,
        subresource=request.subresource,
    )

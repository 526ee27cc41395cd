"""Pods of one template are alike: what was decided for the first of them holds for the next, but for the node.

The thousand pods of a Job come as the same text, but for a name, a time, and five letters at the end of the volume with
the token. So a decision is kept with everything that it was made of: the rest of the pod, who asked, the label of the
namespace; for as long as the policy, and the facts that units read of the cluster (`Snapshot.facts`), stay what they are.
The node is chosen for each pod anew. Its name and its numbers go into the patch and the record at known places, so the
gate that the first patch went through speaks for the others.

Two ways to tell that pods are alike. `form` is of whole bodies as they come from the API server, which need not be parsed.
`likeness` is of pods that were: of other senders, and of those that have a name and our annotation.

As pure as `admission`: what is kept changes how soon an answer is there, never what it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from webhook import admission
from webhook.cluster.snapshot import Snapshot
from webhook.decision import PROFILE_LABEL, Decision, home_of
from webhook.form import Form, marked
from webhook.likeness import key_of
from webhook.placement import Rank, answer
from webhook.plan import Plan
from webhook.policy import Policy
from webhook.review import Request, object_of

MOST: Final = 1024
"""Of each: with `form.LARGEST` all that is kept stays below some 60 MiB."""
Profile = tuple[str | None, ...]


class _Text(NamedTuple):
    """What is known of a body that came before."""

    form: Form
    request: Request
    kept: Plan | Decision
    profile: Profile


class Alike:
    """What was decided lately by the mutating and by the validating hook, under one policy and one set of facts."""

    def __init__(self, rank: Rank = answer) -> None:
        self._rank = rank
        self._policy: Policy | None = None
        self._facts: tuple[int, ...] = ()
        self._texts: dict[bytes, _Text] = {}
        self._mutated: dict[bytes, Plan | Decision] = {}
        self._validated: dict[bytes, Decision] = {}

    def again(self, body: bytes, policy: Policy, snapshot: Snapshot) -> tuple[Request, Decision] | None:
        """The request and the decision of `mutate` for a body like an earlier one. It is not even parsed."""
        self._renew(policy, snapshot)
        mark = marked(body)
        if mark is None or (known := self._texts.get(mark.head)) is None:
            return None
        form, request, kept, profile = known
        if profile != _profile(request.namespace, snapshot) or not form.fits(body):
            return None
        made = kept if isinstance(kept, Decision) else kept.again(snapshot, self._rank, dry_run=request.dry_run)
        return None if made is None else (Request._make((mark.uid, *request[1:])), made)

    def mutate(self, body: bytes, request: Request, policy: Policy, snapshot: Snapshot) -> Decision:
        """As `admission.mutate`."""
        profile = _profile(request.namespace, snapshot)
        key = self._key(request, profile, policy, snapshot, bound=False)
        known = self._mutated.get(key) if key else None
        made = None
        if isinstance(known, Plan):
            made = known.again(snapshot, self._rank, dry_run=request.dry_run)
        elif known is not None:
            made = known
        if made is None:
            made = admission.mutate(request, policy, snapshot, lambda: object_of(body), self._rank)
            known = _kept(made, request, policy, snapshot) if key else None
            if key and known:
                _keep(self._mutated, key, known)
        if key and known and (mark := marked(body)):
            kept = known if isinstance(known, Plan) else made
            _keep(self._texts, mark.head, _Text(Form.of(body, mark), _named(request), kept, profile))
        return made

    def validate(self, request: Request, policy: Policy, snapshot: Snapshot) -> Decision:
        """As `admission.validate`."""
        key = self._key(request, _profile(request.namespace, snapshot), policy, snapshot, bound=True)
        known = self._validated.get(key) if key else None
        if known is not None:
            return known
        made = admission.validate(request, policy, snapshot)
        if key:
            _keep(self._validated, key, made)
        return made

    def _renew(self, policy: Policy, snapshot: Snapshot) -> None:
        facts = snapshot.facts
        if policy is not self._policy or facts != self._facts:
            self._policy, self._facts = policy, facts
            self._texts.clear()
            self._mutated.clear()
            self._validated.clear()

    def _key(
        self, request: Request, profile: Profile, policy: Policy, snapshot: Snapshot, *, bound: bool
    ) -> bytes | None:
        """Equal for requests that are decided alike; None where it is not worth while, or not certain."""
        self._renew(policy, snapshot)
        if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
            return None
        try:
            return key_of(request.object or {}, (profile, request.namespace, request.user, request.groups), bound=bound)
        except (LookupError, TypeError, ValueError, AttributeError):
            return None  # not the shape of a pod: whoever decides says so


def _kept(made: Decision, request: Request, policy: Policy, snapshot: Snapshot) -> Plan | Decision | None:
    """What the next pod needs of this decision; None where it has to be made anew."""
    if not all([outcome.settled for outcome in made.outcomes.values()]):
        return None
    if made.result in ("denied", "ignored"):
        return made
    home = home_of(request.namespace, policy, snapshot)
    return Plan.of(made, home.settings.placement, policy.gpus) if home is not None else None


def _profile(namespace: str, snapshot: Snapshot) -> Profile:
    """What `home_of` goes by. () where the namespace is not known."""
    labels = snapshot.namespace_labels(namespace)
    return () if labels is None else (labels.get(PROFILE_LABEL),)


def _named(request: Request) -> Request:
    """Of the pod only what it is called: a parsed one takes ten times its text."""
    metadata = (request.object or {}).get("metadata") or {}
    return request._replace(object={"metadata": {key: metadata.get(key) for key in ("name", "generateName")}})


def _keep(kept: dict[bytes, Any], key: bytes, value: Any) -> None:
    """Keep `value`; the oldest one makes room."""
    if len(kept) >= MOST and key not in kept:
        del kept[next(iter(kept))]
    kept[key] = value

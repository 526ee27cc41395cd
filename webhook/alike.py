"""Pods of one template are alike: what was decided for the first of them holds for the next, but for the node.

The thousand pods of a Job come as the same text, but for a name, a time, and five letters at the end of the volume with
the token. So a decision is kept with everything that it was made of: the rest of the pod, who asked, the label of the
namespace; for as long as the policy, and the facts that units read of the cluster (`Snapshot.facts`), stay what they are.
The node is chosen for each pod anew. Its name and its numbers go into the patch and the record at known places, so the
gate that the first patch went through speaks for the others.

Two ways to tell that pods are alike. `likeness` is of pods that were parsed. `form` is of whole bodies as they come from the
API server, which need not be: the second of a template makes one, and `likeness` has the last word on whether it holds.

As pure as `admission`: what is kept changes how soon an answer is there, never what it is.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from webhook import admission
from webhook.answers import with_subject
from webhook.cluster.pods import Claim, Promise, claim_of, first_promised, promise_of
from webhook.cluster.snapshot import Snapshot
from webhook.decision import PROFILE_LABEL, Decision, home_of
from webhook.errors import BadReview, QuantityError
from webhook.form import Form, marked
from webhook.likeness import key_of
from webhook.placement import Placer, Rank
from webhook.plan import Plan
from webhook.pod import DECISION
from webhook.policy import Policy
from webhook.review import Request, object_of, parse

MOST: Final = 1024
"""Of each: with `form.LARGEST` all that is kept stays below some 80 MiB."""
Profile = tuple[str | None, ...]
Kept = Plan | Decision


class _Text:
    """What is known of a body that came before."""

    __slots__ = ("claim", "first", "form", "kept", "profile", "request")

    def __init__(self, form: Form, request: Request, kept: Kept, profile: Profile) -> None:
        self.form = form
        self.request = request
        self.kept = kept
        self.profile = profile
        self.claim: Claim | None = None
        """Of pods that are refused: what another call may have promised to them."""
        self.first = -1
        """Which of the blanks is the node where it was promised; -1 where that is not known."""

    def promised(self, body: bytes, blanks: list[bytes]) -> Promise | None:
        """What this pod, which is refused, gives back."""
        if self.claim is None or self.form.record is None:
            return None
        node = self.form.recorded(blanks, self.first)
        return promise_of(object_of(body)) if node is None else Promise(self.claim, node)


class _Memory:
    """What one of the hooks has decided lately."""

    __slots__ = ("_most", "_one_of", "by_head", "by_key")

    def __init__(self, most: int) -> None:
        self.by_key: dict[bytes, Kept] = {}
        self.by_head: dict[bytes, _Text] = {}
        self._one_of: dict[bytes, Decision] = {}
        self._most = most

    def clear(self) -> None:
        self.by_key.clear()
        self.by_head.clear()
        self._one_of.clear()

    def decided(self, key: bytes, kept: Kept) -> None:
        """Keep what was decided for this key: one decision for all that are equal, since what is read often is in the caches."""
        if isinstance(kept, Decision):
            said = kept.logged + kept.ending
            if self._one_of.get(said) != kept:
                self.keep(self._one_of, said, kept)
            kept = self._one_of.get(said, kept)
        self.keep(self.by_key, key, kept)

    def keep(self, kept: dict[bytes, Any], key: bytes, value: Any) -> None:
        """Keep `value` in one of the three; the oldest one makes room."""
        if len(kept) >= self._most and key not in kept:
            if not kept:
                return
            del kept[next(iter(kept))]
        kept[key] = value


class Alike:
    """What was decided lately by the mutating and by the validating hook, under one policy and one set of facts.

    `most`: so many templates are kept of each hook; 0: none.
    """

    def __init__(self, placer: Placer, rank: Rank, most: int = MOST) -> None:
        self._placer = placer
        self._rank = rank
        self._policy: Policy | None = None
        self._facts: tuple[object, ...] = ()
        self._mutated = _Memory(most)
        self._validated = _Memory(most)

    def again(
        self, body: bytes, policy: Policy, snapshot: Snapshot, *, stored: bool = False, promised: bool = False
    ) -> tuple[Request, Decision, Promise | None] | None:
        """The request (without its pod) and the decision for a body like an earlier one. It is not even parsed.

        `stored`: of `validate`, whose pods have been through the mutating hooks; else of `mutate`. `promised`: of a pod that is
        refused it is wanted, too, what was promised to it.
        """
        self._renew(policy, snapshot)
        mark = marked(body, stored=stored)
        if mark is None or (known := (self._validated if stored else self._mutated).by_head.get(mark.head)) is None:
            return None
        form, request, kept = known.form, known.request, known.kept
        if known.profile != _profile(request.namespace, snapshot) or (blanks := form.filled(body)) is None:
            return None
        made = kept if isinstance(kept, Decision) else kept.again(snapshot, self._rank, dry_run=request.dry_run)
        if made is None:
            return None
        promise = known.promised(body, blanks) if promised and not request.dry_run else None
        return _filled_in(request, form, blanks), made, promise

    def mutate(self, body: bytes, request: Request, policy: Policy, snapshot: Snapshot) -> Decision:
        """As `admission.mutate`."""
        self._renew(policy, snapshot)
        key = _key(request, snapshot, stored=False)
        known, made = self._mutated.by_key.get(key) if key else None, None
        if known is not None:
            made = known if isinstance(known, Decision) else known.again(snapshot, self._rank, dry_run=request.dry_run)
        if made is None:
            made = admission.mutate(request, policy, snapshot, lambda: object_of(body), self._placer, self._rank)
            if key and (new := _kept(made, request, policy, snapshot)):
                self._mutated.decided(key, new)
        elif key and known:
            _learn(self._mutated, body, request, key, snapshot, stored=False)
        return made

    def validate(self, body: bytes, request: Request, policy: Policy, snapshot: Snapshot) -> Decision:
        """As `admission.validate`."""
        self._renew(policy, snapshot)
        key = _key(request, snapshot, stored=True)
        known = self._validated.by_key.get(key) if key else None
        if key and isinstance(known, Decision):
            _learn(self._validated, body, request, key, snapshot, stored=True)
            return known
        made = admission.validate(request, policy, snapshot, self._placer)
        if key:
            self._validated.decided(key, made)
        return made

    def _renew(self, policy: Policy, snapshot: Snapshot) -> None:
        facts = snapshot.facts
        if policy is not self._policy or facts != self._facts:
            self._policy, self._facts = policy, facts
            self._mutated.clear()
            self._validated.clear()


def _learn(memory: _Memory, body: bytes, request: Request, key: bytes, snapshot: Snapshot, *, stored: bool) -> None:
    """Keep the form of a body, if every body that fills it in is certain to have this key."""
    mark = marked(body, stored=stored)
    if mark is None:
        return
    form = Form(body, mark)
    sample = form.sample()
    with suppress(BadReview):
        other, blanks = parse(sample), form.filled(sample)
        if blanks and key == _key(other, snapshot, stored=stored) and _says(other, form, blanks):
            kept, profile = memory.by_key[key], _profile(request.namespace, snapshot)
            text = _Text(form, with_subject(request._replace(object=None)), kept, profile)
            if stored and isinstance(kept, Decision) and kept.result == "denied":
                with suppress(QuantityError):
                    text.claim = claim_of(request.object or {})
                    text.first = form.where(body, first_promised(request.object or {}))
            memory.keep(memory.by_head, mark.head, text)


def _key(request: Request, snapshot: Snapshot, *, stored: bool) -> bytes | None:
    """Equal for requests that are decided alike; None where it is not worth while, or not certain."""
    if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
        return None
    who = (_profile(request.namespace, snapshot), request.namespace, request.user, request.groups)
    try:
        return key_of(request.object or {}, who, stored=stored)
    except (LookupError, TypeError, ValueError, AttributeError):
        return None  # not the shape of a pod: whoever decides says so


def _kept(made: Decision, request: Request, policy: Policy, snapshot: Snapshot) -> Kept | None:
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


def _says(request: Request, form: Form, blanks: list[bytes]) -> bool:
    """Whether the blanks are what they look like, as `_filled_in` takes them."""
    said, metadata = _filled_in(request, form, blanks), (request.object or {})["metadata"]
    if not form.names:
        return said.uid == request.uid
    record = (metadata.get("annotations") or {}).get(DECISION, "")
    return said[:-4] == request[:-4] and (said.name, form.record_in(blanks)) == (metadata["name"], record)


def _filled_in(request: Request, form: Form, blanks: list[bytes]) -> Request:
    """The request of a body that was not parsed, without its pod."""
    uid = blanks[form.uid].decode()
    if not form.names:
        return Request._make((uid, *request[1:]))
    name = blanks[form.names[0]].decode()
    # _replace takes twice as long
    return Request._make((uid, *request[1:7], name, *request[8:-4], None, *request[-3:]))

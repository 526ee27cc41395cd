"""Pods of one template are alike: what was decided for the first of them holds for the next, but for the node.

The thousand pods of a Job come as the same text, but for a name, a time, and five letters at the end of the volume with
the token. So a decision is kept with everything that it was made of: the rest of the pod, who asked, the label of the
namespace; for as long as the policy, and the facts that units read of the cluster (`Snapshot.facts`), stay what they are.
The node is chosen for each pod anew. Its name and its numbers go into the patch and the record at known places, so the
gate that the first patch went through speaks for the others.

As pure as `admission`: what is kept changes how soon an answer is there, never what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from typing import Any, Final, NamedTuple

import orjson

from webhook import admission, explain
from webhook.cluster.snapshot import Snapshot
from webhook.decision import PROFILE_LABEL, Decision, home_of
from webhook.gpus import Gpus
from webhook.injectors.node_affinity import preferences
from webhook.interface import Placement
from webhook.placement import Ask, answer
from webhook.placement.settings import PlacementSettings
from webhook.pod import DECISION, Pod
from webhook.policy import Policy
from webhook.review import Request

_MOST: Final = 1024
_LARGEST: Final = 16 << 10
"""Bytes of a pod that is kept. A larger one is decided by itself: all that is kept stays below some 50 MiB."""
_APART: Final = frozenset(("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink"))
"""What differs between pods that are alike, and no unit reads."""
_TOKEN: Final = b"kube-api-access-"
"""Begins the name of the volume that the ServiceAccount admission plugin adds (serviceaccount/admission.go)."""
_LETTERS: Final = 5
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NAMED: Final = re.compile(rb'(?<=\{"key":"metadata\.name","operator":"In","values":\[)"[^"\\]*"(?=\]\}\])')
"""The node that a term of ours names."""
_QUOTE: Final = ord('"')


class Plan(NamedTuple):
    """How to decide for pods like one that was patched and sent to a node."""

    first: Decision
    ask: Ask
    settings: PlacementSettings
    gpus: Gpus
    patch: bytes
    """With %b for the name of each ranked node, and for the record after them."""
    record: str
    """As far as the nodes."""

    @classmethod
    def of(cls, first: Decision, settings: PlacementSettings, gpus: Gpus) -> Plan | None:
        """None where the nodes stand in the patch or in the record otherwise than we know."""
        placement, patch = first.placement, first.patch
        if first.ask is None or first.claim is None or placement is None or patch is None or _TOKEN in patch:
            return None
        blank = placement._replace(nodes=tuple([ranked._replace(node="%b") for ranked in placement.nodes]))
        terms = orjson.dumps(preferences(placement))[1:-1].replace(b"%", b"%%")
        blanks = orjson.dumps(preferences(blank))[1:-1].replace(b'"%b"', b"%b")
        text, numbers = orjson.dumps(first.record).replace(b"%", b"%%"), explain.numbered(placement)
        form = patch.replace(b"%", b"%%")
        if form.count(terms) != 1 or form.count(text) != 1 or not first.record.endswith(numbers):
            return None
        form, record = form.replace(terms, blanks).replace(text, b"%b"), first.record[: -len(numbers)]
        plan = cls(first, first.ask, settings, gpus, form, record)
        made = plan.completed(placement, dry_run=False)
        return plan if made is not None and (made.patch, made.record) == (patch, first.record) else None

    def again(self, snapshot: Snapshot, *, dry_run: bool) -> Decision | None:
        """For the next pod; None where it is not sent to as many nodes: then other units may decide otherwise, too."""
        return self.completed(answer(self.ask, snapshot, self.settings, self.gpus), dry_run=dry_run)

    def completed(self, placement: Placement, *, dry_run: bool) -> Decision | None:
        if self.first.placement is None or len(placement.nodes) != len(self.first.placement.nodes):
            return None
        record = self.record + explain.numbered(placement)
        if len(record) > explain.LARGEST_RECORD or not record.isascii():
            return None
        made = copy(self.first)
        made.patch = self.patch % (*[orjson.dumps(ranked.node) for ranked in placement.nodes], orjson.dumps(record))
        made.record, made.placement, made.reserve = record, placement, not dry_run
        return made


class Alike:
    """What was decided lately by the mutating and by the validating hook, under one policy and one set of facts."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._facts: tuple[int, ...] = ()
        self._mutated: dict[bytes, Plan | Decision] = {}
        self._validated: dict[bytes, Decision] = {}

    def mutate(self, request: Request, policy: Policy, snapshot: Snapshot, original: Callable[[], Pod]) -> Decision:
        """As `admission.mutate`."""
        key = self._key(request, policy, snapshot, bound=False)
        known = self._mutated.get(key) if key else None
        if isinstance(known, Plan):
            found = known.again(snapshot, dry_run=request.dry_run)
            if found is not None:
                return found
        elif known is not None:
            return _told_again(known, request, policy)
        made = admission.mutate(request, policy, snapshot, original)
        if key:
            home = home_of(request.namespace, policy, snapshot)
            kept = Plan.of(made, home.settings.placement, policy.gpus) if home is not None else None
            if kept is not None or made.result in ("denied", "ignored"):
                _keep(self._mutated, key, kept or made)
        return made

    def validate(self, request: Request, policy: Policy, snapshot: Snapshot) -> Decision:
        """As `admission.validate`."""
        key = self._key(request, policy, snapshot, bound=True)
        known = self._validated.get(key) if key else None
        if known is not None:
            return _told_again(known, request, policy)
        made = admission.validate(request, policy, snapshot)
        if key:
            _keep(self._validated, key, made)
        return made

    def _key(self, request: Request, policy: Policy, snapshot: Snapshot, *, bound: bool) -> bytes | None:
        """Equal for requests that are decided alike; None where it is not worth while, or not certain."""
        facts = snapshot.facts
        if policy is not self._policy or facts != self._facts:
            self._policy, self._facts = policy, facts
            self._mutated.clear()
            self._validated.clear()
        if request.operation != "CREATE" or request.resource != "pods" or request.subresource:
            return None
        labels = snapshot.namespace_labels(request.namespace)
        profile = None if labels is None else [labels.get(PROFILE_LABEL)]
        who = profile, request.namespace, request.user, request.groups
        try:
            return likeness(request.object or {}, who, bound=bound)
        except (LookupError, TypeError, ValueError, AttributeError):
            return None  # not the shape of a pod: whoever decides says so


def likeness(pod: Pod, who: object, *, bound: bool) -> bytes | None:
    """The same bytes for pods that are alike; None for large ones. `who`: what else counts.

    `bound`: the pod has been through our mutating hook, and has its name: what is known to differ there does not count.
    Nothing is left out without a trace, so that no pod can be made to look like another: the letters of the token's volume
    become a NUL, which JSON never holds; a preference for a node keeps its place. Raises TypeError and the like for what is
    no pod.
    """
    metadata, spec = {key: value for key, value in pod["metadata"].items() if key not in _APART}, pod["spec"]
    if metadata.get("generateName"):
        metadata.pop("name", None)
    decided = False
    if bound:
        annotations = metadata.get("annotations") or {}
        if decided := DECISION in annotations:
            metadata["annotations"] = {key: value for key, value in annotations.items() if key != DECISION}
        affinity = spec.get("affinity") or {}
        nodes = affinity.get("nodeAffinity") or {}
        if terms := nodes.get(_PREFERRED):
            blank = _NAMED.sub(b"\0", orjson.dumps(terms)).decode()
            spec = {**spec, "affinity": {**affinity, "nodeAffinity": {**nodes, _PREFERRED: blank}}}
    text = orjson.dumps((who, decided, metadata, spec))
    if len(text) > _LARGEST:
        return None
    at = text.find(b'"' + _TOKEN) + 1
    if at:
        name = text[at : at + len(_TOKEN) + _LETTERS]
        if name[-_LETTERS:].isalnum() and text[at + len(name)] == _QUOTE:
            return text.replace(name, b"\0")
    return text


def _told_again(known: Decision, request: Request, policy: Policy) -> Decision:
    """A decision without a node, for a pod of another name."""
    if not known.message or request.object is None:
        return known
    return admission.refused(copy(known), request.object, policy, shadow=known.result == "shadow")


def _keep(kept: dict[bytes, Any], key: bytes, value: Any) -> None:
    """Keep `value`; the oldest one makes room."""
    if len(kept) >= _MOST and key not in kept:
        del kept[next(iter(kept))]
    kept[key] = value

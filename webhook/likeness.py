"""When two pods are alike: the same bytes for pods that differ in nothing that a decision depends on.

Nothing is left out without a trace, so that no pod can be made to look like another: what is known to differ by its form
becomes a NUL, which JSON never holds, wherever it stands.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from webhook.pod import DECISION, PREFERRED, Pod

LARGEST: Final = 16 << 10
"""Bytes. Pods that take more are like nobody."""
TOKEN: Final = b"kube-api-access-"
"""Begins the name of the volume that the ServiceAccount admission plugin adds (serviceaccount/admission.go)."""
_APART: Final = frozenset(("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink"))
"""What differs between pods that are alike, and no unit reads."""
_LETTERS: Final = 5
_NAMED: Final = re.compile(rb'"key":"metadata\.name","operator":"In","values":\["[^"\\]*"\]'), b'"key":"\0"'
"""The node that a term of ours names."""
_UID: Final = re.compile(rb'"request": *\{ *"uid": *"([A-Za-z0-9-]{1,128})"')
_ENVELOPE: Final = 256
_MANAGED: Final = b'"time":"'
_TIME: Final = re.compile(rb'"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ","fieldsType":')
"""When a manager of fields wrote (managedFields). Keys of maps come sorted, so in labels these two stand the other way."""


def text_of(body: bytes) -> tuple[str, bytes] | None:
    """The uid of a review, and the same bytes for each body that differs in nothing but the uid, the times of managed
    fields and the letters of the token's volume. None for large ones, and where the uid is not where the API server
    puts it.
    """
    found = _UID.search(body, 0, _ENVELOPE) if len(body) <= LARGEST and b"\0" not in body else None
    if found is None:
        return None
    start, end = found.span(1)
    parts, at = [body[:start]], end
    while (at := body.find(_MANAGED, at)) >= 0:  # a search for the pattern would take twice as long as all the rest
        at += len(_MANAGED)
        if time := _TIME.match(body, at - len(_MANAGED)):
            parts.append(body[end:at])
            end = at = time.end()
    parts.append(body[end:])
    return found[1].decode(), _unlettered(b"\0".join(parts))


def key_of(pod: Pod, who: object, *, bound: bool) -> bytes | None:
    """The same bytes for pods that are alike; None for large ones. `who`: what else counts.

    `bound`: the pod has been through our mutating hook, and has its name: what is known to differ there does not count.
    Raises TypeError and the like for what is no pod.
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
        if terms := nodes.get(PREFERRED):
            named, mark = _NAMED
            blank = named.sub(mark, orjson.dumps(terms)).decode()
            spec = {**spec, "affinity": {**affinity, "nodeAffinity": {**nodes, PREFERRED: blank}}}
    text = orjson.dumps((who, decided, metadata, spec))
    return _unlettered(text) if len(text) <= LARGEST else None


def _unlettered(text: bytes) -> bytes:
    """The name of the token's volume becomes a NUL wherever it stands."""
    at = text.find(b'"' + TOKEN) + 1
    name = text[at : at + len(TOKEN) + _LETTERS]
    named = at and name[-_LETTERS:].isalnum() and text[at + len(name) : at + len(name) + 1] == b'"'
    return text.replace(name, b"\0") if named else text

"""When two pods are alike: the same bytes for pods that differ in nothing that a decision depends on.

Nothing is left out without a trace, so that no pod can be made to look like another: what is known to differ by its form
becomes a NUL, which JSON never holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from webhook.form import LARGEST, LETTERS, TOKEN
from webhook.pod import CONTAINER_LISTS, DECISION, PREFERRED, Pod

_APART: Final = frozenset(("uid", "creationTimestamp", "managedFields", "resourceVersion", "generation", "selfLink"))
"""What differs between pods that are alike, and no unit reads."""
_NAMED: Final = re.compile(rb'"key":"metadata\.name","operator":"In","values":\["[^"\\]*"\]'), b'"key":"\0"'
"""The node that a term of ours names."""


def key_of(pod: Pod, who: object, *, stored: bool) -> bytes | None:
    """The same bytes for pods that are alike; None for large ones, and for odd ones. `who`: what else counts.

    `stored`: the pod has been through our mutating hook, and has its name: what is known to differ there does not count.
    Raises TypeError and the like for what is no pod.
    """
    metadata, spec = {key: value for key, value in pod["metadata"].items() if key not in _APART}, pod["spec"]
    if metadata.get("generateName"):
        metadata.pop("name", None)
    decided = False
    if stored:
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
    return _unlettered(text, spec) if len(text) <= LARGEST else None


def _unlettered(text: bytes, spec: Mapping[str, Any]) -> bytes | None:
    """The name of the token's volume becomes a NUL. None where it stands anywhere else: there its letters say something."""
    before, *others = text.split(TOKEN)
    if not others:
        return text
    letters = others[0][:LETTERS]
    name = (TOKEN + letters).decode(errors="replace")
    found = [volume for volume in spec.get("volumes") or () if volume.get("name") == name]
    for kind in CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            found += [mount for mount in container.get("volumeMounts") or () if mount.get("name") == name]
    if len(others) != len(found) or not letters.isalnum():
        return None
    return b"\0".join([before, *[each[LETTERS:] for each in others]])

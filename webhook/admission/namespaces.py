"""Warns about a namespace whose labels name a profile or a class of workload that the policy does not have.

Nothing is refused: the policy may get that profile later.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.admission.decision import IGNORED, Decision
from webhook.framework.entitlement import CLASS_LABELS
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.review import Request
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import bare, listed, quoted, suggestion

_OURS: Final = PROFILE_LABEL.partition("/")[0] + "/"
_MAX_WARNINGS: Final = 5


def validate(request: Request, policy: Policy) -> Decision:
    """Allow the namespace in `request`, with a warning for each of our labels that it gets and that means nothing."""
    if request.operation not in ("CREATE", "UPDATE") or request.object is None or request.subresource:
        return IGNORED
    labels, before = _labels(request.object), _labels(request.old or {})
    new = {key: value for key, value in labels.items() if before.get(key) != value}
    return Decision("allowed", policy=policy.hash, warnings=tuple(islice(_warnings(new, policy), _MAX_WARNINGS)))


def _labels(namespace: dict[str, object]) -> dict[str, str]:
    metadata = namespace.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _warnings(labels: dict[str, str], policy: Policy) -> Iterator[str]:
    profiles, classes = list(policy.file.profiles), list(dict.fromkeys(rule.name for rule in policy.file.classes))
    for key, value in labels.items():
        if key == PROFILE_LABEL and value not in ("", *profiles):
            seen = f'the policy has no profile {quoted(value)}, so "{DEFAULT_PROFILE}" is used'
            yield f"label {key}: {seen}; {_known(value, profiles)}"
        elif key.startswith(CLASS_LABELS) and (name := key.removeprefix(CLASS_LABELS)) not in classes:
            yield f"label {bare(key)}: the policy has no class {quoted(name)}; {_known(name, classes)}"
        elif key.startswith(_OURS) and key != PROFILE_LABEL:
            yield f"label {bare(key)} means nothing; did you mean {PROFILE_LABEL}?"


def _known(word: str, known: list[str]) -> str:
    return suggestion(word, known, 'did you mean "{}"?', f"it has {listed(known, show=quoted)}")

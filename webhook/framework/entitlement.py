"""Which namespaces a setting is for: a list of name patterns, and of labels that a namespace has.

A pattern with a slash is the key of a label. The API server lets only who may assign a class set a label of CLASS_LABELS.
"""

from collections.abc import Container, Iterable
from typing import Final

from webhook.kube import cel
from webhook.text import listed, matches_any

CLASS_LABELS: Final = "class.gpu-admission.io/"
"""With the name of a class of workload after it: the label of namespaces that are entitled to the class."""


def covers(entries: Iterable[str], namespace: str, labels: Container[str]) -> bool:
    """Whether one of the entries is for this namespace with these labels."""
    entries = tuple(entries)
    return matches_any(_names(entries), namespace) or any([key in labels for key in _labels(entries)])


def described(entries: Iterable[str]) -> str:
    """The namespaces in words, after "for": "namespaces a, b*, or those with the label c/d"."""
    entries = tuple(entries)
    names, labels = _names(entries), _labels(entries)
    parts = [f"namespaces {listed(names)}"] if names else []
    if labels:
        parts.append(f"{'those' if names else 'namespaces'} with the label {listed(labels)}")
    return ", or ".join(parts) or "no namespace of a tenant"


def in_cel(entries: Iterable[str]) -> str:
    """`covers` for the namespace of the request."""
    entries = tuple(entries)
    terms = [cel.matches("request.namespace", _names(entries))] if _names(entries) else []
    if labels := _labels(entries):
        terms.append(f"namespaceObject.metadata.?labels.orValue({{}}).exists(k, k in {cel.literal(labels)})")
    return cel.any_of(terms)


def _names(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([entry for entry in entries if "/" not in entry])


def _labels(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([entry for entry in entries if "/" in entry])

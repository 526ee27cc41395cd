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
    names, keys = _divided(entries)
    return matches_any(names, namespace) or any([key in labels for key in keys])


def described(entries: Iterable[str]) -> str:
    """The namespaces in words, after "for": "namespaces a, b*, or those with the label c/d"."""
    names, keys = _divided(entries)
    parts = [f"namespaces {listed(names)}"] if names else []
    if keys:
        parts.append(f"{'those' if names else 'namespaces'} with the label {listed(keys)}")
    return ", or ".join(parts) or "no namespace of a tenant"


def in_cel(entries: Iterable[str]) -> str:
    """`covers` for the namespace of the request."""
    names, keys = _divided(entries)
    terms = [by_name(names)] if names else []
    if keys:
        terms.append(f"namespaceObject.metadata.?labels.orValue({{}}).exists(k, k in {cel.literal(keys)})")
    return cel.any_of(terms)


def by_name(entries: Iterable[str]) -> str:
    """`in_cel` where nothing is known of the labels of the namespace: without those entries."""
    return cel.matches("request.namespace", _divided(entries)[0])


def _divided(entries: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The name patterns and the keys of labels among the entries."""
    entries = tuple(entries)
    return tuple([each for each in entries if "/" not in each]), tuple([each for each in entries if "/" in each])

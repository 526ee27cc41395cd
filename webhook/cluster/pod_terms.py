"""The required terms of pods about other pods, as they are kept of pods that exist.

Follows k8s.io/kubernetes pkg/scheduler/framework AffinityTerm.Matches: a term without namespaces means the pod's own one, and
what its namespaceSelector takes is added to what it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from webhook.cluster.pods import namespace_of
from webhook.kube.pod import REQUIRED, Pod
from webhook.kube.selectors import Selector, compiled, selects

_MAX_TERMS: Final = 8
"""Terms of one pod."""
_MAX_CHARACTERS: Final = 4096
"""Characters of a term: tenants write it."""


class PodTerm(NamedTuple):
    """Equal for pods of one template."""

    namespaces: tuple[str, ...]
    by_label: Selector
    """Which namespaces are meant besides; None: none, or it is not known which."""
    selector: Selector
    key: str
    """The node label whose values are the domains."""

    def means(self, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str]) -> bool:
        """Whether it is about a pod. `of_namespace`: the labels of its namespace. False where that is not known."""
        there = namespace in self.namespaces or bool(selects(self.by_label, of_namespace))
        return there and bool(selects(self.selector, labels))


def pod_terms(pod: Pod, kind: Literal["podAffinity", "podAntiAffinity"]) -> tuple[PodTerm, ...]:
    """The required ones that a pod states. One that is malformed, or long, is left out."""
    stated = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED)
    if not stated:
        return ()
    terms = [_read(term, pod) for term in stated[:_MAX_TERMS] if len(repr(term)) <= _MAX_CHARACTERS]
    return tuple([term for term in terms if term is not None])


def _read(term: Mapping[str, Any], pod: Pod) -> PodTerm | None:
    named, by_label = tuple(term.get("namespaces") or ()), term.get("namespaceSelector")
    own = (namespace_of(pod),) if not named and by_label is None else named
    try:
        spaces = None if by_label is None else compiled(by_label)
        return PodTerm(own, spaces, compiled(term.get("labelSelector")), str(term.get("topologyKey")))
    except (ValueError, TypeError, LookupError):
        return None

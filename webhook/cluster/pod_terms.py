"""Required pod affinity and anti-affinity terms of pods that exist.

Follows k8s.io/kubernetes pkg/scheduler/framework AffinityTerm.Matches: a term without namespaces is about the namespace
of its pod, and a namespaceSelector adds namespaces to the listed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from webhook.cluster.pods import namespace_of
from webhook.kube.pod import REQUIRED, Pod
from webhook.kube.selectors import Selector, compiled, selects

_MAX_TERMS: Final = 8
"""Maximum number of terms of one pod."""
_MAX_CHARACTERS: Final = 4096
"""Maximum length of a term as text: tenants write it."""


class PodTerm(NamedTuple):
    """A required term. Equal for pods of one template."""

    namespaces: tuple[str, ...]
    namespace_selector: Selector
    """Selects more namespaces. None: no more, or the selector is too large to keep."""
    selector: Selector
    topology_key: str
    """The node label whose values are the domains."""

    def matches(self, namespace: str, labels: Mapping[str, str], of_namespace: Mapping[str, str]) -> bool:
        """Whether the term selects a pod. `of_namespace`: the labels of the pod's namespace. False if that is not known."""
        in_namespaces = namespace in self.namespaces or bool(selects(self.namespace_selector, of_namespace))
        return in_namespaces and bool(selects(self.selector, labels))


def pod_terms(pod: Pod, kind: Literal["podAffinity", "podAntiAffinity"]) -> tuple[PodTerm, ...]:
    """The required terms of a pod, without those that are malformed or too long."""
    stated = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(REQUIRED)
    if not stated:
        return ()
    terms = [_read(term, pod) for term in stated[:_MAX_TERMS] if len(repr(term)) <= _MAX_CHARACTERS]
    return tuple([term for term in terms if term is not None])


def _read(term: Mapping[str, Any], pod: Pod) -> PodTerm | None:
    namespaces, selector = tuple(term.get("namespaces") or ()), term.get("namespaceSelector")
    if not namespaces and selector is None:
        namespaces = (namespace_of(pod),)
    try:
        namespace_selector = None if selector is None else compiled(selector)
        return PodTerm(
            namespaces, namespace_selector, compiled(term.get("labelSelector")), str(term.get("topologyKey"))
        )
    except (ValueError, TypeError, LookupError):
        return None

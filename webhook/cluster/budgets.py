"""PodDisruptionBudgets, as far as they tell which pods one covers: namespace, name and selector.

Follows policy/v1 and k8s.io/apimachinery labels.Requirement.Matches: an empty selector takes every pod of its namespace,
none at all takes no pod; NotIn and DoesNotExist hold where the label is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_MOST_BUDGETS: Final = 1000
"""Of one namespace, that are looked at. Tenants write them."""
_MOST_VALUES: Final = 100
"""Of one selector. Of a larger one it is not known what it takes, and nothing of it is kept."""


class _Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values)


_Selector = tuple[_Requirement, ...] | None
"""All of these hold; None: not known what it takes."""
_NOTHING: Final = (_Requirement("", "In", frozenset()),)
_OPERATORS: Final[Mapping[str, Callable[[str | None, frozenset[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


class Budgets:
    """By namespace and name."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, _Selector]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A budget is new, or has changed. Raises where its selector is none: ValueError, TypeError, LookupError."""
        metadata, spec = obj["metadata"], obj.get("spec") or {}
        selector = spec.get("selector")
        compiled = _NOTHING if selector is None else _compiled(selector)
        self._by_namespace.setdefault(metadata["namespace"], {})[metadata["name"]] = compiled

    def gone(self, name: str) -> None:
        """`name`: with its namespace, `team-a/chat`."""
        namespace, _, name = name.partition("/")
        budgets = self._by_namespace.get(namespace, {})
        budgets.pop(name, None)
        if not budgets:
            self._by_namespace.pop(namespace, None)

    def __iter__(self) -> Iterator[str]:
        """Their names, with the namespace."""
        return (f"{namespace}/{name}" for namespace, budgets in self._by_namespace.items() for name in budgets)

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool | None:
        """Whether some budget of the namespace takes a pod with these labels. None where that is not known."""
        budgets = self._by_namespace.get(namespace) or {}
        if len(budgets) > _MOST_BUDGETS:
            return None
        unknown = False
        for selector in budgets.values():
            if selector is None:
                unknown = True
            elif all([requirement.holds(labels) for requirement in selector]):
                return True
        return None if unknown else False


def _compiled(selector: Mapping[str, Any]) -> _Selector:
    stated, listed = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if len(stated) + len(listed) + sum(len(e.get("values") or ()) for e in listed) > _MOST_VALUES:
        return None
    found = [_Requirement(key, "In", frozenset((value,))) for key, value in stated.items()]
    for expression in listed:
        key, operator = expression["key"], expression["operator"]
        if operator not in _OPERATORS:
            raise ValueError(f"selector operator {operator!r}")
        found.append(_Requirement(key, operator, frozenset(expression.get("values") or ())))
    return tuple(found)

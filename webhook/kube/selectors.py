"""Compiles and evaluates label selectors.

Follows k8s.io/apimachinery labels.Requirement.Matches: an empty selector selects everything, a missing one selects nothing. NotIn
and DoesNotExist hold where the label is missing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_MAX_VALUES: Final = 100
"""Maximum number of labels, expressions and values in a selector. A larger one is not stored, so its result is unknown."""


class Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        return OPERATORS[self.operator](labels.get(self.key), self.values)


Selector = tuple[Requirement, ...] | None
"""The requirements, which must all hold; None for a selector that is too large."""
_NOTHING: Final = (Requirement("", "In", frozenset()),)
OPERATORS: Final[Mapping[str, Callable[[str | None, frozenset[str]], bool]]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


def selects(selector: Selector, labels: Mapping[str, str]) -> bool | None:
    """Whether a selector selects an object with these labels; None if that is unknown."""
    return None if selector is None else all([requirement.holds(labels) for requirement in selector])


def compiled(selector: Mapping[str, Any] | None) -> Selector:
    """The requirements of a label selector as Kubernetes stores it; None stands for a missing one.

    Raises ValueError, TypeError or LookupError if the selector is malformed.
    """
    if selector is None:
        return _NOTHING
    labels, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if len(labels) + len(expressions) + sum(len(e.get("values") or ()) for e in expressions) > _MAX_VALUES:
        return None
    requirements = [Requirement(key, "In", frozenset((value,))) for key, value in labels.items()]
    for expression in expressions:
        key, operator = expression["key"], expression["operator"]
        if operator not in OPERATORS:
            raise ValueError(f"selector operator {operator!r}")
        requirements.append(Requirement(key, operator, frozenset(expression.get("values") or ())))
    return tuple(requirements)


def matcher(label_selector: Any) -> Callable[[Mapping[str, str]], bool]:
    """Says whether a LabelSelector of an object matches labels; one that is malformed or too large matches none. It is read once:
    to read it takes longer than to compare it, and it is compared with the labels of all pods."""
    try:
        selector = compiled(label_selector)
    except (ValueError, TypeError, LookupError):
        selector = _NOTHING
    return lambda labels: bool(selects(selector, labels))


def matches(label_selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector of an object matches these labels: see `matcher`."""
    return matcher(label_selector)(labels)

"""What a query in PromQL reads."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser

_PARTS = ("lhs", "rhs", "expr", "vector_selector")


class Selector(NamedTuple):
    """`labels`: those that it matches. `text`: as a query of its own, at the present time."""

    name: str
    labels: tuple[str, ...]
    text: str


class Call(NamedTuple):
    """A function or a sum, with the selectors below it. `by`: the labels by which a sum adds up."""

    name: str
    of: tuple[Selector, ...]
    by: frozenset[str] = frozenset()


def selectors(query: str) -> list[Selector]:
    return _selectors(promql_parser.parse(query))


def sums(query: str) -> list[Call]:
    """All that add up by labels."""
    return [
        Call(str(node.op), tuple(_selectors(node)), frozenset(node.modifier.labels))
        for node in _nodes(promql_parser.parse(query))
        if _is(node, "AggregateExpr") and node.modifier
    ]


def calls(query: str) -> list[Call]:
    """All functions."""
    nodes = _nodes(promql_parser.parse(query))
    return [Call(node.func.name, tuple(_selectors(node))) for node in nodes if _is(node, "Call")]


def _selectors(node: Any) -> list[Selector]:
    return [_selector(below) for below in _nodes(node) if _is(below, "VectorSelector")]


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for part in _PARTS:
        if (below := getattr(node, part, None)) is not None:
            yield from _nodes(below)
    for argument in getattr(node, "args", None) or ():
        yield from _nodes(argument)


def _is(node: Any, kind: str) -> bool:
    return type(node).__name__ == kind


def _selector(node: Any) -> Selector:
    matchers = node.matchers.matchers
    text = ", ".join(f'{m.name}{_OPERATORS[str(m.op).rpartition(".")[2]]}"{m.value}"' for m in matchers)
    return Selector(node.name, tuple(m.name for m in matchers), f"{node.name}{{{text}}}")


_OPERATORS = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}

"""Sentences about decision records."""

import ast
from pathlib import Path
from typing import Any

import pytest

from webhook.admission.words import _SENTENCES, binding, sentence, why_none
from webhook.text import matches_any

INJECTORS = Path(__file__).resolve().parents[2] / "webhook" / "injectors"


def outcomes() -> list[tuple[str, str]]:
    """Every injector with each of its results, read from the source of its module."""
    found = []
    for path in sorted(INJECTORS.glob("[a-z]*.py")):
        head, *rest = path.stem.split("_")
        name = head + "".join(part.capitalize() for part in rest)
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Outcome":
                words = [
                    n.value for n in ast.walk(call.args[0]) if isinstance(n, ast.Constant) and isinstance(n.value, str)
                ]
                found += [(name, word) for word in words]
    return found


@pytest.mark.parametrize(("unit", "result"), sorted(set(outcomes())))
def test_every_result_of_an_injector_has_a_sentence(unit: str, result: str) -> None:
    assert result in _SENTENCES[unit]
    assert matches_any(("*",), sentence(unit, [result, 1]))


@pytest.mark.parametrize(
    ("done", "text"),
    [
        pytest.param(["filled", 2], "GPU requests were filled in from limits in 2 places", id="a number"),
        pytest.param(["equal"], "GPU requests equal limits already", id="no detail"),
        pytest.param(["newer", {"a": [1, "b"]}], "newer a 1, b", id="a result of a later version"),
        pytest.param("odd", "odd", id="an entry that is not ours"),
        pytest.param([], "[]", id="nothing"),
        pytest.param([[1], 2], "a list 2", id="a result that is no word"),
    ],
)
def test_sentences(done: Any, text: str) -> None:
    assert sentence("gpuResources", done) == text


@pytest.mark.parametrize(
    ("bound", "word", "text"),
    [
        (None, "waits", "not bound yet; chosen was a"),
        ("a", "first", "bound to a, the node that was chosen"),
        ("b", "ranked", "bound to b, number 2 of the ranking, not to a: it was full"),
        ("c", "other", "bound to c, which is not in the ranking, not to a: it was full"),
    ],
)
def test_the_node_to_which_a_pod_was_bound(bound: str | None, word: str, text: str) -> None:
    assert binding(["a", "b"], bound, "it was full") == (word, text)


def test_why_no_node_was_chosen() -> None:
    assert why_none({"nodes": []}) == ""
    assert (
        why_none({"why": "no node fits", "rejected": [["cordoned", 2], ["too few free GPUs", 1]]})
        == "no node fits: 2 nodes cordoned, 1 node too few free GPUs"
    )

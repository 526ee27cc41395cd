"""Text for messages: quoted values, lists, counts, and the nearest known word."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.text import (
    MAX_QUOTE,
    amount_number,
    bare,
    json_type,
    listed,
    matches,
    nearest,
    one_edit_apart,
    plural,
    quoted,
)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("gpu", '"gpu"', id="a plain word"),
        pytest.param("größe 日本", '"größe 日本"', id="letters of any language stay"),
        pytest.param("", '""', id="an empty string is visible"),
        pytest.param('a" b', r'"a\" b"', id="a quote cannot end the quotes"),
        pytest.param("a\\n", r'"a\\n"', id="a backslash is not taken for an escape"),
        pytest.param("a\nb\r\t\0", r'"a\nb\r\t\x00"', id="control characters are spelt out: a line stays a line"),
        pytest.param("\x1b[31m", r'"\x1b[31m"', id="a colour code does not reach a terminal"),
        pytest.param("a\u202eb\u2028", r'"a\u202eb\u2028"', id="text direction and line separators are spelt out"),
        pytest.param("\ud800", r'"\ud800"', id="half a surrogate pair can be encoded"),
        pytest.param("x" * 81, f'"{"x" * 80}…"', id="long text is cut"),
        pytest.param("x" * 80, f'"{"x" * 80}"', id="text of just the right length is not cut"),
        pytest.param(1.5, '"1.5"', id="a number"),
        pytest.param(True, '"true"', id="a truth value as YAML writes it"),
        pytest.param(None, "nothing", id="nothing has no quotes"),
        pytest.param({"a": 1}, "a map", id="a map is not written out"),
        pytest.param([1], "a list", id="a list is not written out"),
        pytest.param(1 << 20000, '"20001-bit number"', id="a number of thousands of digits is not written out"),
    ],
)
def test_quoted(value: object, want: str) -> None:
    assert quoted(value) == want
    assert bare(value) == (want[1:-1] if isinstance(value, str) else want)


@given(st.one_of(st.text(), st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])), st.integers()))
def test_quoted_text_is_one_short_line_of_printable_characters_and_cannot_leave_its_quotes(value: object) -> None:
    said = quoted(value)
    assert said.isprintable()
    assert said.startswith('"')
    assert said.endswith('"')
    assert len(said) <= MAX_QUOTE * len("\\U0010ffff") + 3
    inside = said[1:-1].replace("\\\\", "")
    assert inside.count('"') == inside.count('\\"')
    said.encode()


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        (0, "a number"),
        (1.5, "a number"),
        ("", "a string"),
        ([], "a list"),
        ({}, "a map"),
        ((), "tuple"),
    ],
    ids=str,
)
def test_kind_is_the_json_type_in_words(value: object, want: str) -> None:
    assert json_type(value) == want


@pytest.mark.parametrize(
    ("count", "want"),
    [pytest.param(0, "0 nodes", id="none"), pytest.param(1, "1 node", id="one"), pytest.param(2, "2 nodes", id="more")],
)
def test_plural(count: int, want: str) -> None:
    assert plural(count, "node") == want


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param([], "", id="none"),
        pytest.param(["a"], "a", id="one"),
        pytest.param(list("abcde"), "a, b, c, d, e", id="as many as the limit"),
        pytest.param(list("abcdefg"), "a, b, c, d, e and 2 more", id="more than the limit"),
    ],
)
def test_listed(values: list[str], want: str) -> None:
    assert listed(values) == want
    assert listed(iter(values)) == want


@pytest.mark.parametrize(
    ("word", "known", "want"),
    [
        pytest.param("quartz", ["shadow", "rules"], None, id="no known word is similar"),
        pytest.param("x", [], None, id="there are no known words"),
        pytest.param("shaddow", ["rules", "shadow"], "shadow", id="a letter too many"),
        pytest.param("gpu_resources", ["gpuResources", "tolerations"], "gpuResources", id="another spelling"),
        pytest.param("s" * 100_000, ["shadow"], None, id="a huge word takes no time"),
    ],
)
def test_nearest(word: str, known: list[str], want: str | None) -> None:
    assert nearest(word, known) == want


@pytest.mark.parametrize(
    ("word", "want"),
    [("gpu", False), ("gxx", False), ("gpuss", False), ("g", False), ("gpx", True), ("gpus", True), ("gu", True), ("gup", True)],
)  # fmt: skip
def test_one_edit_apart(word: str, want: bool) -> None:
    assert one_edit_apart(word, "gpu") is one_edit_apart("gpu", word) is want


@pytest.mark.parametrize(
    ("pattern", "text", "want"),
    [
        pytest.param("nvidia.com/gpu", "nvidia.com/gpumem", False, id="an exact name is no prefix"),
        pytest.param("nvidia.com/gpu", "nvidia.com/GPU", False, id="case counts"),
        pytest.param("a.c", "abc", False, id="a dot is a dot"),
        pytest.param("a*c", "abc", False, id="a star in the middle is a star"),
        pytest.param("(a+)+$", "a" * 50, False, id="never a regular expression"),
        pytest.param("", "", True, id="empty is empty"),
        pytest.param("nvidia.com/mig-*", "nvidia.com/mig-1g.10gb", True, id="a trailing star is a prefix"),
        pytest.param("team-*", "team-", True, id="nothing after the prefix"),
        pytest.param("*", "anything", True, id="a star alone is everything"),
    ],
)
def test_matches(pattern: str, text: str, want: bool) -> None:
    assert matches(pattern, text) is want


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 12000, "12"), ("cpu", 500, "0.5"), ("memory", 64 << 30, "64Gi"), ("memory", 1 << 29, "512Mi"),
     ("nvidia.com/gpu", 8, "8"), ("memory", 1000, "1000"), ("memory", 1 << 42, "4Ti")],
)  # fmt: skip
def test_amounts_are_written_as_in_a_manifest(resource: str, amount: int, text: str) -> None:
    assert amount_number(resource, amount) == text

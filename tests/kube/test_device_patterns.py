"""Patterns of `matches`: what is told of them, and that it is what RE2 says.

Covers kube.device_patterns.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube import google_cel
from webhook.errors import NotRead
from webhook.kube.device_patterns import Pattern
from webhook.kube.device_tree import Facts


@pytest.mark.parametrize(
    ("pattern", "found", "missed"),
    [
        ("^.*h100.*$", ["nvidia h100 80gb", "h100"], ["a100", "h100\nx", ""]),
        ("h100", ["an h100"], ["h10"]),
        ("^(A100|H100)(-SXM[45])?$", ["A100", "H100-SXM5"], ["H100-SXM", "xA100", "A100x"]),
        ("^A$|^B$|C", ["A", "B", "xCx"], ["AB", ""]),
        (r"^0000:[0-9a-f]+:\d\d\.\w$", ["0000:3b:00.0"], ["0000:3g:00.0", "0000:3b:00x0"]),
        (r"\S\s\D\W", ["1 a-"], ["1 1-", "  a-"]),
        ("[^a]?sym", ["asymetric", "sym"], ["sim"]),
        ("^(?:ab)*$", ["", "ab", "abab"], ["aba"]),
        ("a+b?c*", ["a", "xac"], ["bc"]),
        ("", ["", "a"], []),
        ("$", ["", "a"], []),
        ("^$", [""], ["a"]),
        ("[é-ü]", ["ö"], ["o"]),
        ("()|x", ["", "y"], []),
    ],
)
def test_told(pattern: str, found: list[str], missed: list[str]) -> None:
    assert [text for text in found if not Pattern(pattern).found_in(text)] == []
    assert [text for text in missed if Pattern(pattern).found_in(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(\pL{150})a", "a{2}", "(?i)a", "a**", "a*?", "a++", r"\bx", r"\x41", r"\Qa\E",
        "(a", "a)", "[a", "[]", "[z-a]", "[[:alpha:]]",
        "[a-]", r"[\D]", r"[\w-z]", "a^", "a$b", "(^a)", "(?P<n>a)", "{", "]", "*", "a" * 65, "(" * 9 + "a" + ")" * 9, "\\",
    ],
)  # fmt: skip
def test_not_told(pattern: str) -> None:
    with pytest.raises(NotRead):
        Pattern(pattern)


PIECES = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    "[a-c]",
    r"\d",
    r"\W",
    r"\.",
    "(",
    ")",
    "(?:",
    "|",
    "*",
    "+",
    "?",
    "^",
    "$",
    "1",
    "-",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(alphabet="abc1.-\n", max_size=8))
def test_what_is_told_is_what_re2_says(pattern: str, text: str) -> None:
    try:
        found = Pattern(pattern).found_in(text)
    except NotRead:
        return
    facts = Facts("d", {"d/t": text}, {})
    assert google_cel.decided(f'device.attributes["d"].t.matches(r"{pattern}")', facts, ["d"]) is found

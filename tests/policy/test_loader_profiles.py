"""Valid documents: profiles inherit from `default`. Any text gives settings or a PolicyError."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.policy.documents import Document, Profile, Unit
from webhook.errors import PolicyError
from webhook.policy.loader import read


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{}", Document(), id="nothing but defaults"),
        pytest.param(b"{}", Document(), id="as bytes"),
        pytest.param("profiles: {}", Document(), id="no profile: there is always a default one"),
        pytest.param("profiles:\n  default:\n", Document(), id="a section without a line in it"),
        pytest.param(
            "profiles: {default: {first: {action: off}}}",
            Document(profiles={"default": Profile(first=Unit(action="off"))}),
            id="off is a word",
        ),
        pytest.param(
            "profiles: {default: {shadow: on}}",
            Document(profiles={"default": Profile(shadow=True)}),
            id="off is a boolean where one is wanted",
        ),
        pytest.param(
            "profiles: {default: {first: {mostPods: null}}}",
            Document(profiles={"default": Profile(first=Unit(most_pods=None))}),
            id="null where it is a value",
        ),
        pytest.param(
            "profiles: {1: {}, yes: {}}",
            Document(profiles={"default": Profile(), "1": Profile(), "yes": Profile()}),
            id="names of profiles are text",
        ),
    ],
)
def test_good_documents(text: str | bytes, want: Document) -> None:
    assert read(text, Document) == want


def profile(text: str, name: str) -> Profile:
    return read(text, Document).profiles[name]


DEFAULT = """
profiles:
  default:
    shadow: true
    first: {action: warn, mostPods: 2, names: [a, b], reserved: {"x": [one], "y*": []}}
"""


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "", Unit(action="warn", most_pods=2, names=("a", "b"), reserved={"x": ("one",), "y*": ()}), id="all"
        ),
        pytest.param(
            "first: {action: deny}",
            Unit(action="deny", most_pods=2, names=("a", "b"), reserved={"x": ("one",), "y*": ()}),
            id="keys that it does not state",
        ),
        pytest.param(
            "first:",
            Unit(action="warn", most_pods=2, names=("a", "b"), reserved={"x": ("one",), "y*": ()}),
            id="a section without a line",
        ),
        pytest.param(
            "first: {names: [c], mostPods: null}",
            Unit(action="warn", most_pods=None, names=("c",), reserved={"x": ("one",), "y*": ()}),
            id="a list is replaced, and a value by null",
        ),
        pytest.param(
            "first: {reserved: {x: [two], z: []}}",
            Unit(action="warn", most_pods=2, names=("a", "b"), reserved={"x": ("two",), "y*": (), "z": ()}),
            id="a map is merged",
        ),
    ],
)
def test_a_profile_inherits_from_default(text: str, want: Unit) -> None:
    found = profile(f"{DEFAULT}  other:\n    {text}\n", "other")
    assert found.first == want
    assert found.shadow
    assert profile(f"{DEFAULT}  other:\n    {text}\n", "default") == profile(DEFAULT, "default")


def test_the_order_of_a_merged_map_is_that_of_default_and_then_its_own() -> None:
    """In some maps the first entry that matches decides, so the order must be defined."""
    names = [f"n{i}" for i in range(50)]
    default = ", ".join(f"{n}: []" for n in names)
    text = (
        f"profiles: {{default: {{first: {{reserved: {{{default}}}}}}}, a: {{first: {{reserved: {{z: [], n7: [x]}}}}}}}}"
    )
    assert list(profile(text, "a").first.reserved) == [*names, "z"]


@given(st.text(max_size=60))
def test_any_text_gives_settings_or_a_policy_error(text: str) -> None:
    _attempt(text)


@given(st.binary(max_size=60))
def test_any_bytes_give_settings_or_a_policy_error(text: bytes) -> None:
    _attempt(text)


@given(st.text(alphabet="entriesprofilesdefault:{}[],\n -&*!?|>'\"#%@`~01.", max_size=40))
def test_any_yaml_gives_settings_or_a_policy_error(text: str) -> None:
    _attempt(text)


def _attempt(text: Any) -> None:
    found: list[str] = []
    try:
        read(text, Document)
    except PolicyError as error:
        found = error.problems
    assert all(line.isprintable() for line in found)

"""Reading settings from YAML, with a small model, so that these tests do not change with the policy."""

from typing import Any, Literal, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, model_validator

from webhook.errors import PolicyError
from webhook.framework.interface import Settings
from webhook.policy.loader import read


class Unit(Settings):
    action: Literal["deny", "warn", "off"] = "deny"
    most_pods: int | None = Field(default=4, ge=1)
    names: tuple[str, ...] = ()
    reserved: dict[str, tuple[str, ...]] = {}
    classes: dict[str, str] = {"a": "low"}


class Profile(Settings):
    shadow: bool = False
    first: Unit = Unit()
    second: Unit = Unit()

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.first.names and self.first.names == self.second.names:
            raise ValueError("first and second name the same")
        return self


class Entry(Settings):
    name: str = Field(alias="class", pattern="^[a-z]+$")


class Document(Settings):
    entries: tuple[Entry, ...] = ()
    profiles: dict[str, Profile] = {"default": Profile()}


ROOT = "wanted a map with entries, profiles ({} is all defaults)"
UNKNOWN = "unknown key; known here: "
BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "an empty document": ("", [f"line 1: saw nothing; {ROOT}"]),
    "a list": ("- a", [f"line 1: saw a list; {ROOT}"]),
    "two documents": ("entries: []\n---\nentries: []", ["line 2: not YAML: but found another document"]),
    "a tab": ("a:\n\tb: 1", ["line 2: not YAML: found character that cannot start any token"]),
    "bytes that are no UTF-8": (
        b"\xff",
        ['not YAML: unacceptable character #x00ff: invalid leading UTF-8 octet in "<byte string>", position 0'],
    ),
    "more bytes than are read": (
        "#" * ((1 << 17) + 1),
        ["the policy has 131073 bytes; wanted at most 131072: shorten it, comments included"],
    ),
    "more values than are read": (
        "entries: [" + "a, " * 20_000 + "]",
        ["line 1: more than 20000 keys and values are refused"],
    ),
    "a long number to the base 60": (
        "entries: " + ":".join("1" * 100),
        [f'line 1: entries: "{":".join("1" * 40)}:…" is too long for what is no text: put text in quotes'],
    ),
    "a list that is too long for decisions": (
        "entries: [" + "a, " * 1025 + "]",
        ["line 1: entries: saw 1025 entries, wanted at most 1024: use patterns with *"],
    ),
    "too many values after inheritance": (
        "profiles:\n  default: {first: [" + "a, " * 1020 + "]}\n" + "".join(f"  a{n}: {{}}\n" for n in range(99)),
        [
            "profiles: saw 103121 values, those of `default` in each profile; wanted at most 100000: "
            "shorten `default`, or have fewer profiles"
        ],
    ),
    "too many profiles": (
        "profiles:\n  default: {}\n" + "".join(f"  a{n}: {{}}\n" for n in range(100)),
        ["profiles: saw 101; wanted at most 100: share them between namespaces"],
    ),
    "an alias": ("entries: &all\n  - class: a\nprofiles: *all", ["line 3: an alias is refused: write it out"]),
    "nesting that is too deep for a parser": ("[" * 100_000, ["line 1: more than 32 levels are refused"]),
    "keys twice: YAML itself would take the last": (
        "profiles:\n  a: {}\n  a: {}\n  b:\n    shadow: true\n    shadow: false",
        ["line 3: profiles.a: the key stands here twice", "line 6: profiles.b.shadow: the key stands here twice"],
    ),
    "a key that is a list": ("? [a]\n: 1", ["line 1: wanted a word as key, saw a list or a map"]),
    "a key that is a map": (
        "profiles:\n  ? {a: b}\n  : 1",
        ["line 2: profiles: wanted a word as key, saw a list or a map"],
    ),
    "a tag that runs code": ("entries: !!python/name:os.system x", ['line 1: entries: "x" is no os.system']),
    "an invalid date": ("entries: 2024-99-99", ['line 1: entries: "2024-99-99" is no timestamp']),
    "a misspelt key": ("entrees: []", ['line 1: entrees: unknown key; did you mean "entries"?']),
    "a key without a similar one": ("kind: ConfigMap", [f"line 1: kind: {UNKNOWN}entries, profiles"]),
    "a key as Python spells it": (
        "profiles:\n  default:\n    first:\n      most_pods: 3",
        ['line 4: profiles.default.first.most_pods: unknown key; did you mean "mostPods"?'],
    ),
    "a key missing, and another instead": (
        "entries:\n  - class: a\n  - name: b",
        ["line 3: entries[1].class: this key is missing", f"line 3: entries[1].name: {UNKNOWN}class"],
    ),
    "a key with terminal escapes": (
        "profiles:\n  default:\n    '\\x1b[31m\"': 1",
        [rf"line 3: profiles.default.\\x1b[31m\": {UNKNOWN}shadow, first, second"],
    ),
    "nothing for a list": ("entries:", ["line 1: entries: saw nothing; wanted a list"]),
    "a word for a map": ("entries: [a]", ['line 1: entries[0]: saw "a"; wanted a map']),
    "a number for text": (
        "entries: [{class: 1}]",
        ['line 1: entries[0].class: saw "1"; wanted text: put it in quotes'],
    ),
    "text of another form": (
        "entries: [{class: A}]",
        ["""line 1: entries[0].class: saw "A"; wanted pattern '^[a-z]+$'"""],
    ),
    "a word for a truth value": (
        "profiles: {default: {shadow: maybe}}",
        ['line 1: profiles.default.shadow: saw "maybe"; wanted true or false'],
    ),
    "a fraction for a whole number": (
        "profiles: {default: {first: {mostPods: 1.5}}}",
        ['line 1: profiles.default.first.mostPods: saw "1.5"; wanted a whole number'],
    ),
    "a number out of range": (
        "profiles: {default: {first: {mostPods: 0}}}",
        ['line 1: profiles.default.first.mostPods: saw "0"; wanted greater than or equal to 1'],
    ),
    "a truth value for a word": (
        "profiles: {default: {first: {action: true}}}",
        ["line 1: profiles.default.first.action: saw \"true\"; wanted 'deny', 'warn' or 'off'"],
    ),
    "settings that contradict each other": (
        "profiles:\n  default:\n    first: {names: [a]}\n    second: {names: [a]}",
        ["line 2: profiles.default: first and second name the same"],
    ),
    "a mistake that other profiles inherit is reported once": (
        "profiles:\n  default:\n    shadow: x\n  a: {}\n  b:\n    first: {}",
        ['line 3: profiles.default.shadow: saw "x"; wanted true or false'],
    ),
    "a mistake in two places is reported twice": (
        "profiles:\n  default:\n    shadow: x\n  a:\n    shadow: x",
        [
            'line 3: profiles.default.shadow: saw "x"; wanted true or false',
            'line 5: profiles.a.shadow: saw "x"; wanted true or false',
        ],
    ),
    "a contradiction of what is inherited": (
        "profiles:\n  default:\n    first: {names: [a]}\n  a:\n    second:\n      names: [a]",
        ["line 4: profiles.a: first and second name the same"],
    ),
}


@pytest.mark.parametrize(("text", "want"), BAD.values(), ids=BAD)
def test_problems(text: str | bytes, want: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        read(text, Document)
    assert caught.value.problems == want
    assert str(caught.value) == "\n".join(want)


# --- valid documents; profiles inherit from `default` ------------------------------------------------------------------

GOOD: dict[str, tuple[str | bytes, Profile]] = {
    "nothing but defaults, as bytes": (b"{}", Profile()),
    "no profile: there is always a default one": ("profiles: {}", Profile()),
    "a section without a line in it": ("profiles:\n  default:\n", Profile()),
    "off is a word": ("profiles: {default: {first: {action: off}}}", Profile(first=Unit(action="off"))),
    "on is a boolean where one is wanted": ("profiles: {default: {shadow: on}}", Profile(shadow=True)),
    "null where it is a value": (
        "profiles: {default: {first: {mostPods: null}}}",
        Profile(first=Unit(most_pods=None)),
    ),
}


@pytest.mark.parametrize(("text", "want"), GOOD.values(), ids=GOOD)
def test_good_documents(text: str | bytes, want: Profile) -> None:
    assert read(text, Document) == Document(profiles={"default": want})


def profile(text: str, name: str) -> Profile:
    return read(text, Document).profiles[name]


def test_names_of_profiles_are_text() -> None:
    assert list(read("profiles: {1: {}, yes: {}}", Document).profiles) == ["default", "1", "yes"]


DEFAULT = """
profiles:
  default:
    shadow: true
    first: {action: warn, mostPods: 2, names: [a, b], reserved: {"x": [one], "y*": []}}
"""
INHERITED: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("", {}),
    "keys that it does not state": ("first: {action: deny}", {"action": "deny"}),
    "a section without a line": ("first:", {}),
    "a list is replaced, and a value by null": (
        "first: {names: [c], mostPods: null}",
        {"names": ("c",), "most_pods": None},
    ),
    "a map is merged": (
        "first: {reserved: {x: [two], z: []}}",
        {"reserved": {"x": ("two",), "y*": (), "z": ()}},
    ),
    "a map that default leaves out is merged too": (
        "first: {classes: {b: high}}",
        {"classes": {"a": "low", "b": "high"}},
    ),
}


@pytest.mark.parametrize(("text", "changed"), INHERITED.values(), ids=INHERITED)
def test_a_profile_inherits_from_default(text: str, changed: dict[str, Any]) -> None:
    found, default = (profile(f"{DEFAULT}  other:\n    {text}\n", name) for name in ("other", "default"))
    assert found.first == default.first.model_copy(update=changed)
    assert found.shadow
    assert default == profile(DEFAULT, "default")


def test_the_order_of_a_merged_map_is_that_of_default_and_then_its_own() -> None:
    """In some maps the first entry that matches decides, so the order must be defined."""
    names = [f"n{i}" for i in range(50)]
    default = ", ".join(f"{n}: []" for n in names)
    text = (
        f"profiles: {{default: {{first: {{reserved: {{{default}}}}}}}, a: {{first: {{reserved: {{z: [], n7: [x]}}}}}}}}"
    )
    assert list(profile(text, "a").first.reserved) == [*names, "z"]


YAML = st.text(alphabet="entriesprofilesdefault:{}[],\n -&*!?|>'\"#%@`~01.", max_size=40)


@given(st.text(max_size=60) | st.binary(max_size=60) | YAML)
def test_anything_gives_settings_or_a_policy_error(text: str | bytes) -> None:
    found: list[str] = []
    try:
        read(text, Document)
    except PolicyError as error:
        found = error.problems
    assert all(line.isprintable() for line in found)

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
    folders: tuple[str, ...] = ("data", "mnt")
    reserved: dict[str, tuple[str, ...]] = {}
    classes: dict[str, str] = {"a": "low"}


class Profile(Settings):
    dry_run: bool = False
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
BAD = [
    pytest.param("", [f"line 1: saw nothing; {ROOT}"], id="an empty document"),
    pytest.param("- a", [f"line 1: saw a list; {ROOT}"], id="a list"),
    pytest.param(
        "entries: [{class: a}]\nprofiles: {default: {first: {folders: [..., a]}}}",
        ["line 2: profiles.default.first.folders: saw ... before other entries, wanted it as the last one"],
        id="the rest of a list before other entries",
    ),
    pytest.param(
        "profiles:\n  default:\n    first:\n      reserved: {x: [a, ...]}",
        ["line 4: profiles.default.first.reserved.x: saw ..., and no entries that it could stand for: remove it"],
        id="the rest of a list that has no entries by default",
    ),
    pytest.param("entries: []\n---\nentries: []", ["line 2: not YAML: but found another document"], id="two documents"),
    pytest.param("a:\n\tb: 1", ["line 2: not YAML: found character that cannot start any token"], id="a tab"),
    pytest.param(
        b"\xff",
        ['not YAML: unacceptable character #x00ff: invalid leading UTF-8 octet in "<byte string>", position 0'],
        id="bytes that are no UTF-8",
    ),
    pytest.param(
        "#" * ((1 << 17) + 1),
        ["the policy has 131073 bytes; wanted at most 131072: shorten it, comments included"],
        id="more bytes than are read",
    ),
    pytest.param(
        "entries: [" + "a, " * 20_000 + "]",
        ["line 1: more than 20000 keys and values are refused"],
        id="more values than are read",
    ),
    pytest.param(
        "entries: " + ":".join("1" * 100),
        [f'line 1: entries: "{":".join("1" * 40)}:…" is too long for what is no text: put text in quotes'],
        id="a long number to the base 60",
    ),
    pytest.param(
        "entries: [" + "a, " * 1025 + "]",
        ["line 1: entries: saw 1025 entries, wanted at most 1024: use patterns with *"],
        id="a list that is too long for decisions",
    ),
    pytest.param(
        "profiles:\n  default: {first: [" + "a, " * 1020 + "]}\n" + "".join(f"  a{n}: {{}}\n" for n in range(99)),
        [
            "profiles: saw 103121 values, those of `default` in each profile; wanted at most 100000: "
            "shorten `default`, or have fewer profiles"
        ],
        id="too many values after inheritance",
    ),
    pytest.param(
        "profiles:\n  default: {}\n" + "".join(f"  a{n}: {{}}\n" for n in range(100)),
        ["profiles: saw 101; wanted at most 100: share them between namespaces"],
        id="too many profiles",
    ),
    pytest.param(
        "entries: &all\n  - class: a\nprofiles: *all", ["line 3: an alias is refused: write it out"], id="an alias"
    ),
    pytest.param(
        "[" * 100_000, ["line 1: more than 32 levels are refused"], id="nesting that is too deep for a parser"
    ),
    pytest.param(
        "profiles:\n  a: {}\n  a: {}\n  b:\n    dryRun: true\n    dryRun: false",
        ["line 3: profiles.a: the key stands here twice", "line 6: profiles.b.dryRun: the key stands here twice"],
        id="keys twice: YAML itself would take the last",
    ),
    pytest.param("? [a]\n: 1", ["line 1: wanted a word as key, saw a list or a map"], id="a key that is a list"),
    pytest.param(
        "profiles:\n  ? {a: b}\n  : 1",
        ["line 2: profiles: wanted a word as key, saw a list or a map"],
        id="a key that is a map",
    ),
    pytest.param(
        "entries: !!python/name:os.system x", ['line 1: entries: "x" is no os.system'], id="a tag that runs code"
    ),
    pytest.param("entries: 2024-99-99", ['line 1: entries: "2024-99-99" is no timestamp'], id="an invalid date"),
    pytest.param("entrees: []", ['line 1: entrees: unknown key; did you mean "entries"?'], id="a misspelt key"),
    pytest.param("kind: ConfigMap", [f"line 1: kind: {UNKNOWN}entries, profiles"], id="a key without a similar one"),
    pytest.param(
        "profiles:\n  default:\n    first:\n      most_pods: 3",
        ['line 4: profiles.default.first.most_pods: unknown key; did you mean "mostPods"?'],
        id="a key as Python spells it",
    ),
    pytest.param(
        "entries:\n  - class: a\n  - name: b",
        ["line 3: entries[1].class: this key is missing", f"line 3: entries[1].name: {UNKNOWN}class"],
        id="a key missing, and another instead",
    ),
    pytest.param(
        "profiles:\n  default:\n    '\\x1b[31m\"': 1",
        [rf"line 3: profiles.default.\\x1b[31m\": {UNKNOWN}dryRun, first, second"],
        id="a key with terminal escapes",
    ),
    pytest.param(
        "profiles: {default: {shadow: true}}",
        ['line 1: profiles.default.shadow: unknown key; it is called "dryRun" now'],
        id="a key that has another name now",
    ),
    pytest.param("entries:", ["line 1: entries: saw nothing; wanted a list"], id="nothing for a list"),
    pytest.param("entries: [a]", ['line 1: entries[0]: saw "a"; wanted a map'], id="a word for a map"),
    pytest.param(
        "entries: [{class: 1}]",
        ['line 1: entries[0].class: saw "1"; wanted text: put it in quotes'],
        id="a number for text",
    ),
    pytest.param(
        "entries: [{class: A}]",
        ["""line 1: entries[0].class: saw "A"; wanted pattern '^[a-z]+$'"""],
        id="text of another form",
    ),
    pytest.param(
        "profiles: {default: {dryRun: maybe}}",
        ['line 1: profiles.default.dryRun: saw "maybe"; wanted true or false'],
        id="a word for a truth value",
    ),
    pytest.param(
        "profiles: {default: {first: {mostPods: 1.5}}}",
        ['line 1: profiles.default.first.mostPods: saw "1.5"; wanted a whole number'],
        id="a fraction for a whole number",
    ),
    pytest.param(
        "profiles: {default: {first: {mostPods: 0}}}",
        ['line 1: profiles.default.first.mostPods: saw "0"; wanted greater than or equal to 1'],
        id="a number out of range",
    ),
    pytest.param(
        "profiles: {default: {first: {action: true}}}",
        ["line 1: profiles.default.first.action: saw \"true\"; wanted 'deny', 'warn' or 'off'"],
        id="a truth value for a word",
    ),
    pytest.param(
        "profiles:\n  default:\n    first: {names: [a]}\n    second: {names: [a]}",
        ["line 2: profiles.default: first and second name the same"],
        id="settings that contradict each other",
    ),
    pytest.param(
        "profiles:\n  default:\n    dryRun: x\n  a: {}\n  b:\n    first: {}",
        ['line 3: profiles.default.dryRun: saw "x"; wanted true or false'],
        id="a mistake that other profiles inherit is reported once",
    ),
    pytest.param(
        "profiles:\n  default:\n    dryRun: x\n  a:\n    dryRun: x",
        [
            'line 3: profiles.default.dryRun: saw "x"; wanted true or false',
            'line 5: profiles.a.dryRun: saw "x"; wanted true or false',
        ],
        id="a mistake in two places is reported twice",
    ),
    pytest.param(
        "profiles:\n  default:\n    first: {names: [a]}\n  a:\n    second:\n      names: [a]",
        ["line 4: profiles.a: first and second name the same"],
        id="a contradiction of what is inherited",
    ),
]


@pytest.mark.parametrize(("text", "want"), BAD)
def test_problems(text: str | bytes, want: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        read(text, Document)
    assert caught.value.problems == want
    assert str(caught.value) == "\n".join(want)


# --- valid documents; profiles inherit from `default` ------------------------------------------------------------------

GOOD = [
    pytest.param(b"{}", Profile(), id="nothing but defaults, as bytes"),
    pytest.param("profiles: {}", Profile(), id="no profile: there is always a default one"),
    pytest.param("profiles:\n  default:\n", Profile(), id="a section without a line in it"),
    pytest.param("profiles: {default: {first: {action: off}}}", Profile(first=Unit(action="off")), id="off is a word"),
    pytest.param("profiles: {default: {dryRun: on}}", Profile(dry_run=True), id="on is a boolean where one is wanted"),
    pytest.param(
        "profiles: {default: {first: {mostPods: null}}}",
        Profile(first=Unit(most_pods=None)),
        id="null where it is a value",
    ),
    pytest.param(
        "profiles: {default: {first: {folders: [own, ...]}}}",
        Profile(first=Unit(folders=("own", "data", "mnt"))),
        id="entries before the rest of a list are added to it",
    ),
]


@pytest.mark.parametrize(("text", "want"), GOOD)
def test_good_documents(text: str | bytes, want: Profile) -> None:
    assert read(text, Document) == Document(profiles={"default": want})


def profile(text: str, name: str) -> Profile:
    return read(text, Document).profiles[name]


def test_names_of_profiles_are_text() -> None:
    assert list(read("profiles: {1: {}, yes: {}}", Document).profiles) == ["default", "1", "yes"]


DEFAULT = """
profiles:
  default:
    dryRun: true
    first: {action: warn, mostPods: 2, names: [a, b], reserved: {"x": [one], "y*": []}}
"""
INHERITED = [
    pytest.param("", {}, id="all"),
    pytest.param("first: {action: deny}", {"action": "deny"}, id="keys that it does not state"),
    pytest.param("first:", {}, id="a section without a line"),
    pytest.param(
        "first: {names: [c], mostPods: null}",
        {"names": ("c",), "most_pods": None},
        id="a list is replaced, and a value by null",
    ),
    pytest.param(
        "first: {names: [c, ...], folders: [own, ...]}",
        {"names": ("c", "a", "b"), "folders": ("own", "data", "mnt")},
        id="entries are added to a list of default, and to one that default leaves out",
    ),
    pytest.param(
        "first: {reserved: {x: [two], z: []}}", {"reserved": {"x": ("two",), "y*": (), "z": ()}}, id="a map is merged"
    ),
    pytest.param(
        "first: {classes: {b: high}}",
        {"classes": {"a": "low", "b": "high"}},
        id="a map that default leaves out is merged too",
    ),
]


@pytest.mark.parametrize(("text", "changed"), INHERITED)
def test_a_profile_inherits_from_default(text: str, changed: dict[str, Any]) -> None:
    found, default = (profile(f"{DEFAULT}  other:\n    {text}\n", name) for name in ("other", "default"))
    assert found.first == default.first.model_copy(update=changed)
    assert found.dry_run
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

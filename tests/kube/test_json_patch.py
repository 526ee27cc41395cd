"""Edits and their patches, compared with the jsonpatch library."""

import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.json_patch import Edit, Path, at, pointer


def operations(edit: Edit) -> list[tuple[Any, ...]]:
    """The recorded operations as (op, path, value)."""
    return [tuple(each.values()) for each in orjson.loads(edit.patch())]


OBJECT: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": None},
    "spec": {"containers": [{"name": "c"}], "text": "x"},
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ((), OBJECT),
        (("metadata", "labels", "a"), "b"),
        (("spec", "containers", 0, "name"), "c"),
        (("spec", "containers", 1), None),
        (("spec", "containers", "0"), None),
        (("metadata", "annotations", "x"), None),
        (("nothing", "at", "all"), None),
        (("spec", "text", 0), None),
    ],
)
def test_the_value_at_a_path(path: Path, want: object) -> None:
    assert at(OBJECT, path) == want


@pytest.mark.parametrize(
    "path",
    [
        ("metadata", "nothing"),
        ("metadata", "annotations", "x"),
        ("status", "conditions"),
        ("spec", "containers", 7, "name"),
        ("spec", "containers", "name"),
        ("spec", "text", "x"),
    ],
)
def test_removing_a_missing_value_changes_nothing(path: Path) -> None:
    edit = Edit(OBJECT)
    edit.remove(path)
    assert not edit
    assert edit.object == OBJECT


SET = [
    pytest.param({"a": 1}, ("b",), 2, ("add", "/b", 2), id="a new key is added"),
    pytest.param({"a": 1}, ("a",), 2, ("replace", "/a", 2), id="a known key is replaced"),
    pytest.param({"a": None}, ("a",), 2, ("replace", "/a", 2), id="null is replaced"),
    pytest.param(
        {}, ("a", "b", "c"), 1, ("add", "/a", {"b": {"c": 1}}), id="missing parents are made in one operation"
    ),
    pytest.param(
        {"a": {"b": None}}, ("a", "b", "c"), 1, ("replace", "/a/b", {"c": 1}), id="a null parent is replaced in one"
    ),
    pytest.param({"a": [{}, {}]}, ("a", 1, "b"), 1, ("add", "/a/1/b", 1), id="through a list"),
    pytest.param({"a": [1, 2]}, ("a", 1), 3, ("replace", "/a/1", 3), id="an item of a list"),
    pytest.param({"a": {}}, ("a", "a/b~c~1"), "x", ("add", "/a/a~1b~0c~01", "x"), id="a key in the path is escaped"),
    pytest.param({"": {}}, ("", ""), 1, ("add", "//", 1), id="empty keys are keys"),
]


@pytest.mark.parametrize(("before", "path", "value", "want"), SET)
def test_set(before: dict[str, Any], path: Path, value: object, want: tuple[Any, ...]) -> None:
    edit = Edit(before)
    edit.set(path, value)
    assert operations(edit) == [want]


APPENDED = [("add", "/t/-", 2), ("add", "/t/-", 3)]


@pytest.mark.parametrize(
    ("before", "want"),
    [
        ({"t": [1]}, APPENDED),
        ({"t": []}, APPENDED),
        ({"t": None}, [("replace", "/t", [2, 3])]),
        ({}, [("add", "/t", [2, 3])]),
    ],
)
def test_extend(before: dict[str, Any], want: list[tuple[Any, ...]]) -> None:
    edit = Edit(before)
    edit.extend(("t",), [2, 3])
    assert operations(edit) == want


def test_remove() -> None:
    edit = Edit({"spec": {"priority": 0, "preemptionPolicy": None}})
    for key in ("priority", "preemptionPolicy", "priority"):
        edit.remove(("spec", key))
    assert edit.object == {"spec": {}}
    assert operations(edit) == [("remove", "/spec/priority"), ("remove", "/spec/preemptionPolicy")]


def test_paths_begin_with_the_prefix() -> None:
    edit = Edit({"spec": {"containers": [{}]}}, ("spec", "template"))
    edit.set(("spec", "containers", 0, "name"), "a")
    assert operations(edit) == [("add", "/spec/template/spec/containers/0/name", "a")]


def test_later_edits_do_not_change_recorded_operations() -> None:
    edit = Edit({})
    edit.set(("a",), {"x": []})
    edit.set(("a", "x"), [1])
    edit.extend(("a", "x"), [2])
    assert operations(edit)[0] == ("add", "/a", {"x": []})
    assert edit.object == {"a": {"x": [1, 2]}}


def test_the_pointer_of_a_whole_object() -> None:
    assert pointer(()) == ""


# --- any object -------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "metadata", "-", "0"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=4),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)


def _editable(obj: Any, path: Path) -> bool:
    """Whether units may edit at `path`: it leads through maps, lists and missing keys, and its last part fits."""
    for part in path[:-1]:
        if obj is None:
            return not any(isinstance(p, int) for p in path)
        if isinstance(obj, dict) and isinstance(part, str):
            obj = obj.get(part)
        elif isinstance(obj, list) and isinstance(part, int) and part < len(obj):
            obj = obj[part]
            if not isinstance(obj, (dict, list)):
                return False
        else:
            return False
    last = path[-1]
    if isinstance(obj, list):
        return isinstance(last, int) and last < len(obj)
    return (obj is None or isinstance(obj, dict)) and isinstance(last, str)


PATHS = st.lists(st.one_of(KEYS, KEYS, st.integers(0, 2)), min_size=1, max_size=4).map(tuple)
EDITS = st.lists(
    st.tuples(st.sampled_from(["set", "extend", "remove"]), PATHS, st.lists(JSON, min_size=1, max_size=2)), max_size=6
)


@given(OBJECTS, EDITS)
def test_the_patch_turns_the_original_into_the_edited_object(obj: dict[str, Any], edits: Any) -> None:
    kept, edit = copy.deepcopy(obj), Edit(obj)
    for kind, path, values in edits:
        if not _editable(edit.object, path):
            continue
        if kind == "set":
            edit.set(path, copy.deepcopy(values[0]))
        elif kind == "extend":
            if edit.get(path) is None or isinstance(edit.get(path), list):
                edit.extend(path, copy.deepcopy(values))
        else:
            edit.remove(path)
    patch = edit.patch()
    assert {o["op"] for o in orjson.loads(patch)} <= {"add", "replace", "remove"}
    assert obj == kept, "nothing is changed in place"
    assert jsonpatch.apply_patch(obj, orjson.loads(patch)) == edit.object

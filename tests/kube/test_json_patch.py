"""Edits and their patches, compared with the jsonpatch library."""

import copy
from typing import Any

import jsonpatch
import orjson
import pytest

from webhook.kube.json_patch import Edit, Path, pointer


def operations(edit: Edit) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = orjson.loads(edit.patch())
    return parsed


# --- what must not change ---------------------------------------------------------------------------------------------

UNCHANGED = {
    "metadata": {"labels": {"a": "b"}, "annotations": None},
    "spec": {"containers": [{"name": "c"}], "tolerations": [], "text": "x"},
}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("metadata", "nothing"), id="a missing key"),
        pytest.param(("metadata", "annotations", "x"), id="a key of null"),
        pytest.param(("status", "conditions"), id="a missing parent"),
        pytest.param(("spec", "containers", 7, "name"), id="past the end of a list"),
        pytest.param(("spec", "containers", "name"), id="a key of a list"),
        pytest.param(("spec", "text", "x"), id="a key of a string"),
    ],
)
def test_removing_a_missing_value_changes_nothing(path: Path) -> None:
    edit = Edit(copy.deepcopy(UNCHANGED))
    edit.remove(path)
    assert not edit
    assert edit.patch() == b"[]"
    assert edit.object == UNCHANGED


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param((), UNCHANGED, id="the whole object"),
        pytest.param(("metadata", "labels", "a"), "b", id="a value"),
        pytest.param(("spec", "containers", 0, "name"), "c", id="through a list"),
        pytest.param(("spec", "containers", 1), None, id="past the end of a list"),
        pytest.param(("spec", "containers", "0"), None, id="a key of a list"),
        pytest.param(("metadata", "annotations", "x"), None, id="a key of null"),
        pytest.param(("nothing", "at", "all"), None, id="a missing parent"),
        pytest.param(("spec", "text", 0), None, id="a letter of a string"),
    ],
)
def test_reading_changes_nothing(path: Path, want: object) -> None:
    edit = Edit(copy.deepcopy(UNCHANGED))
    assert edit.get(path) == want
    assert not edit
    assert edit.object == UNCHANGED


# --- what must --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "path", "value", "after", "want"),
    [
        pytest.param(
            {"a": 1}, ("b",), 2, {"a": 1, "b": 2}, [{"op": "add", "path": "/b", "value": 2}], id="a new key is added"
        ),
        pytest.param(
            {"a": 1}, ("a",), 2, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}], id="a known key is replaced"
        ),
        pytest.param(
            {"a": None}, ("a",), 2, {"a": 2}, [{"op": "replace", "path": "/a", "value": 2}], id="null is replaced"
        ),
        pytest.param(
            {},
            ("a", "b", "c"),
            1,
            {"a": {"b": {"c": 1}}},
            [{"op": "add", "path": "/a", "value": {"b": {"c": 1}}}],
            id="missing parents are created in one operation",
        ),
        pytest.param(
            {"a": {"b": None, "x": 1}},
            ("a", "b", "c"),
            1,
            {"a": {"b": {"c": 1}, "x": 1}},
            [{"op": "replace", "path": "/a/b", "value": {"c": 1}}],
            id="a null parent is replaced in one operation",
        ),
        pytest.param(
            {"a": [{}, {}]},
            ("a", 1, "b"),
            1,
            {"a": [{}, {"b": 1}]},
            [{"op": "add", "path": "/a/1/b", "value": 1}],
            id="through a list",
        ),
        pytest.param(
            {"a": [1, 2]},
            ("a", 1),
            3,
            {"a": [1, 3]},
            [{"op": "replace", "path": "/a/1", "value": 3}],
            id="an item of a list",
        ),
        pytest.param(
            {},
            ("annotations", "a/b~c"),
            "x",
            {"annotations": {"a/b~c": "x"}},
            [{"op": "add", "path": "/annotations", "value": {"a/b~c": "x"}}],
            id="a key that is not in the path needs no escape",
        ),
        pytest.param(
            {"annotations": {}},
            ("annotations", "a/b~c~1"),
            "x",
            {"annotations": {"a/b~c~1": "x"}},
            [{"op": "add", "path": "/annotations/a~1b~0c~01", "value": "x"}],
            id="a key in the path is escaped",
        ),
        pytest.param(
            {"": {}}, ("", ""), 1, {"": {"": 1}}, [{"op": "add", "path": "//", "value": 1}], id="empty keys are keys"
        ),
    ],
)
def test_set(before: dict[str, Any], path: Path, value: object, after: dict[str, Any], want: list[Any]) -> None:
    edit = Edit(copy.deepcopy(before))
    edit.set(path, value)
    assert edit
    assert edit.object == after
    assert operations(edit) == want
    assert jsonpatch.apply_patch(before, operations(edit)) == after


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param(
            {"t": [1]},
            {"t": [1, 2, 3]},
            [{"op": "add", "path": "/t/-", "value": 2}, {"op": "add", "path": "/t/-", "value": 3}],
            id="at the end of a list",
        ),
        pytest.param(
            {"t": []},
            {"t": [2, 3]},
            [{"op": "add", "path": "/t/-", "value": 2}, {"op": "add", "path": "/t/-", "value": 3}],
            id="into an empty list",
        ),
        pytest.param(
            {"t": None}, {"t": [2, 3]}, [{"op": "replace", "path": "/t", "value": [2, 3]}], id="null is replaced"
        ),
        pytest.param({}, {"t": [2, 3]}, [{"op": "add", "path": "/t", "value": [2, 3]}], id="a missing list"),
    ],
)
def test_extend(before: dict[str, Any], after: dict[str, Any], want: list[Any]) -> None:
    edit = Edit(copy.deepcopy(before))
    edit.extend(("t",), [2, 3])
    assert edit.object == after
    assert operations(edit) == want


def test_remove() -> None:
    edit = Edit({"spec": {"priority": 0, "preemptionPolicy": None}})
    edit.remove(("spec", "priority"))
    edit.remove(("spec", "preemptionPolicy"))
    edit.remove(("spec", "priority"))
    assert edit.object == {"spec": {}}
    assert operations(edit) == [
        {"op": "remove", "path": "/spec/priority"},
        {"op": "remove", "path": "/spec/preemptionPolicy"},
    ]


def test_paths_begin_with_the_prefix() -> None:
    deployment: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [{}]}}}}
    edit = Edit(deployment["spec"]["template"], ("spec", "template"))
    edit.set(("spec", "containers", 0, "name"), "a")
    edit.remove(("spec", "nothing"))
    assert [o["path"] for o in operations(edit)] == ["/spec/template/spec/containers/0/name"]


def test_later_edits_do_not_change_recorded_operations() -> None:
    edit = Edit({})
    edit.set(("a",), {"x": []})
    edit.set(("a", "x"), [1])
    edit.extend(("a", "x"), [2])
    assert operations(edit)[0] == {"op": "add", "path": "/a", "value": {"x": []}}
    assert jsonpatch.apply_patch({}, operations(edit)) == {"a": {"x": [1, 2]}}


@pytest.mark.parametrize(
    ("path", "want"),
    [((), ""), (("a", 0, "b"), "/a/0/b"), (("a/b", "~"), "/a~1b/~0"), (("~1",), "/~01"), (("",), "/")],
    ids=["the whole object", "keys and indexes", "slash and tilde", "a key that looks escaped", "an empty key"],
)
def test_pointers_are_those_of_rfc_6901(path: Path, want: str) -> None:
    assert pointer(path) == want

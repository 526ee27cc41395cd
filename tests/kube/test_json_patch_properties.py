"""For any object, an edit and its patch have the same result."""

import copy
from typing import Any

import jsonpatch
import orjson
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.json_patch import Edit, Path

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

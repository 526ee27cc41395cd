"""Edits of a plain dict, recorded as the operations of a JSON Patch (RFC 6902): `add`, `replace` and `remove`.

A general diff of two pods would be slower and would emit moves by coincidence of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

Path = tuple[str | int, ...]
Operation = dict[str, Any]
"""`op`, `path` and, but for `remove`, `value`."""
DOES_NOT_APPLY: Final = (AttributeError, LookupError, TypeError, ValueError)


def pointer(path: Path) -> str:
    """RFC 6901: ("metadata", "annotations", "a/b") is "/metadata/annotations/a~1b"."""
    text = ""
    for part in path:
        step = str(part)
        if "~" in step or "/" in step:
            step = step.replace("~", "~0").replace("/", "~1")
        text = f"{text}/{step}"
    return text


def _parts(pointer: str) -> list[str]:
    """What `pointer` was made from, each as a string."""
    parts = pointer.split("/")[1:]
    return [part.replace("~1", "/").replace("~0", "~") for part in parts] if "~" in pointer else parts


class Edit:
    """An object (a plain dict) being edited, or the part of a larger one that `prefix` leads to.

    The object that was handed in is never changed: each edit copies the maps and lists on its path and shares the rest.
    Values handed in become part of the object, and of its operations: the caller makes them for it and lets go of them.
    """

    __slots__ = ("_prefix", "object", "operations")

    def __init__(self, obj: dict[str, Any], prefix: Path = ()) -> None:
        self.object = obj
        self._prefix = prefix
        self.operations: list[Operation] = []
        """In the order in which they were made."""

    def __bool__(self) -> bool:
        return bool(self.operations)

    def patch(self) -> bytes:
        """The operations so far as a JSON Patch."""
        return orjson.dumps(self.operations)

    def get(self, path: Path) -> Any:
        """What stands at `path`, or None."""
        value: Any = self.object
        for part in path:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                return None
        return value

    def set(self, path: Path, value: Any) -> None:
        """Put `value` at `path`. Maps that are missing (or null) on the way come into being in the same operation."""
        parent: Any = self.object
        last = len(path) - 1
        for depth, part in enumerate(path[:-1]):
            below = parent[part] if isinstance(part, int) else parent.get(part)
            if below is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                last = depth
                break
            parent = below
        key, path = path[last], path[: last + 1]
        self._do("replace" if isinstance(key, int) or key in parent else "add", path, value)

    def extend(self, path: Path, values: list[Any]) -> None:
        """Put `values` at the end of the list at `path`; the list comes into being where it is missing."""
        if self.get(path) is None:
            self.set(path, values)
        else:
            for value in values:
                self._do("add", (*path, "-"), value)

    def remove(self, path: Path) -> None:
        """Take away what stands at `path`; nothing happens where nothing does."""
        parent = self.get(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            self._do("remove", path)

    def _do(self, op: str, path: Path, value: Any = None) -> None:
        operation: Operation = {"op": op, "path": pointer(self._prefix + path)}
        if op != "remove":
            operation["value"] = value
        self.operations.append(operation)
        self.object = _applied(self.object, path, op, value)


def apply(operations: Iterable[Operation], obj: dict[str, Any]) -> dict[str, Any]:
    """`obj` with `add`, `replace` and `remove` operations applied, as the API server would do it.

    Nothing is changed in place: the result shares with `obj` what the operations leave alone. The general library copies the
    whole object and takes ten times as long; the tests hold this against it.
    Raises one of DOES_NOT_APPLY where the API server would answer 500.
    """
    for operation in operations:
        obj = _applied(obj, _parts(operation["path"]), operation["op"], operation.get("value"))
    return obj


def _applied(obj: Any, path: Sequence[str | int], op: str, value: Any) -> Any:
    """`obj` with one operation done: a copy of what is on the path."""
    *parents, key = path
    copied = parent = obj.copy()
    for part in parents:
        at: Any = int(part) if isinstance(parent, list) else part
        parent[at] = parent = parent[at].copy()
    if isinstance(parent, list):
        at = len(parent) if key == "-" else int(key)
        if op == "add":
            parent.insert(at, value)
        elif op == "replace":
            parent[at] = value
        else:
            del parent[at]
    elif op == "remove":
        del parent[key]
    elif op == "add" or key in parent:
        parent[key] = value
    else:
        raise KeyError(key)
    return copied

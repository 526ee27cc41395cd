"""Edits a plain dict and records the operations as a JSON Patch (RFC 6902): `add`, `replace` and `remove`.

A diff of two pods would be slower, and it would report a "move" wherever two values happen to be equal.
"""

from typing import Any

import orjson

Path = tuple[str | int, ...]
Operation = dict[str, Any]
"""`op`, `path`, and `value` unless `op` is "remove"."""


def pointer(path: Path) -> str:
    """The JSON Pointer (RFC 6901) of a path: ("metadata", "annotations", "a/b") gives "/metadata/annotations/a~1b"."""
    joined = "/".join(map(str, path))
    if joined.count("/") < len(path) and "~" not in joined:  # most often nothing is to be escaped
        return f"/{joined}" if path else ""
    return "".join([f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path])


def at(obj: Any, path: Path) -> Any:
    """The value at `path` in an object, or None."""
    for part in path:
        if isinstance(obj, dict):
            obj = obj.get(part)
        elif isinstance(obj, list) and isinstance(part, int) and part < len(obj):
            obj = obj[part]
        else:
            return None
    return obj


class Edit:
    """Edits an object (a plain dict) and records the operations.

    `prefix`: the path of `obj` inside the object that is patched, such as that of a pod template.
    `obj` itself never changes: each edit copies the maps and lists on its path and shares the rest. A value that is set is not
    copied, so the caller must not change it later.
    """

    __slots__ = ("_prefix", "object", "operations")

    def __init__(self, obj: dict[str, Any], prefix: Path = ()) -> None:
        self.object = obj
        self._prefix = prefix
        self.operations: list[Operation] = []
        """The recorded operations, in order."""

    def __bool__(self) -> bool:
        return bool(self.operations)

    def patch(self) -> bytes:
        """The recorded operations as the text of a JSON Patch."""
        return orjson.dumps(self.operations)

    def get(self, path: Path) -> Any:
        """The value at `path`, or None."""
        return at(self.object, path)

    def set(self, path: Path, value: Any) -> None:
        """Put `value` at `path`. Maps on the path that are missing or null are created in the same operation."""
        parent, depth = self._copied(path)
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        key = path[depth]
        self._record("replace" if isinstance(key, int) or key in parent else "add", path[: depth + 1], value)
        parent[key] = value

    def extend(self, path: Path, values: list[Any]) -> None:
        """Append `values` to the list at `path`. A list that is missing or null is created."""
        if self.get(path) is None:
            self.set(path, values)
        else:
            path = (*path, "-")
            for value in values:
                self._record("add", path, value)
                self._copied(path)[0].append(value)

    def put(self, path: Path, values: list[Any]) -> None:
        """Leave exactly `values` in the list at `path`. An empty list goes."""
        current = self.get(path) or []
        if values[: len(current)] == current:
            if added := values[len(current) :]:
                self.extend(path, added)
        elif values:
            self.set(path, values)
        else:
            self.remove(path)

    def remove(self, path: Path) -> None:
        """Remove the key at `path` from its map. Nothing happens if it is not there."""
        parent = self.get(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            self._record("remove", path)
            del self._copied(path)[0][path[-1]]

    def _record(self, op: str, path: Path, value: Any = None) -> None:
        operation: Operation = {"op": op, "path": pointer(self._prefix + path)}
        if op != "remove":
            operation["value"] = value
        self.operations.append(operation)

    def _copied(self, path: Path) -> tuple[Any, int]:
        """Copy the object, and what is in it on this path: all but its last part. Returns the last copy, and how many parts of
        the path lead there: fewer where one is missing or null."""
        here: Any = self.object.copy()
        self.object = here
        for depth, part in enumerate(path[:-1]):
            below = here[part] if isinstance(part, int) else here.get(part)
            if below is None:
                return here, depth
            here[part] = here = below.copy()
        return here, len(path) - 1

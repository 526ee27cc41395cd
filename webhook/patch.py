"""Edits to an object, recorded as RFC 6902 operations while they are made.

Each operation is encoded at once, so what is recorded cannot change with the object afterwards. Only `add`, `replace`
and `remove` are used: a diff of whole objects would be slower and would emit coincidental moves.
"""

from __future__ import annotations

from typing import Any

import orjson

Path = tuple[str | int, ...]


def pointer(path: Path) -> str:
    """RFC 6901: ("metadata", "annotations", "a/b") is "/metadata/annotations/a~1b"."""
    return "".join(["/" + (p.replace("~", "~0").replace("/", "~1") if isinstance(p, str) else str(p)) for p in path])


def _encoded(path: Path) -> bytes:
    return orjson.dumps(pointer(path))


class Edit:
    """One object (a plain dict) being edited in place, or the part of it that `prefix` leads to.

    Every change goes through `set`, `extend` or `remove`. Values handed in become part of the object: the caller makes
    them for it and lets go of them.
    """

    __slots__ = ("_prefix", "object", "operations")

    def __init__(self, obj: dict[str, Any], prefix: Path = ()) -> None:
        self.object = obj
        self._prefix = prefix
        self.operations: list[bytes] = []
        """As JSON, in the order in which they were made."""

    def __bool__(self) -> bool:
        return bool(self.operations)

    def get(self, path: Path) -> Any:
        """What stands at `path`, or None."""
        here: Any = self.object
        for part in path:
            if isinstance(here, dict):
                here = here.get(part)
            elif isinstance(here, list) and isinstance(part, int) and part < len(here):
                here = here[part]
            else:
                return None
        return here

    def set(self, path: Path, value: Any) -> None:
        """Put `value` at `path`. Maps that are missing (or null) on the way come into being in the same operation."""
        here: Any = self.object
        last = len(path) - 1
        for depth, part in enumerate(path[:-1]):
            below = here[part] if isinstance(part, int) else here.get(part)
            if below is None:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                last = depth
                break
            here = below
        key = path[last]
        self._record(_REPLACE if isinstance(key, int) or key in here else _ADD, path[: last + 1], value)
        here[key] = value

    def extend(self, path: Path, values: list[Any]) -> None:
        """Put `values` at the end of the list at `path`; the list comes into being where it is missing."""
        found = self.get(path)
        if found is None:
            self.set(path, values)
        else:
            end = (*path, "-")
            for value in values:
                self._record(_ADD, end, value)
            found.extend(values)

    def remove(self, path: Path) -> None:
        """Take away what stands at `path`; nothing happens where nothing does."""
        parent = self.get(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            del parent[path[-1]]
            self.operations.append(b'{"op":"remove","path":%b}' % _encoded(self._prefix + path))

    def patch(self) -> bytes:
        """The operations so far as a JSON Patch."""
        return b"[%b]" % b",".join(self.operations)

    def _record(self, form: bytes, path: Path, value: Any) -> None:
        self.operations.append(form % (_encoded(self._prefix + path), orjson.dumps(value)))


_ADD = b'{"op":"add","path":%b,"value":%b}'
_REPLACE = b'{"op":"replace","path":%b,"value":%b}'


def apply(patch: bytes, obj: dict[str, Any]) -> dict[str, Any]:
    """Apply the `add`, `replace` and `remove` operations of `patch` to `obj`, in place, as the API server would.

    Used by the gate, once per request: the general library takes longer than the whole decision. The tests hold this
    against that library. Raises LookupError, TypeError or ValueError where the API server would answer 500.
    """
    for operation in orjson.loads(patch):
        parents, last = _parsed(operation["path"])
        here: Any = obj
        for part in parents:
            here = here[int(part)] if isinstance(here, list) else here[part]
        op = operation["op"]
        if isinstance(here, list):
            if op == "add":
                here.insert(len(here) if last == "-" else int(last), operation["value"])
            elif op == "replace":
                here[int(last)] = operation["value"]
            else:
                del here[int(last)]
        elif op == "remove":
            del here[last]
        elif op == "replace" and last not in here:
            raise KeyError(last)
        else:
            here[last] = operation["value"]
    return obj


def _parsed(path: str) -> tuple[tuple[str, ...], str]:
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    return tuple(parents), last

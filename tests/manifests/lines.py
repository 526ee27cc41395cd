"""The lines of one YAML object: by path, something is put around them, after them or in their stead."""

from typing import Any

import yaml


class Lines:
    """Changes are noted, and made when it becomes text: so all paths are those of the object as it was."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._root = yaml.compose(text)
        self._object = yaml.safe_load(text)
        self._before: dict[int, list[str]] = {}
        self._after: dict[int, dict[int, list[str]]] = {}
        self._instead: dict[int, tuple[int, str]] = {}
        self._around: list[str] = []

    @property
    def kind(self) -> str:
        return str(self._object["kind"])

    @property
    def identity(self) -> tuple[str, str]:
        return self.kind, self._object["metadata"]["name"]

    def value(self, path: str) -> Any:
        found = self._object
        for step in steps(path):
            found = found[int(step) if isinstance(found, list) else step]
        return found

    def has(self, path: str) -> bool:
        try:
            self.value(path)
        except (KeyError, IndexError):
            return False
        return True

    def put(self, path: str, value: str) -> None:
        """The value of a field. %d in it: the column of what stands in the field."""
        first, end, column = self._place(path)
        name = steps(path)[-1]
        head = self._lines[first][: self._lines[first].index(f"{name}:")]
        self._instead[first] = end, f"{head}{name}: {value.replace('%d', str(column + 2))}"

    def append(self, path: str, lines: list[str], opening: str = "") -> None:
        """At the end of the map or list there. `opening`: `if …` or `with …`; what has the same one comes under it together.

        %c and %d in a line: the columns of the lines, and of what stands in a field there.
        """
        column, end = self._node(path).start_mark.column, self._place(path)[1]
        text = [" " * column + line.replace("%d", str(column + 2)).replace("%c", str(column)) for line in lines]
        there = self._after.setdefault(end, {}).setdefault(column, [])
        if opening:
            first, last = (" " * column + f"{{{{- {word} }}}}" for word in (opening, "end"))
            if there[-1:] == [last] and first in there and "{{- end" not in "".join(there[there.index(first) : -1]):
                there.pop()
                text = [*text, last]
            else:
                text = [first, *text, last]
        there.extend(text)

    def surround(self, condition: str, path: str = "") -> None:
        """With a condition: the whole object, or what is at the path."""
        if not path:
            self._around.append(condition)
            return
        first, end, column = self._place(path)
        self._before.setdefault(first, []).append(" " * column + f"{{{{- if {condition} }}}}")
        self._after.setdefault(end, {}).setdefault(column, []).insert(0, " " * column + "{{- end }}")

    def __str__(self) -> str:
        found, number = [], 0
        while number <= len(self._lines):
            for _, lines in sorted(self._after.get(number, {}).items(), reverse=True):  # what is deeper ends first
                found += lines
            found += self._before.get(number, [])
            if number in self._instead:
                number, text = self._instead[number]
                found.append(text)
                continue
            found += self._lines[number : number + 1]
            number += 1
        found = ["---", *found]
        return under(self._around, found)

    def _node(self, path: str) -> Any:
        node = self._root
        for step in steps(path):
            if isinstance(node, yaml.SequenceNode):
                node = node.value[int(step)]
            else:
                node = next(value for key, value in node.value if key.value == step)
        return node

    def _place(self, path: str) -> tuple[int, int, int]:
        """The first line of what is at the path, the first after it, and the column of its name, or of the dash before it."""
        node, first, end, column = self._root, 0, len(self._lines), 0
        for step in steps(path):
            if isinstance(node, yaml.SequenceNode):
                starts = [each.start_mark for each in node.value]
                index, column = int(step), node.start_mark.column
            else:
                starts = [key.start_mark for key, _ in node.value]
                index = [key.value for key, _ in node.value].index(step)
                column = starts[index].column
            first = starts[index].line
            end = starts[index + 1].line if index + 1 < len(starts) else end
            node = self._node_of(node, index)
        return first, end, column

    @staticmethod
    def _node_of(node: Any, index: int) -> Any:
        return node.value[index] if isinstance(node, yaml.SequenceNode) else node.value[index][1]


def steps(path: str) -> list[str]:
    """The names and numbers in a path. A slash in a name is `~1` (RFC 6901)."""
    return [step.replace("~1", "/") for step in path.split("/")]


def under(conditions: list[str], lines: list[str]) -> str:
    for condition in conditions:
        lines = [f"{{{{- if {condition} }}}}", *lines, "{{- end }}"]
    return "\n".join(lines) + "\n"

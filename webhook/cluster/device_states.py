"""The states of the devices of nodes, as numbers in `Columns.devices`. Equal states share one; 0 is a node without devices."""

from collections.abc import Iterator
from typing import Final

from webhook.cluster.device_layout import Amounts, Layout
from webhook.cluster.node_table import TOLD, Columns

State = tuple[Layout, Amounts]
"""A layout, and what is left of each budget."""
_SPARE: Final = 4096


class DeviceStates:
    """The states by number. `write` gives one to a row."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._states: list[State | None] = [None]
        self._numbers: dict[State, int] = {}
        self._free: list[dict[str, tuple[int, int]]] = [{}]
        """By number, all and what is free of the GPUs of DRA."""
        self._resources: set[str] = set()
        """All resources of `_free`."""
        self.public: dict[int, State] = {}
        """Of the rows where private claims count: the state without them."""

    def __getitem__(self, number: int) -> State | None:
        return self._states[number]

    def without_private(self, row: int) -> State | None:
        """The state of a row, without what is private to the namespace that the table is seen from."""
        return self.public.get(row) or self._states[int(self._columns.devices[row])]

    def __iter__(self) -> Iterator[State]:
        return (state for state in self._states if state is not None)

    def number(self, layout: Layout, remaining: Amounts) -> int:
        """The number of a state."""
        if len(self._states) > 2 * self._columns.rows + _SPARE:
            self._number_again()
        number = self._numbers.setdefault((layout, remaining), len(self._states))
        if number == len(self._states):
            self._states.append((layout, remaining))
            free = {each: (layout.free(each, layout.totals), layout.free(each, remaining)) for each in layout.told}
            self._free.append({TOLD + driver: amounts for driver, amounts in free.items()})
        return number

    def _number_again(self) -> None:
        """Most states are of the past: forget them."""
        columns, states = self._columns, self._states
        self._states, self._numbers, self._free = [None], {}, [{}]
        for row, number in enumerate(columns.devices.tolist()):
            if (state := states[number]) is not None:
                columns.devices[row] = self.number(*state)
                columns.changes.add(row)

    def write(self, row: int, number: int) -> None:
        """The state of a row is the one with this number."""
        columns, free = self._columns, self._free[number]
        for resource in free.keys() - self._resources:
            self._resources.add(resource)
            if resource not in columns.capacity:
                columns.add_resource(resource)
        for resource in self._resources:
            columns.capacity[resource][row], columns.free[resource][row] = free.get(resource, (0, 0))
        if columns.devices[row] != number:
            columns.devices[row] = number
            columns.changes.add(row)

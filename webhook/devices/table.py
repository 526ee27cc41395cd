"""The device table: what is left of the devices of each node.

A node has a state: its layout and what is left of each counter. Equal states share a number, `Columns.devices`, so that placement
looks for devices once for each state and not for each node. What is left is all, minus what pods and claims have, minus what is
reserved: the claims of reservations are placed on what is left, one after the other, as the scheduler will do it.

The rows are those of the node table, which this knows by what it reads and writes there: `NodeColumns`.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import orjson
from numpy.typing import NDArray

from webhook.devices.layout import Amounts, Layout, NodeDevices, held_after
from webhook.devices.search import Fit, Kinds, Unknown, find, passes_unpublished
from webhook.devices.types import PUBLISHED, DeviceClaim, DeviceSet, Use
from webhook.kube.claim_requests import Selected
from webhook.kube.device_selectors import Work
from webhook.kube.device_tree import Facts
from webhook.kube.stores import Answers, add_amount

State = tuple[Layout, Amounts]
"""A layout, and what is left of each counter."""
_SPARE: Final = 4096
T = TypeVar("T")
_MAX_DEVICES: Final = 1024
"""Maximum number of devices of one source on one node; others are left out."""
_MAX_HELD: Final = 128
"""Maximum number of reserved claims of one node that count: anybody can write a preference for a node. The oldest count."""
_MAX_UNDONE: Final = 8192
"""Choices that the searches of one decision, or of one change of a node, take back. What needs more is unknown."""


class _Changes(Protocol):
    def add(self, row: int, /) -> None: ...


class NodeColumns(Protocol):
    """What the device table reads and writes of the node table: see `nodes.table.Columns`."""

    rows: int
    name: list[str]
    alive: NDArray[np.bool_]
    devices: NDArray[np.int32]
    """The state of the devices of each row: its number here."""
    capacity: dict[str, NDArray[np.int64]]
    free: dict[str, NDArray[np.int64]]
    """Both also of the resources that begin with PUBLISHED."""

    @property
    def changes(self) -> _Changes: ...

    def add_resource(self, resource: str) -> None: ...


class States:
    """States of devices as numbers. Equal states share one; 0 is a node of which nobody publishes devices."""

    def __init__(self) -> None:
        self._states: list[State | None] = [None]
        self._numbers: dict[State, int] = {}

    def __getitem__(self, number: int) -> State | None:
        return self._states[number]

    def __iter__(self) -> Iterator[State]:
        return (state for state in self._states if state is not None)

    def number(self, layout: Layout, remaining: Amounts) -> int:
        """The number of a state."""
        number = self._numbers.setdefault((layout, remaining), len(self._states))
        if number == len(self._states):
            self._states.append((layout, remaining))
        return number


class DeviceStates(States):
    """Those of the nodes, in `Columns.devices`. `write` gives one to a row."""

    def __init__(self, columns: NodeColumns) -> None:
        super().__init__()
        self._columns = columns
        self._free: list[dict[str, tuple[int, int]]] = [{}]
        """By number, all and what is free of the GPUs of DRA."""
        self._resources: set[str] = set()
        """All resources of `_free`."""
        self.public: dict[int, State] = {}
        """Of the rows where private claims count: the state without them."""

    def without_private(self, row: int) -> State | None:
        """The state of a row, without what is private to the namespace that the table is seen from."""
        return self.public.get(row) or self._states[int(self._columns.devices[row])]

    def number(self, layout: Layout, remaining: Amounts) -> int:
        if len(self._states) > 2 * self._columns.rows + _SPARE:
            self._number_again()
        number = super().number(layout, remaining)
        if number == len(self._free):
            free = {
                each: (layout.free(each, layout.totals), layout.free(each, remaining)) for each in layout.dra_drivers
            }
            self._free.append({PUBLISHED + driver: amounts for driver, amounts in free.items()})
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


class DeviceTable:
    """The devices of all nodes. `row_of`: the row of a node by name. `changed` is called with the row of a node whose devices are
    other ones now; what is left of them changes more often, and is in the journal of `columns`."""

    def __init__(self, columns: NodeColumns, row_of: dict[str, int], changed: Callable[[int], None]) -> None:
        self._columns, self._row_of, self._on_change = columns, row_of, changed
        self._nodes: dict[str, NodeDevices] = {}
        self._holders: dict[tuple[str, Hashable], str] = {}
        self._layouts: WeakValueDictionary[Hashable, Layout] = WeakValueDictionary()
        self.network_attached: tuple[Facts, ...] = ()
        """Devices that are not of a single node."""
        self.kinds = Kinds()
        self.states = DeviceStates(columns)
        self._private: dict[str, dict[int, list[DeviceClaim]]] = {}
        """By namespace and row, the claims that are private to the namespace."""
        self._namespace = ""
        """The namespace whose private claims count now."""
        self._undone = Work(_MAX_UNDONE)
        self._limits = (self._undone, *self.kinds.limits)
        self._held_at: dict[str, dict[str, int]] = {}
        """By name of a claim that pods share, the nodes where it is reserved, and how often."""
        self._answers = Answers()
        self._published = 0
        """Rises when a node comes, or has other devices."""

    # --- what nodes have ----------------------------------------------------------------------------------------------

    def publish(self, node: str, source: str, published: DeviceSet) -> None:
        """All devices that a source publishes for a node now."""
        known = self._nodes.get(node)
        if not published.devices and (known is None or source not in known.sets):
            return
        known = known or self._nodes.setdefault(node, NodeDevices())
        known.sets[source] = published._replace(devices=published.devices[:_MAX_DEVICES])
        if not published.devices:
            del known.sets[source]
        pairs = [(each, device.name) for each, of in sorted(known.sets.items()) for device in of.devices]
        layout, slots = self._layout_of(known.sets), {pair: number for number, pair in enumerate(pairs)}
        if layout is known.layout and slots == known.slots and not self.kinds.dropped:
            return
        if layout is not known.layout:  # there may be more to have
            known.held += [claim for claims in known.unfit for claim in claims]
            known.layout, known.unfit = layout, []
        known.slots = slots
        if self.kinds.dropped:
            self._lay_out_again()
        self.refresh(node, changed=True)

    def _layout_of(self, sets: dict[str, DeviceSet]) -> Layout | None:
        if not sets:
            return None
        kept, key = {}, []
        for source, published in sorted(sets.items()):
            devices = [device._replace(name="", facts=self.kinds.of(device.facts)) for device in published.devices]
            kept[source] = published._replace(devices=tuple(devices))
            key.append((source, published.counters))
            key += [(id(d.facts), d.taints, d.counters, orjson.dumps(d.policies)) for d in devices]  # type: ignore[misc]
        found = self._layouts.get(tuple(key))
        if found is None:
            found = self._layouts[tuple(key)] = Layout(kept)
        return found

    def _lay_out_again(self) -> None:
        """An attribute was dropped: nodes that differ in it alone are equal now."""
        self.kinds.forget()
        for name, node in self._nodes.items():
            if node.layout is not None:
                node.layout = self._layout_of(node.sets)
                self.refresh(name)

    # --- what is used -------------------------------------------------------------------------------------------------

    def use(self, source: str, holder: Hashable, node: str, uses: tuple[Use, ...]) -> None:
        """What a holder, a pod or a claim, has of the devices of a node: it replaces what it had. () if it has nothing."""
        before = self._holders.get((source, holder))
        if before is not None and (before != node or not uses):
            del self._holders[source, holder], self._nodes[before].uses[source, holder]
            self.refresh(before)
        if uses:
            self._holders[source, holder] = node
            known = self._nodes.setdefault(node, NodeDevices())
            if known.uses.get((source, holder)) != uses:
                known.uses[source, holder] = uses
                self.refresh(node)

    def hold(self, row: int, claims: tuple[DeviceClaim, ...], sign: int, private_to: str = "") -> None:
        """Reserve devices for claims on a node (1), or end that (-1). `private_to`: the namespace for which alone they count."""
        name, left = self._columns.name[row], None
        for claim in claims:
            if claim.name:
                add_amount(self._held_at, claim.name, name, sign)
        if private_to:
            rows = self._private.setdefault(private_to, {})
            rows[row] = held_after(rows.get(row, []), claims, sign)
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._private[private_to]
        else:
            node = self._nodes.setdefault(name, NodeDevices())
            fit = sign > 0 or claims not in node.unfit
            if sign > 0 and (state := self.states.without_private(row)) is not None:
                self.allow()
                left, fit = self._placed(*state, claims, node.held)
            if not fit:
                (node.unfit.append if sign > 0 else node.unfit.remove)(claims)
                return
            node.held = held_after(node.held, claims, sign)
            left = left if len(node.held) <= _MAX_HELD else None
        if private_to in ("", self._namespace):
            self.refresh(name, left=left)

    def seen_from(self, namespace: str) -> None:
        """From now on, what is private to `namespace` counts, and what is private to others does not: it costs them no search."""
        public, self.states.public, self._namespace = self.states.public, {}, namespace
        for row, state in public.items():
            self.states.write(row, self.states.number(*state))
        self.allow()
        for row in self._private.get(namespace, ()):
            self._show_private(row)

    def _show_private(self, row: int) -> None:
        """Count what is private to the namespace, if there is any, on a row whose state is the one without it."""
        claims, number = self._private.get(self._namespace, {}).get(row), int(self._columns.devices[row])
        if claims and (state := self.states[number]) is not None:
            self.states.public[row] = state
            left, _ = self._placed(*state, claims[:_MAX_HELD], self._nodes[self._columns.name[row]].held)
            self.states.write(row, self.states.number(state[0], left))

    def holders_of(self, claim: str) -> list[str]:
        """The nodes where a claim that pods share is reserved."""
        return list(self._held_at.get(claim, ()))

    def refresh(self, name: str, *, changed: bool = False, left: Amounts | None = None) -> None:
        """Count again what is left on a node. `changed`: its devices are other ones. `left`: what is left, if known."""
        self._published += changed
        row, node = self._row_of.get(name), self._nodes.get(name)
        if node is not None and node.layout is None and not (node.uses or node.held or node.unfit):
            del self._nodes[name]
        if row is None:
            return
        layout = node.layout if node is not None and self._columns.alive[row] else None
        self.states.public.pop(row, None)
        number = 0
        if node is not None and layout is not None:
            if left is None:
                self.allow()
                left, _ = self._placed(layout, layout.used(node.all_placed()), node.held[:_MAX_HELD])
            number = self.states.number(layout, left)
        self.states.write(row, number)
        self._show_private(row)
        if changed:
            self._on_change(row)

    def published(self) -> Iterator[tuple[int, NodeDevices, Layout, Amounts]]:
        """The nodes of which a source publishes devices: row, devices, their layout, and what is left."""
        for name, node in self._nodes.items():
            row = self._row_of.get(name)
            if row is not None and (state := self.states.without_private(row)) is not None:
                yield row, node, *state

    def _placed(
        self, layout: Layout, left: Amounts, claims: Iterable[DeviceClaim], before: Iterable[DeviceClaim] = ()
    ) -> tuple[Amounts, bool]:
        """What claims leave of what is left, one after the other, and whether all fit. `before`: those that count already."""
        named, every, claims = {claim.name for claim in before if claim.name}, True, tuple(claims)
        for place, claim in enumerate(claims):
            if claim.name in named:
                continue
            named.update([claim.name] if claim.name else ())
            try:
                with self._part_of_work(len(claims) - place):
                    found = self.look(layout, left, (claim,))
            except Unknown:
                found = None
            left, every = (left, False) if found is None else (found.remaining, every)
        return left, every

    @contextmanager
    def _part_of_work(self, parts: int) -> Iterator[None]:
        """One of so many claims, which may be of different namespaces, gets its part of the work that is left, and leaves what
        it does not need to the others."""
        others = [each.left - each.left // parts for each in self._limits]
        for limit, of_others in zip(self._limits, others, strict=True):
            limit.left -= of_others
        try:
            yield
        finally:
            for limit, of_others in zip(self._limits, others, strict=True):
                limit.left = max(0, limit.left) + of_others

    def allow(self) -> None:
        """A decision, or a change of a node, begins: it may do so much, whatever the last one left."""
        self.kinds.allow()
        self._undone.renew(_MAX_UNDONE)

    def end_after(self, decisions: int) -> None:
        """From now on, all decisions together may do no more than so many of the costliest, and each of them a little."""
        for limit in self._limits:
            limit.altogether = decisions * limit.left

    # --- what fits ----------------------------------------------------------------------------------------------------

    def find(self, state: State | None, claims: Iterable[DeviceClaim]) -> Fit | None:
        """Devices for claims on a node in this state; None if there are none. Raises Unknown."""
        if state is None:
            return Fit(0, 0.0, ()) if all(map(passes_unpublished, claims)) else None
        return self.look(*state, claims)

    def look(self, layout: Layout, left: Amounts, claims: Iterable[DeviceClaim]) -> Fit | None:
        """Devices for claims where so much is left of each counter; None if there are none. Raises Unknown."""
        claims = tuple(claims)
        if self.kinds.compares_dropped(claims):
            raise Unknown
        return find(layout, claims, left, self.kinds.matches, self._undone)

    def most(self, number: int, claim: DeviceClaim) -> int:
        """How many devices of one request a node with the layout of this state has if it is empty, no more than it asks for: all
        that it asks for where that is not known."""
        asked = claim.requests[0][0]
        if (state := self.states[number]) is None:
            return 0
        layout = state[0]

        def fits(count: int) -> bool:
            one = claim._replace(requests=((asked._replace(devices=count),),))
            return self.look(layout, layout.totals, (one,)) is not None

        try:
            if fits(asked.devices):
                return asked.devices
            return bisect_left(range(1, min(asked.devices, len(layout.slots) + 1)), True, key=lambda n: not fits(n))
        except Unknown:
            return asked.devices

    def selected(self, selectors: tuple[str, ...]) -> Selected | None:
        """See `Kinds.selected`. `allow` says how much may be done for it."""

        def answer() -> Selected | None:
            found = self.kinds.selected(selectors, [*self._layouts.values()], self.network_attached)
            if found is None and not self.kinds.has_work():
                raise Unknown  # another decision may have work left for it
            return found

        with suppress(Unknown):
            return self._answer(("selected", selectors), answer)
        return None

    def values(self, part: str, name: str) -> set[Hashable]:
        """The values that devices of nodes have of an attribute or a capacity. Empty for want of work."""

        def kinds() -> list[Facts]:
            return [
                *{id(slot.facts): slot.facts for layout in self._layouts.values() for slot in layout.slots}.values()
            ]

        def answer() -> set[Hashable]:
            every = self._answer(("kinds",), kinds)
            if not self.kinds.limits[0].take(len(every)):
                raise Unknown
            found = [(facts.attributes if part == "attributes" else facts.capacity).get(name) for facts in every]
            return {value for value in found if value is not None}

        with suppress(Unknown):
            return self._answer((part, name), answer)
        return set()

    @property
    def layouts(self) -> list[Layout]:
        """The different layouts of nodes."""
        return list(dict.fromkeys([layout for layout, _ in self.states]))

    def with_gpus(self, rows: int) -> NDArray[np.bool_]:
        """Which of so many rows are nodes of which a source publishes GPUs one by one."""
        numbers = self._columns.devices[:rows]
        found = np.zeros(int(numbers.max(initial=0)) + 1, bool)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            found[number] = (state := self.states[number]) is not None and bool(state[0].drivers)
        with_gpus: NDArray[np.bool_] = found[numbers]
        return with_gpus

    def publishes(self, source: str) -> bool:
        """Whether a source publishes the devices of some node."""
        return any([source in layout.sets for layout, _ in self.states])

    def only_published(self, node: str, resource: str) -> bool:
        """Whether devices of a node are published, and its device plugin does not offer a resource: so a claim is made."""
        columns, row = self._columns, self._row_of.get(node)
        if row is None or not columns.devices[row]:
            return False
        return resource not in columns.capacity or not columns.capacity[resource][row]

    def asked(self, claims: tuple[DeviceClaim, ...]) -> tuple[tuple[str, int], ...] | None:
        """How much of the GPUs of DRA claims ask, by resource, in thousandths of a device: as counted on the first layout that
        could take them when empty. None if none could. Raises Unknown."""
        self.allow()
        return self._answer(("asked", claims), lambda: self._asked(claims))

    def _answer(self, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        return self._answers.get((self._published, self.network_attached), question, answer)

    def may_roam(self, claims: Iterable[DeviceClaim]) -> bool:
        """Whether devices that are not of a single node could be for claims."""
        requests = [request for claim in claims for alternatives in claim.requests for request in alternatives]
        return any(
            [self.kinds.matches(each, facts) is not False for facts in self.network_attached for each in requests]
        )

    def _asked(self, claims: tuple[DeviceClaim, ...]) -> tuple[tuple[str, int], ...] | None:
        if self.may_roam(claims):
            raise Unknown
        for layout in self.layouts:
            found = self.look(layout, layout.totals, claims)
            if found is not None:
                given = layout.given(found.remaining)
                return tuple([(PUBLISHED + driver, given[driver]) for driver in layout.dra_drivers if driver in given])
        return None

"""The devices of a node as budgets, and the search for devices that can take claims.

Follows k8s.io/dynamic-resource-allocation/structured: claims and their requests in order, alternatives in order, devices in the
order of the layout, the first solution that meets all. For claims of other sources the fullest device that fits is tried first.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from webhook.cluster.device_capacity import consumed
from webhook.cluster.devices import (
    DRA,
    WHOLE,
    Device,
    DeviceClaim,
    DeviceRequest,
    DeviceSet,
    DeviceTaint,
    Use,
)
from webhook.kube.device_selectors import Facts, Work
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.quantity import Number

Amounts = tuple[Number, ...]
Matches = Callable[[DeviceRequest, Facts], bool | None]
_ANY: Final = 1 << 31
"""Uses of a shared device."""
_MAX_STEPS: Final = 500
"""Maximum number of devices that one search tries. A claim for 8 of 8 devices takes 8."""
_MAX_TAKEN: Final = 128
"""Maximum number of devices of the claims of a pod: each is a level of the search."""
_MAX_KEPT: Final = 4096


class Unknown(Exception):
    """It cannot be told whether devices match, or only by a long search."""


class Slot(NamedTuple):
    """A device of a layout."""

    facts: Facts
    taints: tuple[DeviceTaint, ...]
    uses: int
    """The budget of its uses."""
    parts: tuple[tuple[str, int, Number, Any], ...]
    """Its capacities if it is shared: name, budget, total, policy."""
    draws: tuple[tuple[int, Number], ...]
    """Budgets of counters, and what its first use takes of them."""
    unit: tuple[int, ...]
    """The budgets that say how much of the physical device is free."""


class Fit(NamedTuple):
    """Devices for claims."""

    rank: int
    """The alternatives that were taken: 0 if all of them are the most wanted ones."""
    left: float
    """What stays free of the devices that are not taken whole, in thousandths of a device."""
    remaining: Amounts
    """What is left of each budget."""
    spoiled: int = 0
    """The devices that it takes whole though others could have parts of them, or of which it takes more than it asks."""


class Layout:
    """The devices of equal nodes. `sets`: by source; the names in them do not matter."""

    def __init__(self, sets: dict[str, DeviceSet]) -> None:
        self.sets = sets
        self.told = sorted(
            {device.facts.driver for device in sets[DRA].devices if is_gpu_driver(device.facts.driver)}
            if DRA in sets
            else ()
        )
        """The drivers of the GPUs of DRA."""
        totals: list[Number] = []
        self.slots: list[Slot] = []
        self.gpus: dict[str, list[tuple[int, ...]]] = {}
        """By driver, the budgets of each physical device."""
        for _, told in sorted(sets.items()):
            counters: dict[tuple[str, str], int] = {}
            for set_name, counter, amount in told.counters:
                counters[set_name, counter] = len(totals)
                totals.append(amount)
            for device in told.devices:
                self._add(device, counters, totals)
        self.totals: Amounts = tuple(totals)
        self.drivers = [driver for driver in sorted(self.gpus) if is_gpu_driver(driver)]
        """The drivers of GPUs, of all sources."""
        least: dict[int, Number] = {}
        for budget, amount in [draw for slot in self.slots for draw in slot.draws]:
            least[budget] = min(amount, least.get(budget, amount))
        self.parted = {slot.uses for slot in self.slots if any([amount > least[of] for of, amount in slot.draws])}
        """The slots of which there are smaller partitions too, by their budget of uses."""
        self._taken: dict[Hashable, dict[str, int]] = {}

    def _add(self, device: Device, counters: Mapping[tuple[str, str], int], totals: list[Number]) -> None:
        facts, policies = device.facts, dict(device.policies)
        uses, parts = len(totals), []
        totals.append(_ANY if facts.shared else 1)
        for name, amount in sorted(facts.capacity.items()) if facts.shared else ():
            parts.append((name, len(totals), amount, policies.get(name)))
            totals.append(amount)
        draws = tuple([(counters[s, c], amount) for s, c, amount in device.counters if (s, c) in counters])
        if draws:
            sets = {s for s, _, _ in device.counters}
            unit = tuple([budget for (s, _), budget in counters.items() if s in sets])
        else:
            unit = tuple([budget for _, budget, total, _ in parts if total]) or (uses,)
        self.slots.append(Slot(facts, device.taints, uses, tuple(parts), draws, unit))
        units = self.gpus.setdefault(facts.driver, [])
        if unit not in units:
            units.append(unit)

    def used(self, uses: Iterable[tuple[int, Use]]) -> Amounts:
        """What is left of each budget. `uses`: each with the number of its slot."""
        left = list(self.totals)
        for number, use in uses:
            given = dict(use.amounts)
            _take(
                self.slots[number],
                left,
                [(budget, given.get(name, total)) for name, budget, total, _ in self.slots[number].parts],
            )
        return tuple(left)

    def taken(self, uses: list[tuple[int, Use]]) -> dict[str, int]:
        """What these uses take of an empty node, in thousandths of a device, by driver."""
        key = tuple([(number, use.amounts) for number, use in uses])
        if key not in self._taken:
            if len(self._taken) >= _MAX_KEPT:
                self._taken.clear()
            self._taken[key] = self.given(self.used(uses))
        return self._taken[key]

    def given(self, left: Amounts) -> dict[str, int]:
        """What is not free any more if so much is left, in thousandths of a device, by driver."""
        amounts = {driver: self.free(driver, self.totals) - self.free(driver, left) for driver in self.drivers}
        return {driver: amount for driver, amount in amounts.items() if amount}

    def free(self, driver: str, remaining: Amounts) -> int:
        """What is free of the devices of a driver, in thousandths of a device."""
        return sum([self._free(unit, remaining) for unit in self.gpus.get(driver, ())])

    def _free(self, unit: tuple[int, ...], remaining: Amounts | list[Number]) -> int:
        totals = self.totals
        return max(0, min([int(WHOLE * remaining[budget] / (totals[budget] or 1)) for budget in unit]))

    def find(self, claims: Iterable[DeviceClaim], remaining: Amounts, matches: Matches, undone: Work) -> Fit | None:
        """Devices for all claims; None if there are none. `undone`: how many choices may still be taken back, by this search and
        others. Raises Unknown."""
        return _Search(self, tuple(claims), list(remaining), matches, undone).result()


class _Search:
    def __init__(
        self, layout: Layout, claims: tuple[DeviceClaim, ...], left: list[Number], matches: Matches, undone: Work
    ) -> None:
        self._layout, self._left, self._matches, self._undone = layout, left, matches, undone
        self._requests = [(claim, alternatives) for claim in claims for alternatives in claim.requests]
        self._steps = 0
        self._taken: list[tuple[DeviceClaim, Slot]] = []
        self._rank = self._spoiled = 0

    def result(self) -> Fit | None:
        if not self._from(0):
            return None
        free = [self._layout._free(unit, self._left) for unit in {slot.unit for _, slot in self._taken}]
        return Fit(self._rank, float(sum(free)), tuple(self._left), self._spoiled)

    def _from(self, number: int) -> bool:
        """Find devices for all requests from `number` on."""
        if number == len(self._requests):
            return True
        claim, alternatives = self._requests[number]
        if claim.source and claim.source not in self._layout.gpus:
            return self._from(number + 1)
        for index, request in enumerate(alternatives):
            self._rank += index
            slots = [slot for slot in self._layout.slots if self._selects(request, slot)]
            count = request.devices or len(slots)
            if count and len(slots) >= count and self._choose(number, claim, request, slots, count):
                return True
            self._rank -= index
            if self._taken:
                self._undo()
        return False

    def _undo(self) -> None:
        self._undone.left -= 1
        if self._undone.left < 0:
            raise Unknown

    def _selects(self, request: DeviceRequest, slot: Slot) -> bool:
        if request.driver and request.driver != slot.facts.driver:
            return False
        if not all([_tolerated(taint, request.tolerations) for taint in slot.taints]):
            return False
        matching = self._matches(request, slot.facts)
        if matching is None:
            raise Unknown
        return matching

    def _choose(self, number: int, claim: DeviceClaim, request: DeviceRequest, slots: list[Slot], count: int) -> bool:
        """Choose `count` of `slots`, then go on with the next request."""
        if not count:
            return self._from(number + 1)
        usable = [(slot, takes) for slot in slots if (takes := self._takes(request, slot)) is not None]
        if claim.source:
            usable.sort(key=lambda each: self._layout._free(each[0].unit, self._left))
        for index, (slot, takes) in enumerate(usable):
            if len(usable) - index < count:
                return False
            self._steps += 1
            if self._steps > _MAX_STEPS or len(self._taken) >= _MAX_TAKEN:
                raise Unknown
            if not all([self._agrees(claim, slot, name) for name in claim.match]):
                continue
            before = self._left.copy()
            if not request.admin:
                _take(slot, self._left, takes)
            self._taken.append((claim, slot))
            spoils = self._spoils(request, slot, takes)
            self._spoiled += spoils
            rest = [each for each, _ in usable[index + 1 :]]
            if self._choose(number, claim, request, rest, count - 1):
                return True
            self._taken.pop()
            self._spoiled -= spoils
            self._left[:] = before
            self._undo()
            if not request.devices:  # all of them, or none
                return False
        return False

    def _takes(self, request: DeviceRequest, slot: Slot) -> list[tuple[int, Number]] | None:
        """What the request would take of each capacity; None if the device cannot take it now."""
        left, facts = self._left, slot.facts
        wanted = _wanted(request, facts)
        if any([name not in facts.capacity or amount > facts.capacity[name] for name, amount in wanted.items()]):
            return None
        if request.admin:
            return []
        if left[slot.uses] < 1:
            return None
        if self._layout.totals[slot.uses] == left[slot.uses] and any([left[b] < amount for b, amount in slot.draws]):
            return None
        takes = []
        for name, budget, total, policy in slot.parts:
            amount = consumed(wanted.get(name), total, policy)
            if amount is None or amount > left[budget]:
                return None
            takes.append((budget, amount))
        return takes

    def _spoils(self, request: DeviceRequest, slot: Slot, takes: list[tuple[int, Number]]) -> bool:
        if request.admin:
            return False
        if slot.parts:
            return all([amount >= total for (_, amount), (_, _, total, _) in zip(takes, slot.parts, strict=True)])
        wanted = _wanted(request, slot.facts).items()
        return slot.uses in self._layout.parted or any([amount < slot.facts.capacity[name] for name, amount in wanted])

    def _agrees(self, claim: DeviceClaim, slot: Slot, attribute: str) -> bool:
        value = slot.facts.attributes.get(attribute)
        first = next((taken for of, taken in self._taken if of is claim), slot)
        other = first.facts.attributes.get(attribute)
        return value is not None and value == other and type(value) is type(other)


def _wanted(request: DeviceRequest, facts: Facts) -> dict[str, Number]:
    """What it asks of each capacity, by qualified name."""
    return {name if "/" in name else f"{facts.driver}/{name}": amount for name, amount in request.amounts}


def _take(slot: Slot, left: list[Number], takes: Iterable[tuple[int, Number]]) -> None:
    """Subtract one use of a device."""
    if left[slot.uses] in (1, _ANY):
        for budget, amount in slot.draws:
            left[budget] -= amount
    left[slot.uses] -= 1
    for budget, amount in takes:
        left[budget] -= amount


def _tolerated(taint: DeviceTaint, tolerations: tuple[tuple[str, str | None, str], ...]) -> bool:
    return any(
        [
            key in ("", taint.key) and value in (None, taint.value) and effect in ("", taint.effect)
            for key, value, effect in tolerations
        ]
    )

"""The devices of a node as counters, what requests take of these, and who has them."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any, Final, NamedTuple

from webhook.devices.types import DRA, WHOLE, Device, DeviceClaim, DeviceSet, DeviceTaint, Use
from webhook.errors import QuantityError
from webhook.kube.device_tree import Facts
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.quantity import Number, parse_quantity

Amounts = tuple[Number, ...]
_ANY: Final = 1 << 31
"""Uses of a shared device."""
_MAX_KEPT: Final = 4096
_MAX_HOLDERS: Final = 1024
"""More than a kubelet runs pods. To count these takes a millisecond at each of their events."""
_PRODUCT: Final = ("productName", "model")
"""The attributes by which drivers of GPUs publish the product."""


class Slot(NamedTuple):
    """A device of a layout."""

    facts: Facts
    taints: tuple[DeviceTaint, ...]
    uses: int
    """The counter of its uses."""
    parts: tuple[tuple[str, int, Number, Any], ...]
    """Its capacities if it is shared: name, counter, total, policy."""
    draws: tuple[tuple[int, Number], ...]
    """Those of its counters that it shares with others (`consumesCounters` of DRA), and what its first use takes of them."""
    unit: tuple[int, ...]
    """The counters that say how much of the physical device is free."""


class Layout:
    """The devices of equal nodes. `sets`: by source; the names in them do not matter."""

    def __init__(self, sets: dict[str, DeviceSet]) -> None:
        self.sets = sets
        self.dra_drivers = sorted(
            {device.facts.driver for device in sets[DRA].devices if is_gpu_driver(device.facts.driver)}
            if DRA in sets
            else ()
        )
        """The drivers of the GPUs of DRA."""
        totals: list[Number] = []
        self.slots: list[Slot] = []
        self.gpus: dict[str, list[tuple[int, ...]]] = {}
        """By driver, the counters of each physical device."""
        for _, device_set in sorted(sets.items()):
            counters: dict[tuple[str, str], int] = {}
            for set_name, name, amount in device_set.counters:
                counters[set_name, name] = len(totals)
                totals.append(amount)
            for device in device_set.devices:
                self._add(device, counters, totals)
        self.totals: Amounts = tuple(totals)
        self.drivers = [driver for driver in sorted(self.gpus) if is_gpu_driver(driver)]
        """The drivers of GPUs, of all sources."""
        products = [slot.facts.attributes.get(f"{slot.facts.driver}/{key}") for slot in self.slots for key in _PRODUCT]
        named = Counter([name for name in products if isinstance(name, str)])
        self.model = max(sorted(named), key=lambda name: named[name], default="").replace(" ", "-")
        """The product that most devices are, as GPU Feature Discovery writes it in a label; "" if their driver publishes none."""
        least: dict[int, Number] = {}
        for counter, amount in [draw for slot in self.slots for draw in slot.draws]:
            least[counter] = min(amount, least.get(counter, amount))
        self.parted = {slot.uses for slot in self.slots if any([amount > least[of] for of, amount in slot.draws])}
        """The slots of which there are smaller partitions too, by their counter of uses."""
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
            unit = tuple([counter for (s, _), counter in counters.items() if s in sets])
        else:
            unit = tuple([counter for _, counter, total, _ in parts if total]) or (uses,)
        self.slots.append(Slot(facts, device.taints, uses, tuple(parts), draws, unit))
        units = self.gpus.setdefault(facts.driver, [])
        if unit not in units:
            units.append(unit)

    def used(self, uses: Iterable[tuple[int, Use]]) -> Amounts:
        """What is left of each counter. `uses`: each with the number of its slot."""
        left = list(self.totals)
        for number, use in uses:
            given = dict(use.amounts)
            take(
                self.slots[number],
                left,
                [
                    (counter, amount_of(given.get(name, total), total))
                    for name, counter, total, _ in self.slots[number].parts
                ],
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
        return sum([self.free_of(unit, remaining) for unit in self.gpus.get(driver, ())])

    def free_of(self, unit: tuple[int, ...], remaining: Amounts | list[Number]) -> int:
        """What is free of one physical device, which these counters are of, in thousandths."""
        totals = self.totals
        return max(0, min([int(WHOLE * remaining[counter] / (totals[counter] or 1)) for counter in unit]))


def take(slot: Slot, left: list[Number], takes: Iterable[tuple[int, Number]]) -> None:
    """Subtract one use of a device."""
    if left[slot.uses] in (1, _ANY):
        for counter, amount in slot.draws:
            left[counter] -= amount
    left[slot.uses] -= 1
    for counter, amount in takes:
        left[counter] -= amount


def amount_of(asked: Number | float, total: Number) -> Number:
    """An amount, of which a float is a part of all of it."""
    return int(asked * total) if isinstance(asked, float) else asked


def consumed(wanted: Number | None, total: Number, policy: Any) -> Number | None:
    """What a request takes of a capacity, by its CapacityRequestPolicy; None if the policy does not allow it.

    Follows consumable_capacity.go: rounded up to a valid value.
    """
    try:
        if wanted is None:
            return parse_quantity(policy["default"]) if policy and "default" in policy else total
        if policy and (values := policy.get("validValues")):
            return next((value for text in values if (value := parse_quantity(text)) >= wanted), None)
        if policy and (valid := policy.get("validRange")):
            least = parse_quantity(valid["min"])
            amount = max(wanted, least)
            if "step" in valid:
                step = parse_quantity(valid["step"])
                amount = least + -(-Fraction(amount - least) // step) * step
            return amount if "max" not in valid or amount <= parse_quantity(valid["max"]) else None
    except (QuantityError, TypeError, KeyError, AttributeError, ZeroDivisionError):
        return None
    return wanted


class NodeDevices:
    """What the device table keeps of a node."""

    __slots__ = ("held", "layout", "sets", "slots", "unfit", "uses")

    def __init__(self) -> None:
        self.sets: dict[str, DeviceSet] = {}
        """What each source publishes."""
        self.layout: Layout | None = None
        self.slots: dict[tuple[str, str], int] = {}
        """The number of each slot of the layout, by source and name of the device."""
        self.uses: dict[tuple[str, Hashable], tuple[Use, ...]] = {}
        """By source and holder."""
        self.held: list[DeviceClaim] = []
        self.unfit: list[tuple[DeviceClaim, ...]] = []
        """The claims of pods for which nothing was left. They do not count: to search again would cost others."""

    def all_placed(self) -> list[tuple[int, Use]]:
        """All uses of devices that are known; of very many holders those of the oldest: anybody can bind pods to a node."""
        holders = islice(self.uses.items(), _MAX_HOLDERS)
        return [each for (source, _), uses in holders for each in self.placed(source, uses)]

    def placed(self, source: str, uses: Iterable[Use]) -> list[tuple[int, Use]]:
        """The uses of devices that are known, each with the number of its slot."""
        return [(self.slots[source, use.device], use) for use in uses if (source, use.device) in self.slots]


def held_after(held: list[DeviceClaim], claims: tuple[DeviceClaim, ...], sign: int) -> list[DeviceClaim]:
    """What is held with more claims (1), or without claims (-1)."""
    if sign > 0:
        return [*held, *claims]
    for claim in claims:
        held.remove(claim)
    return held

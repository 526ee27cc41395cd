"""The search for devices that can take claims.

Follows k8s.io/dynamic-resource-allocation/structured: claims and their requests in order, alternatives in order, devices in the
order of the layout, the first solution that meets all. For claims of other sources the fullest device that fits is tried first.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from webhook.cluster.device_capacity import amount_of, consumed
from webhook.cluster.device_layout import Amounts, Layout, Slot, take
from webhook.cluster.devices import Constraint, DeviceClaim, DeviceRequest, DeviceTaint
from webhook.kube.device_selectors import Facts, Work
from webhook.kube.quantity import Number

Matches = Callable[[DeviceRequest, Facts], bool | None]
_MAX_STEPS: Final = 500
"""Maximum number of devices that one search tries. A claim for 8 of 8 devices takes 8."""
_MAX_TAKEN: Final = 128
"""Maximum number of devices of the claims of a pod: each is a level of the search."""


class Unknown(Exception):
    """It cannot be told whether devices match, or only by a long search."""


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


def find(layout: Layout, claims: Iterable[DeviceClaim], left: Amounts, matches: Matches, undone: Work) -> Fit | None:
    """Devices for all claims where so much is left of each budget; None if there are none. `undone`: how many choices may still
    be taken back, by this search and others. Raises Unknown."""
    return _Search(layout, tuple(claims), list(left), matches, undone).result()


class _Search:
    def __init__(
        self, layout: Layout, claims: tuple[DeviceClaim, ...], left: list[Number], matches: Matches, undone: Work
    ) -> None:
        self._layout, self._left, self._matches, self._undone = layout, left, matches, undone
        self._requests = [(claim, *each) for claim in claims for each in enumerate(claim.requests)]
        self._steps = 0
        self._taken: list[tuple[int, Slot]] = []
        """The devices chosen so far, each with the number of its request."""
        self._rank = self._spoiled = 0

    def result(self) -> Fit | None:
        if not self._from(0):
            return None
        free = [self._layout.free_of(unit, self._left) for unit in {slot.unit for _, slot in self._taken}]
        return Fit(self._rank, float(sum(free)), tuple(self._left), self._spoiled)

    def _from(self, number: int) -> bool:
        """Find devices for all requests from `number` on."""
        if number == len(self._requests):
            return True
        claim, _, alternatives = self._requests[number]
        if passes_untold(claim) and claim.source not in self._layout.gpus:
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
            usable.sort(key=lambda each: self._layout.free_of(each[0].unit, self._left))
        for index, (slot, takes) in enumerate(usable):
            if len(usable) - index < count:
                return False
            self._steps += 1
            if self._steps > _MAX_STEPS or len(self._taken) >= _MAX_TAKEN:
                raise Unknown
            if not all([self._meets(each, number, slot) for each in claim.constraints]):
                continue
            before = self._left.copy()
            if not request.admin:
                take(slot, self._left, takes)
            self._taken.append((number, slot))
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

    def _meets(self, constraint: Constraint, number: int, slot: Slot) -> bool:
        """Whether a device for this request may be taken beside those of the same claim."""
        claim, place, _ = self._requests[number]
        if constraint.requests and place not in constraint.requests:
            return True
        if (value := slot.facts.attributes.get(constraint.attribute)) is None:
            return False
        others = [
            taken.facts.attributes[constraint.attribute]
            for of, taken in self._taken
            if self._requests[of][0] is claim
            and (not constraint.requests or self._requests[of][1] in constraint.requests)
        ]
        if isinstance(value, tuple):
            raise Unknown  # lists are compared as sets, where the cluster compares them at all
        equal = [value == other and type(value) is type(other) for other in others]
        return not any(equal) if constraint.distinct else all(equal)


def passes_untold(claim: DeviceClaim) -> bool:
    """Whether nodes of which its source tells nothing may take a claim."""
    return bool(claim.source) and not claim.told


def _wanted(request: DeviceRequest, facts: Facts) -> dict[str, Number]:
    """What it asks of each capacity, by qualified name."""
    named = [(name if "/" in name else f"{facts.driver}/{name}", amount) for name, amount in request.amounts]
    return {name: amount_of(amount, facts.capacity.get(name, 1)) for name, amount in named}


def _tolerated(taint: DeviceTaint, tolerations: tuple[tuple[str, str | None, str], ...]) -> bool:
    return any(
        [
            key in ("", taint.key) and value in (None, taint.value) and effect in ("", taint.effect)
            for key, value, effect in tolerations
        ]
    )

"""Which devices requests select, and the search for those that can take claims.

Follows k8s.io/dynamic-resource-allocation/structured: claims and their requests in order, alternatives in order, devices in the
order of the layout, the first solution that meets all. For claims of other sources the fullest device that fits is tried first.

A selector is evaluated once for each kind of devices, and its results are kept, within bounds: tenants write the expressions.
Attributes with many values (UUIDs, PCI addresses) tell devices apart, not kinds of devices. They are dropped, so that equal
nodes stay equal; what an expression or a constraint says about them is unknown.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, NamedTuple

from webhook.devices.layout import Amounts, Layout, Slot, amount_of, consumed, take
from webhook.devices.types import DRA, Constraint, DeviceClaim, DeviceRequest
from webhook.kube.claim_requests import Selected
from webhook.kube.device_selectors import Selector, Work
from webhook.kube.device_tree import Facts, Path
from webhook.kube.quantity import Number
from webhook.kube.taints import tolerates

_MAX_VALUES: Final = 64
"""An attribute with more values than this is dropped."""
_MAX_SELECTORS: Final = 8 << 20
"""Maximum memory for expressions that were read, in bytes."""
_MAX_MATCHES: Final = 32 << 20
"""Maximum memory for what devices match, in bytes."""
_MATCH_BYTES: Final = 256
"""Memory of one, without its expressions."""
_MAX_WORK: Final = 16_000
"""Steps of expressions (`Expression.cost`) for one decision, or for one change of a node, which take 5 ms: as much
as a few reviews. What needs more is unknown."""
_MAX_NEW: Final = 1024
"""Pairs of expressions and devices for one decision of which nothing is kept yet, which take 4 ms. Those of a large
cluster are found in several: each keeps what it has found."""
_SCANNED: Final = 4
"""Characters of an expression that are split into tokens in one step."""
Matches = Callable[[DeviceRequest, Facts], bool | None]
_MAX_STEPS: Final = 500
"""Maximum number of devices that one search tries. A claim for 8 of 8 devices takes 8."""
_MAX_TAKEN: Final = 128
"""Maximum number of devices of the claims of a pod: each is a level of the search."""
_MAX_RESULTS: Final = 32
"""Maximum number of devices of a claim of DRA (AllocationResultsMaxSize)."""


class Kinds:
    """The kinds of all devices."""

    def __init__(self) -> None:
        self.dropped = False
        """Whether an attribute was dropped since `forget`."""
        self._values: dict[tuple[str, str], set[object]] = {}
        """The values of each attribute, by driver and name."""
        self._dropped = set[tuple[str, str]]()
        """The attributes that are dropped."""
        self._kinds: dict[Hashable, Facts] = {}
        self._known = set[int]()
        """The ids of the objects that `of` gave."""
        self._selectors: dict[str, Selector] = {}
        self._matches: dict[tuple[tuple[str, ...], int], tuple[Facts, bool | None]] = {}
        self._bytes = self._selectors_bytes = 0
        self.limits = self._work, self._new = Work(_MAX_WORK), Work(_MAX_NEW)
        """What is left to this decision."""

    def of(self, facts: Facts) -> Facts:
        """The same facts without the attributes that are dropped; one object for equal ones."""
        if id(facts) in self._known:
            return facts
        kept = {}
        for name, value in facts.attributes.items():
            attribute = facts.driver, name
            if attribute in self._dropped:
                continue
            values = self._values.setdefault(attribute, set())
            values.add(value)
            if len(values) > _MAX_VALUES:
                del self._values[attribute]
                self._dropped.add(attribute)
                self.dropped = True
            else:
                kept[name] = value
        attributes = tuple([(name, type(value), value) for name, value in sorted(kept.items())])
        key = facts.driver, attributes, tuple(sorted(facts.capacity.items())), facts.shared
        found = self._kinds.setdefault(key, facts._replace(attributes=kept))
        self._known.add(id(found))
        return found

    def forget(self) -> None:
        """What was dropped is taken into account from now on."""
        self.dropped = False
        self._kinds.clear()
        self._known.clear()
        self._matches.clear()

    def compares_dropped(self, claims: Iterable[DeviceClaim]) -> bool:
        """Whether a constraint of claims compares an attribute that is dropped."""
        names = {name for _, name in self._dropped}
        return any([each.attribute in names for claim in claims for each in claim.constraints])

    def allow(self) -> None:
        """Something new is decided: it may take so much work."""
        self._work.renew(_MAX_WORK)
        self._new.renew(_MAX_NEW)

    def has_work(self) -> bool:
        """Whether no evaluation was left out for want of work."""
        return self._work.left >= 0 and self._new.left >= 0

    def matches(self, request: DeviceRequest, facts: Facts) -> bool | None:
        """Whether a device is one that a request selects; None if that is unknown."""
        if not request.selectors:
            return True
        key = request.selectors, id(facts)
        if key not in self._matches:
            self._bytes += _MATCH_BYTES + sum(map(len, request.selectors))
            if self._bytes > _MAX_MATCHES:
                self._bytes = 0
                self._matches.clear()
            found = self._selected(request.selectors, facts)
            if found is None and not self.has_work():
                return None  # not kept: another decision may have work left for it
            self._matches[key] = facts, found
        return self._matches[key][1]

    def selected(
        self, selectors: tuple[str, ...], layouts: Iterable[Layout], network_attached: Sequence[Facts]
    ) -> Selected | None:
        """What the expressions of a claim select. None if no devices of DRA are known, or if that cannot be decided."""
        if not self.has_work():
            return None
        request, chosen = DeviceRequest(selectors=selectors), dict[int, Facts]()
        of_nodes = [[each.facts for each in layout.sets[DRA].devices] for layout in layouts if DRA in layout.sets]
        every = {id(facts): facts for devices in (*of_nodes, network_attached) for facts in devices}
        for key, facts in every.items():
            if (match := self.matches(request, facts)) is None:
                return None
            if match:
                chosen[key] = facts
        if not every:
            return None
        kinds = {(facts.driver, str(facts.attributes.get(f"{facts.driver}/type", ""))) for facts in chosen.values()}
        counted = not any(
            [facts.shared for facts in chosen.values()] + [id(facts) in chosen for facts in network_attached]
        )
        most = max([len([1 for facts in devices if id(facts) in chosen]) for devices in of_nodes], default=0)
        return Selected(frozenset(kinds), most if counted else None)

    def paths(self, expression: str) -> tuple[Path, ...]:
        """What an expression reads of a device; nothing if that is not known, or for want of work."""
        selector = self._selector(expression)
        read = selector.read(self._work) if selector is not None else None
        return () if read is None else read.paths

    def _selected(self, selectors: tuple[str, ...], facts: Facts) -> bool | None:
        if not (self._new.take(len(selectors)) and self.has_work()):
            return None
        for text in selectors:
            selector = self._selector(text)
            if selector is None or selector.read(self._work) is None:
                return None
            if any([selector.may_read(name) for driver, name in self._dropped if driver == facts.driver]):
                return None
            if (matching := selector.matches(facts, self._work)) is not True:
                return matching
        return True

    def _selector(self, text: str) -> Selector | None:
        """None for want of work."""
        selector = self._selectors.pop(text, None)
        if selector is None:
            if not self._work.take(len(text) // _SCANNED):
                return None
            selector = Selector(text)
            self._selectors_bytes += selector.size
            while self._selectors_bytes > _MAX_SELECTORS and self._selectors:
                self._selectors_bytes -= self._selectors.pop(next(iter(self._selectors))).size
        self._selectors[text] = selector  # the last that was used
        return selector


class Unknown(Exception):
    """It is not known whether devices match, or only by a long search."""


class _Taken(NamedTuple):
    """A device that was chosen."""

    number: int
    """Of its request."""
    slot: Slot
    takes: list[tuple[int, Number]]
    """What it takes of each capacity."""


class Fit(NamedTuple):
    """Devices for claims."""

    rank: int
    """The alternatives that were taken: 0 if all of them are the most wanted ones."""
    left: float
    """What stays free of the devices that are not taken whole, in thousandths of a device."""
    remaining: Amounts
    """What is left of each counter."""
    spoiled: int = 0
    """The devices that it takes whole though others could have parts of them, or of which it takes more than it asks."""


def find(layout: Layout, claims: Iterable[DeviceClaim], left: Amounts, matches: Matches, undone: Work) -> Fit | None:
    """Devices for all claims where so much is left of each counter; None if there are none. `undone`: how many choices may still
    be taken back, by this search and others. Raises Unknown."""
    asked = tuple(claims)
    if any([_least(claim) > _MAX_RESULTS for claim in asked if not claim.source]):
        return None
    return _Search(layout, asked, list(left), matches, undone).result()


class _Search:
    def __init__(
        self, layout: Layout, claims: tuple[DeviceClaim, ...], left: list[Number], matches: Matches, undone: Work
    ) -> None:
        self._layout, self._left, self._matches, self._undone = layout, left, matches, undone
        self._before = left.copy()
        self._requests = [(claim, *each) for claim in claims for each in enumerate(claim.requests)]
        self._steps = 0
        self._taken: list[_Taken] = []
        self._rank = self._spoiled = 0

    def result(self) -> Fit | None:
        if not self._from(0):
            return None
        left = self._before
        for each in self._taken:
            take(each.slot, left, each.takes)
        free = [self._layout.free_of(unit, left) for unit in {each.slot.unit for each in self._taken}]
        return Fit(self._rank, float(sum(free)), tuple(left), self._spoiled)

    def _from(self, number: int) -> bool:
        """Find devices for all requests from `number` on."""
        if number == len(self._requests):
            return True
        claim, _, alternatives = self._requests[number]
        if passes_unpublished(claim) and claim.source not in self._layout.gpus:
            return self._from(number + 1)
        for index, request in enumerate(alternatives):
            self._rank += index
            selected = [slot for slot in self._layout.slots if self._selects(request, slot)]
            slots = [slot for slot in selected if self._tolerates(request, slot)]
            count = request.devices or len(selected)
            most = len(slots) if claim.source else min(len(slots), _MAX_RESULTS - self._taken_by(claim))
            if 0 < count <= most and self._choose(number, claim, request, slots, count):
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
        """Whether a device is one of those that are asked for. Of all devices these are the ones that are large enough."""
        if request.driver and request.driver != slot.facts.driver:
            return False
        matching = self._matches(request, slot.facts)
        if matching is None:
            raise Unknown
        return matching and (request.devices > 0 or self._consumes(request, slot) is not None)

    def _tolerates(self, request: DeviceRequest, slot: Slot) -> bool:
        return all([tolerates(request.tolerations, taint) for taint in slot.taints])

    def _taken_by(self, claim: DeviceClaim) -> int:
        return len([1 for each in self._taken if self._requests[each.number][0] is claim])

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
            take(slot, self._left, takes)
            self._taken.append(_Taken(number, slot, takes))
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
        left, takes = self._left, self._consumes(request, slot)
        if takes is None or any([left[counter] < amount for counter, amount in takes]):
            return None
        if left[slot.uses] < 1:
            return None
        unused = self._layout.totals[slot.uses] == left[slot.uses]
        if unused and any([left[counter] < amount for counter, amount in slot.draws]):
            return None
        return takes

    def _consumes(self, request: DeviceRequest, slot: Slot) -> list[tuple[int, Number]] | None:
        """What the request takes of each capacity of an empty device; None if the device is too small, or does not allow it."""
        wanted, facts = _wanted(request, slot.facts), slot.facts
        if any([name not in facts.capacity or amount > facts.capacity[name] for name, amount in wanted.items()]):
            return None
        takes = []
        for name, counter, total, policy in slot.parts:
            amount = consumed(wanted.get(name), total, policy)
            if amount is None or amount > total:
                return None
            takes.append((counter, amount))
        return takes

    def _spoils(self, request: DeviceRequest, slot: Slot, takes: list[tuple[int, Number]]) -> bool:
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
            each.slot.facts.attributes[constraint.attribute]
            for each in self._taken
            if self._requests[each.number][0] is claim
            and (not constraint.requests or self._requests[each.number][1] in constraint.requests)
        ]
        if isinstance(value, tuple):
            raise Unknown  # lists are compared as sets, where the cluster compares them at all
        equal = [value == other and type(value) is type(other) for other in others]
        return not any(equal) if constraint.distinct else all(equal)


def _least(claim: DeviceClaim) -> int:
    """The least number of devices that it asks for."""
    return sum([min([request.devices or 1 for request in alternatives]) for alternatives in claim.requests])


def passes_unpublished(claim: DeviceClaim) -> bool:
    """Whether nodes of which its source publishes nothing may take a claim."""
    return bool(claim.source) and not claim.published_only


def _wanted(request: DeviceRequest, facts: Facts) -> dict[str, Number]:
    """What it asks of each capacity, by qualified name. Raises Unknown."""
    if not request.driver and any([name.startswith(f"{facts.driver}/") for name, _ in request.amounts]):
        raise Unknown  # the scheduler compares names as they are written, and drivers leave out their own domain
    named = [(name if "/" in name else f"{facts.driver}/{name}", amount) for name, amount in request.amounts]
    return {name: amount_of(amount, facts.capacity.get(name, 1)) for name, amount in named}

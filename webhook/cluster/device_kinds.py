"""Kinds of devices, one object for equal ones, and which of them requests select. Results are kept, within bounds: tenants write
the expressions.

Attributes with many values (UUIDs, PCI addresses) tell devices apart, not kinds of devices. They are dropped, so that equal
nodes stay equal; what an expression or a constraint says about them is unknown.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from webhook.cluster.device_layout import Layout
from webhook.cluster.devices import DRA, DeviceClaim, DeviceRequest
from webhook.kube.claim_requests import Selected
from webhook.kube.device_selectors import Facts, Selector, Work
from webhook.kube.device_tree import Path

_MAX_VALUES: Final = 64
"""An attribute with more values than this is dropped."""
_MAX_SELECTORS: Final = 8 << 20
"""Maximum memory for expressions that were read, in bytes."""
_MAX_MATCHES: Final = 32 << 20
"""Maximum memory for what devices match, in bytes."""
_MATCH_BYTES: Final = 256
"""Memory of one, without its expressions."""
_MAX_WORK: Final = 80_000
"""Steps of expressions (`Expression.cost`) for one decision, or for one change of a node, which take 25 ms. What needs more is
unknown."""
_MAX_NEW: Final = 8192
"""Pairs of expressions and devices for one decision of which nothing is kept yet, which take 30 ms."""
_SCANNED: Final = 4
"""Characters of an expression that are split into tokens in one step."""


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
        self.budgets = self._work, self._new = Work(_MAX_WORK), Work(_MAX_NEW)
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
        self._work.left, self._new.left = _MAX_WORK, _MAX_NEW

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
        self, selectors: tuple[str, ...], layouts: Iterable[Layout], roaming: Sequence[Facts]
    ) -> Selected | None:
        """What the expressions of a claim select. None if no devices of DRA are known, or if that cannot be decided."""
        if not self.has_work():
            return None
        request, chosen = DeviceRequest(selectors=selectors), dict[int, Facts]()
        of_nodes = [[each.facts for each in layout.sets[DRA].devices] for layout in layouts if DRA in layout.sets]
        every = {id(facts): facts for devices in (*of_nodes, roaming) for facts in devices}
        for key, facts in every.items():
            if (match := self.matches(request, facts)) is None:
                return None
            if match:
                chosen[key] = facts
        if not every:
            return None
        kinds = {(facts.driver, str(facts.attributes.get(f"{facts.driver}/type", ""))) for facts in chosen.values()}
        counted = not any([facts.shared for facts in chosen.values()] + [id(facts) in chosen for facts in roaming])
        most = max([len([1 for facts in devices if id(facts) in chosen]) for devices in of_nodes], default=0)
        return Selected(frozenset(kinds), most if counted else None)

    def paths(self, expression: str) -> tuple[Path, ...]:
        """What an expression reads of a device; nothing if that is not told, or for want of work."""
        selector = self._selector(expression)
        told = selector.read(self._work) if selector is not None else None
        return () if told is None else told.paths

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

"""Which devices requests select. Results are kept, within bounds: tenants write the expressions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from webhook.cluster.device_layout import Layout
from webhook.cluster.devices import DRA, DeviceRequest
from webhook.kube.claim_requests import Selected
from webhook.kube.device_selectors import Facts, Selector, Work

_MAX_SELECTORS: Final = 256
_MAX_MATCHES: Final = 32 << 20
"""Maximum memory for what devices match, in bytes."""
_MATCH_BYTES: Final = 256
"""Memory of one, without its expressions."""
_MAX_WORK: Final = 4096
"""Evaluations of expressions for one decision, or for one change of a node, which take 25 ms. What needs more is unknown."""
_MAX_NEW: Final = 8192
"""Pairs of expressions and devices for one decision of which nothing is kept yet, which take 30 ms."""
_COMPILED: Final = 4
"""Characters of an expression that are compiled in the time of one evaluation."""


class Matching:
    """`values`: the values of each attribute, by driver and name; None if they are not kept."""

    def __init__(self, values: Mapping[tuple[str, str], set[object] | None]) -> None:
        self._values = values
        self._selectors: dict[str, Selector] = {}
        self._matches: dict[tuple[tuple[str, ...], int], tuple[Facts, bool | None]] = {}
        self._bytes, self._work, self._new = 0, Work(_MAX_WORK), _MAX_NEW

    def allow(self) -> None:
        """Something new is decided: it may take so much work."""
        self._work.left, self._new = _MAX_WORK, _MAX_NEW

    def has_work(self) -> bool:
        """Whether no evaluation was left out for want of work."""
        return self._work.left >= 0 and self._new >= 0

    def forget(self) -> None:
        """An attribute is not kept any more."""
        self._matches.clear()

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

    def _selected(self, selectors: tuple[str, ...], facts: Facts) -> bool | None:
        self._new -= len(selectors)
        if not self.has_work():
            return None
        for text in selectors:
            if text not in self._selectors:
                self._work.left -= len(text) // _COMPILED
                if not self.has_work():
                    return None
            selector = self._selectors.pop(text, None) or Selector(text)
            if len(self._selectors) >= _MAX_SELECTORS:
                del self._selectors[next(iter(self._selectors))]
            self._selectors[text] = selector
            dropped = [
                name for (driver, name), values in self._values.items() if values is None and driver == facts.driver
            ]
            if any([selector.may_read(name) for name in dropped]):
                return None
            if (matching := selector.matches(facts, self._work)) is not True:
                return matching
        return True

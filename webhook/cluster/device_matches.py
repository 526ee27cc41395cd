"""Which devices requests select. Results are kept, within bounds: tenants write the expressions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from webhook.cluster.device_layout import Layout
from webhook.cluster.devices import DRA, DeviceRequest
from webhook.kube.claim_requests import Selected
from webhook.kube.device_selectors import Facts, Selector, Work, compiling

_MAX_SELECTORS: Final = 256
_MAX_MATCHES: Final = 32 << 20
"""Maximum memory for what devices match, in bytes."""
_MATCH_BYTES: Final = 256
"""Memory of one, without its expressions."""
_MAX_WORK: Final = 4096
"""Evaluations of expressions for one decision, or for one change of a node, which take 25 ms. What needs more is unknown."""


class Matching:
    """`values`: the values of each attribute, by driver and name; None if they are not kept."""

    def __init__(self, values: Mapping[tuple[str, str], set[object] | None]) -> None:
        self._values = values
        self._selectors: dict[str, Selector] = {}
        self._matches: dict[tuple[tuple[str, ...], int], tuple[Facts, bool | None]] = {}
        self._bytes, self._work = 0, Work(_MAX_WORK)

    def allow(self) -> None:
        """Something new is decided: it may take so much work."""
        self._work.left = _MAX_WORK

    @property
    def exhausted(self) -> bool:
        return self._work.left < 0

    def forget(self) -> None:
        """An attribute is not kept any more."""
        self._matches.clear()

    def matches(self, request: DeviceRequest, facts: Facts) -> bool | None:
        """Whether a device is one that a request selects; None if that is unknown."""
        if not request.selectors:
            return True
        key = request.selectors, id(facts)
        if key not in self._matches and self.exhausted:
            return None
        if key not in self._matches:
            self._bytes += _MATCH_BYTES + sum(map(len, request.selectors))
            if self._bytes > _MAX_MATCHES:
                self._bytes = 0
                self._matches.clear()
            found = self._selected(request.selectors, facts)
            if found is None and self.exhausted:
                return None  # not kept: another decision may have work left for it
            self._matches[key] = facts, found
        return self._matches[key][1]

    def selected(
        self, selectors: tuple[str, ...], layouts: Iterable[Layout], roaming: Sequence[Facts]
    ) -> Selected | None:
        """What the expressions of a claim select. None if no devices of DRA are known, or if that cannot be decided."""
        if self.exhausted:
            return None
        request, known = DeviceRequest(selectors=selectors), False
        kinds, most, counted = set[tuple[str, str]](), 0, True
        of_nodes = [[each.facts for each in layout.sets[DRA].devices] for layout in layouts if DRA in layout.sets]
        for devices in (*of_nodes, roaming):
            self._work.left -= 1
            found = [self.matches(request, facts) for facts in devices]
            if None in found or self.exhausted:
                return None
            chosen = [facts for matching, facts in zip(found, devices, strict=True) if matching]
            kinds |= {(facts.driver, str(facts.attributes.get(f"{facts.driver}/type", ""))) for facts in chosen}
            most, known = max(most, len(chosen)), known or bool(devices)
            counted = counted and not any([facts.shared or devices is roaming for facts in chosen])
        return Selected(frozenset(kinds), most if counted else None) if known else None

    def _selected(self, selectors: tuple[str, ...], facts: Facts) -> bool | None:
        for text in selectors:
            if (selector := self._selectors.pop(text, None)) is None:
                self._work.left -= compiling(text)
                if self.exhausted:
                    return None
                selector = Selector(text)
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

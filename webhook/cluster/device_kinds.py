"""Kinds of devices: what selects devices, one object for equal ones.

Attributes with many values (UUIDs, PCI addresses) tell devices apart, not kinds of devices. They are dropped, so that equal
nodes stay equal; what an expression or a constraint says about them is unknown.
"""

from collections.abc import Hashable, Iterable
from typing import Final

from webhook.cluster.devices import DeviceClaim
from webhook.kube.device_selectors import Facts

_MAX_VALUES: Final = 64
"""An attribute with more values than this is dropped."""


class Kinds:
    """The kinds of all devices."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], set[object] | None] = {}
        """The values of each attribute, by driver and name; None if it is dropped."""
        self.dropped = False
        """Whether an attribute was dropped since `forget`."""
        self._kinds: dict[Hashable, Facts] = {}
        self._known = set[int]()
        """The ids of the objects that `of` gave."""
        self._dropped_names = set[str]()

    def of(self, facts: Facts) -> Facts:
        """The same facts without the attributes that are dropped; one object for equal ones."""
        if id(facts) in self._known:
            return facts
        kept = {}
        for name, value in facts.attributes.items():
            values = self.values.setdefault((facts.driver, name), set())
            if values is not None:
                values.add(value)
                if len(values) > _MAX_VALUES:
                    self.values[facts.driver, name] = None
                    self._dropped_names.add(name)
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

    def compares_dropped(self, claims: Iterable[DeviceClaim]) -> bool:
        """Whether a constraint of claims compares an attribute that is dropped."""
        return bool(self._dropped_names) and any(
            [each.attribute in self._dropped_names for claim in claims for each in claim.constraints]
        )

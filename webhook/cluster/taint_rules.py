"""DeviceTaintRules of DRA: taints that administrators give to devices, beside those that drivers tell.

resource.k8s.io/v1. Follows resourceslice/tracker/tracker.go.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final

from webhook.cluster.devices import DeviceTaint

_KEEPS_AWAY: Final = ("NoSchedule", "NoExecute")
_MAX_TAINTS: Final = 16
"""Maximum number of taints that rules give to one device, as many as a driver may tell of it (DeviceTaintsMaxLength)."""
Selected = tuple[str, str, str]
"""The driver, the pool and the device that a rule selects; "": any."""


def taint_of(taint: Mapping[str, Any]) -> DeviceTaint | None:
    """A taint of a device; None if it keeps no pod away."""
    if taint.get("effect") not in _KEEPS_AWAY:
        return None
    return DeviceTaint(str(taint.get("key")), str(taint.get("value") or ""), str(taint["effect"]))


class TaintRules:
    """All DeviceTaintRules. `changed` is called with what a rule selects whenever its taint is another one."""

    def __init__(self, changed: Callable[[Selected], None] = lambda _: None) -> None:
        self._on_change = changed
        self._rules: dict[str, tuple[Selected, DeviceTaint] | None] = {}
        self._taints: dict[Selected, dict[str, DeviceTaint]] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        name, spec = str(obj["metadata"]["name"]), obj.get("spec") or {}
        selector, taint = spec.get("deviceSelector"), taint_of(spec.get("taint") or {})
        rule = None
        if selector is not None and taint is not None:
            rule = (_part(selector, "driver"), _part(selector, "pool"), _part(selector, "device")), taint
        if rule == self._rules.get(name):  # most changes are of the status
            self._rules[name] = rule
            return
        self.gone(name)
        self._rules[name] = rule
        if rule is not None:
            self._taints.setdefault(rule[0], {})[name] = rule[1]
            self._on_change(rule[0])

    def gone(self, name: str) -> None:
        if (rule := self._rules.pop(name, None)) is None:
            return
        del self._taints[rule[0]][name]
        if not self._taints[rule[0]]:
            del self._taints[rule[0]]
        self._on_change(rule[0])

    def of(self, driver: str, pool: str, device: str) -> tuple[DeviceTaint, ...]:
        """The taints that rules give to a device, sorted."""
        if not self._taints:
            return ()
        keys = product(("", driver), ("", pool), ("", device))
        found = {taint for key in keys for taint in self._taints.get(key, {}).values()}
        return tuple(sorted(found)[:_MAX_TAINTS])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)


def _part(selector: Mapping[str, Any], key: str) -> str:
    return str(selector.get(key) or "")

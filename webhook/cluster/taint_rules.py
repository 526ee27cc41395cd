"""DeviceTaintRules of DRA: taints that administrators give to devices, beside those that drivers tell.

resource.k8s.io/v1. Follows resourceslice/tracker/tracker.go.
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, Final

from webhook.cluster.devices import DeviceTaint
from webhook.cluster.grouped import Grouped

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


class TaintRules(Grouped[str, Selected, DeviceTaint]):
    """The taints by name of the rule, and by what it selects.

    `changed` is called with what a rule selects whenever its taint is another one."""

    def __init__(self, changed: Callable[[Selected], None] = lambda _: None) -> None:
        super().__init__()
        self._on_change = changed

    def seen(self, obj: Mapping[str, Any]) -> None:
        name, spec = str(obj["metadata"]["name"]), obj.get("spec") or {}
        selector, taint = spec.get("deviceSelector"), taint_of(spec.get("taint") or {})
        if selector is None or taint is None:
            self.gone(name)
            return
        selected = (_part(selector, "driver"), _part(selector, "pool"), _part(selector, "device"))
        if taint == self.groups.get(selected, {}).get(name):  # most changes are of the status
            return
        self.gone(name)
        self.put(name, selected, taint)
        self._on_change(selected)

    def gone(self, name: str) -> None:
        before = self.group_of.get(name)
        super().gone(name)
        if before is not None:
            self._on_change(before)

    def of(self, driver: str, pool: str, device: str) -> tuple[DeviceTaint, ...]:
        """The taints that rules give to a device, sorted."""
        if not self.groups:
            return ()
        keys = product(("", driver), ("", pool), ("", device))
        return tuple(sorted({taint for key in keys for taint in self.groups.get(key, {}).values()})[:_MAX_TAINTS])


def _part(selector: Mapping[str, Any], key: str) -> str:
    return str(selector.get(key) or "")

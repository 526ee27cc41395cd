"""ResourceSlices of DRA: the devices of each node.

A driver publishes pools of devices. Only the slices of the newest generation of a pool count, and none while some of them are
missing. Devices that do not belong to a single node are network-attached: what they are for is left to the scheduler.

resource.k8s.io/v1. Follows structured/internal/incubating/pools_incubating.go.

DeviceTaintRules give devices more taints, beside those of drivers. Follows resourceslice/tracker/tracker.go.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain, islice, product
from sys import intern
from typing import Any, Final, NamedTuple

from webhook.devices.table import DeviceTable
from webhook.devices.types import DRA, Device, DeviceSet, DeviceTaint
from webhook.errors import QuantityError
from webhook.kube.device_selectors import facts_of
from webhook.kube.device_tree import Facts
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.quantity import Number, parse_quantity
from webhook.kube.stores import Grouped
from webhook.kube.taints import KEEPS_AWAY

_MAX_TAINTS: Final = 16
"""Maximum number of taints that rules give to one device, as many as a driver may publish (DeviceTaintsMaxLength)."""
Selected = tuple[str, str, str]
"""The driver, the pool and the device that a rule selects; "": any."""
_MAX_DEVICES: Final = 128
"""Maximum number of devices of one slice (ResourceSliceMaxDevices); others are left out."""
_MAX_NETWORK_ATTACHED, _MAX_INTERNED = 256, 1 << 16
Pool = tuple[str, str]
"""Driver and name of a pool."""
Counters = tuple[tuple[str, str, Number], ...]


def taint_of(taint: Mapping[str, Any]) -> DeviceTaint | None:
    """A taint of a device; None if it keeps no pod away."""
    if taint.get("effect") not in KEEPS_AWAY:
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


class _Slice(NamedTuple):
    pool: Pool
    generation: int
    slices: int
    """Number of slices of the pool in this generation."""
    node: str
    """"" if it is not of a single node."""
    devices: DeviceSet
    network_attached: tuple[Facts, ...]


class Slices:
    """All ResourceSlices. Tells `table` the devices of nodes. `nodes`: the set of nodes that have GPUs of DRA, kept up to date;
    `version` rises with it."""

    def __init__(self, nodes: set[str], table: DeviceTable) -> None:
        self.version = 0
        self.taint_rules = TaintRules(self._taints_changed)
        self._nodes, self._table = nodes, table
        self._slices = Grouped[str, Pool, _Slice]()
        self._pools_of = Grouped[str, str, Pool]()
        """The pools of slices by node."""
        self._drivers = Grouped[str, str, None]()
        """The slices of GPUs by driver: asked for at each review."""
        self._current: dict[Pool, dict[str, list[_Slice]]] = {}
        """Of each pool the slices that count, by node and name."""
        self._interned: dict[Counters, Counters] = {}
        self._network_attached: dict[str, tuple[Facts, ...]] = {}
        """The devices of slices that are not of a single node, by name: few, and asked for at each event."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        self._replace(obj["metadata"]["name"], self._read(obj["spec"]))

    def gone(self, name: str) -> None:
        self._replace(name, None)

    def _replace(self, name: str, now: _Slice | None) -> None:
        before = self._slices.get(name)
        for kept in (self._slices, self._pools_of, self._drivers):
            kept.gone(name)
        self._network_attached.pop(name, None)
        if now is not None:
            self._slices.put(name, now.pool, now)
            if now.network_attached:
                self._network_attached[name] = now.network_attached
            if now.node:
                self._pools_of.put(name, now.node, now.pool)
                if is_gpu_driver(now.pool[0]):
                    self._drivers.put(name, now.pool[0], None)
        changed = [each for each in (before, now) if each is not None]
        for pool in dict.fromkeys([each.pool for each in changed]):
            self._tell(pool, {each.node for each in changed})

    def _tell(self, pool: Pool, nodes: set[str]) -> None:
        """The slices of a pool have changed, and the devices of these nodes. What stays is not published again: a pool may
        have slices of thousands of nodes."""
        before, now = self._current.pop(pool, {}), self._current_of(pool)
        if now:
            self._current[pool] = now
        nodes = nodes.union([node for node in {*before, *now} if before.get(node) != now.get(node)])
        for node in nodes - {""}:
            pools = sorted({*self._pools_of.groups.get(node, {}).values()})
            slices = [(n, each) for n, of in enumerate(pools) for each in self._current.get(of, {}).get(node, ())]
            published = DeviceSet(
                tuple([self._named(n, each.pool, device) for n, each in slices for device in each.devices.devices]),
                tuple([counter for n, each in slices for counter in _of_pool(n, each.devices.counters)]),
            )
            self._table.publish(node, DRA, published)
            gpus = any([is_gpu_driver(driver) for driver, _ in pools])
            if gpus != (node in self._nodes):
                (self._nodes.add if gpus else self._nodes.discard)(node)
                self.version += 1
        self._table.network_attached = tuple(
            islice(chain.from_iterable(self._network_attached.values()), _MAX_NETWORK_ATTACHED)
        )

    def _named(self, number: int, pool: Pool, device: Device) -> Device:
        """The device with the taints that rules give it. `number`: of its pool on its node."""
        taints = self.taint_rules.of(*pool, device.name.rpartition("/")[2])
        if not (taints or number):
            return device
        return device._replace(taints=(*device.taints, *taints), counters=_of_pool(number, device.counters))

    def _taints_changed(self, selected: Selected) -> None:
        driver, name, _ = selected
        for pool in [each for each in self._slices.groups if driver in ("", each[0]) and name in ("", each[1])]:
            self._tell(pool, {*self._current.get(pool, ())})

    def _current_of(self, pool: Pool) -> dict[str, list[_Slice]]:
        slices = self._slices.groups.get(pool, {})
        newest = max([each.generation for each in slices.values()], default=0)
        names = sorted([name for name, each in slices.items() if each.generation == newest])
        by_node: dict[str, list[_Slice]] = {}
        if names and len(names) == slices[names[0]].slices and _is_valid([slices[name] for name in names]):
            for name in names:
                by_node.setdefault(slices[name].node, []).append(slices[name])
        return by_node

    def _read(self, spec: Mapping[str, Any]) -> _Slice:
        """Devices that cannot be read are left out."""
        driver, pool = str(spec["driver"]), spec.get("pool") or {}
        key = intern(driver), str(pool.get("name") or "")
        node = str(spec.get("nodeName") or "")
        devices = []
        for device in (spec.get("devices") or ())[:_MAX_DEVICES]:
            with suppress(ValueError, QuantityError, KeyError, TypeError, AttributeError):
                devices.append(self._device(key, device))
        counters = self._counters(key, spec.get("sharedCounters") or (), "name")
        network_attached = () if node else tuple([device.facts for device in devices])
        published = DeviceSet(tuple(devices) if node else (), counters)
        return _Slice(
            key,
            int(pool.get("generation") or 0),
            int(pool.get("resourceSliceCount") or 0),
            node,
            published,
            network_attached,
        )

    def _device(self, pool: Pool, device: Mapping[str, Any]) -> Device:
        taints = [read for taint in device.get("taints") or () if (read := taint_of(taint)) is not None]
        policies = [
            (name if "/" in name else f"{pool[0]}/{name}", capacity["requestPolicy"])
            for name, capacity in (device.get("capacity") or {}).items()
            if capacity.get("requestPolicy")
        ]
        return Device(
            device_id(pool[0], pool[1], str(device["name"])),
            self._table.kinds.of(facts_of(pool[0], device)),
            tuple(taints),
            self._counters(pool, device.get("consumesCounters") or (), "counterSet"),
            tuple(policies),
        )

    def _counters(self, pool: Pool, sets: Any, key: str) -> Counters:
        found = tuple(
            [
                (f"{pool[0]}/{each[key]}", intern(str(counter)), parse_quantity(amount["value"]))
                for each in sets
                for counter, amount in (each.get("counters") or {}).items()
            ]
        )
        if len(self._interned) > _MAX_INTERNED:
            self._interned.clear()
        return self._interned.setdefault(found, found)

    def usable(self, pool: Pool) -> bool:
        """Whether a pool is complete and valid: else the scheduler gives none of its devices."""
        return pool in self._current

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers of GPUs, sorted."""
        return tuple(sorted(self._drivers.groups))

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)


def _is_valid(slices: list[_Slice]) -> bool:
    """Whether each device and each counter set of a pool is published once, and all counters that devices draw on are published
    (buildPool). Devices that are not of a single node are not looked at."""
    devices = [device for each in slices for device in each.devices.devices]
    counters = [each[:2] for piece in slices for each in piece.devices.counters]
    drawn = {draw[:2] for device in devices for draw in device.counters}
    return (
        len({device.name for device in devices}) == len(devices)
        and len(set(counters)) == len(counters)
        and drawn.issubset(counters)
    )


def _of_pool(number: int, counters: Counters) -> Counters:
    """Counters by names that differ from pool to pool of a node. Not by that of the pool: equal nodes would differ too."""
    return tuple([(f"{number}/{of}", counter, amount) for of, counter, amount in counters]) if number else counters


def device_id(driver: str, pool: str, device: str) -> str:
    """The name of a device of DRA in the device table."""
    return f"{driver}/{pool}/{device}"

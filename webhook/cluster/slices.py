"""ResourceSlices of DRA: the devices of each node.

A driver publishes pools of devices. Only the slices of the newest generation of a pool count, and none while some of them are
missing. Devices that do not belong to a single node are `roaming`: what they are for is left to the scheduler.

resource.k8s.io/v1. Follows structured/internal/incubating/pools_incubating.go.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from sys import intern
from typing import Any, Final, NamedTuple

from webhook.cluster.device_table import DeviceTable
from webhook.cluster.devices import DRA, Device, DeviceSet
from webhook.cluster.taint_rules import Selected, TaintRules, taint_of
from webhook.errors import QuantityError
from webhook.kube.device_selectors import Facts, facts_of
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.quantity import Number, parse_quantity

_MAX_DEVICES: Final = 128
"""Maximum number of devices of one slice (ResourceSliceMaxDevices); others are left out."""
_MAX_ROAMING, _MAX_IGNORED, _MAX_INTERNED = 256, 64, 1 << 16
Pool = tuple[str, str]
"""Driver and name of a pool."""
Counters = tuple[tuple[str, str, Number], ...]


class _Slice(NamedTuple):
    pool: Pool
    generation: int
    slices: int
    """Number of slices of the pool in this generation."""
    node: str
    """"" if it is not of a single node."""
    devices: DeviceSet
    roaming: tuple[Facts, ...]


class Slices:
    """All ResourceSlices. Tells `table` the devices of nodes. `nodes`: the set of nodes that have GPUs of DRA, kept up to date;
    `version` rises with it."""

    def __init__(self, nodes: set[str], table: DeviceTable) -> None:
        self.version = 0
        self.taint_rules = TaintRules(self._taints_changed)
        self.ignored: dict[str, str] = {}
        """Why devices are left out, by the name of the slice; a few of them."""
        self._nodes, self._table = nodes, table
        self._slices: dict[str, _Slice] = {}
        self._pools: dict[Pool, dict[str, _Slice]] = {}
        self._pools_of: dict[str, set[Pool]] = {}
        """By node."""
        self._current: dict[Pool, dict[str, list[_Slice]]] = {}
        """Of each pool the slices that count, by node and name."""
        self._interned: dict[Counters, Counters] = {}
        self._roams: dict[str, tuple[Facts, ...]] = {}
        """The devices of slices that are not of a single node, by name: few, and asked for at each event."""
        self._drivers = Counter[str]()
        """Drivers of GPUs, with the number of their slices: asked for at each review."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        name = obj["metadata"]["name"]
        self.ignored.pop(name, None)
        read = self._read(name, obj["spec"])
        before = self._slices.get(name)
        self._remove(name)
        self._slices[name] = read
        if read.roaming:
            self._roams[name] = read.roaming
        self._pools.setdefault(read.pool, {})[name] = read
        if read.node:
            self._pools_of.setdefault(read.node, set()).add(read.pool)
            if is_gpu_driver(read.pool[0]):
                self._drivers[read.pool[0]] += 1
        self._tell(read.pool, {read.node, before.node if before else ""})
        if before is not None and before.pool != read.pool:
            self._tell(before.pool, {before.node})

    def gone(self, name: str) -> None:
        if (before := self._slices.get(name)) is not None:
            self.ignored.pop(name, None)
            self._remove(name)
            self._tell(before.pool, {before.node})

    def _remove(self, name: str) -> None:
        if (before := self._slices.pop(name, None)) is None:
            return
        self._roams.pop(name, None)
        if before.node and is_gpu_driver(before.pool[0]):
            self._drivers[before.pool[0]] -= 1
        pool = self._pools[before.pool]
        del pool[name]
        if before.node and before.node not in [each.node for each in pool.values()]:
            self._pools_of[before.node].discard(before.pool)
            if not self._pools_of[before.node]:
                del self._pools_of[before.node]
        if not pool:
            del self._pools[before.pool]

    def _tell(self, pool: Pool, nodes: set[str]) -> None:
        """The slices of a pool have changed, and the devices of these nodes. What stays as it is is not told again: a pool may
        have slices of thousands of nodes."""
        before, now = self._current.pop(pool, {}), self._current_of(pool)
        if now:
            self._current[pool] = now
        nodes = nodes.union([node for node in {*before, *now} if before.get(node) != now.get(node)])
        for node in nodes - {""}:
            pools = sorted(self._pools_of.get(node, ()))
            current = [each for of in pools for each in self._current.get(of, {}).get(node, ())]
            told = DeviceSet(
                tuple([self._tainted(each.pool, device) for each in current for device in each.devices.devices]),
                tuple([counter for each in current for counter in each.devices.counters]),
            )
            self._table.tell(node, DRA, told)
            gpus = any([is_gpu_driver(driver) for driver, _ in pools])
            if gpus != (node in self._nodes):
                (self._nodes.add if gpus else self._nodes.discard)(node)
                self.version += 1
        self._table.roaming = self._roaming()

    def _tainted(self, pool: Pool, device: Device) -> Device:
        """The device with the taints that rules give it."""
        taints = self.taint_rules.of(*pool, device.name.rpartition("/")[2])
        return device._replace(taints=(*device.taints, *taints)) if taints else device

    def _taints_changed(self, selected: Selected) -> None:
        driver, name, _ = selected
        for pool in [each for each in self._pools if driver in ("", each[0]) and name in ("", each[1])]:
            self._tell(pool, {*self._current.get(pool, ())})

    def _current_of(self, pool: Pool) -> dict[str, list[_Slice]]:
        slices = self._pools.get(pool, {})
        newest = max([each.generation for each in slices.values()], default=0)
        names = sorted([name for name, each in slices.items() if each.generation == newest])
        by_node: dict[str, list[_Slice]] = {}
        if names and len(names) == slices[names[0]].slices and _is_valid([slices[name] for name in names]):
            for name in names:
                by_node.setdefault(slices[name].node, []).append(slices[name])
        return by_node

    def _roaming(self) -> tuple[Facts, ...]:
        return tuple(islice(chain.from_iterable(self._roams.values()), _MAX_ROAMING))

    def _read(self, name: str, spec: Mapping[str, Any]) -> _Slice:
        driver, pool = str(spec["driver"]), spec.get("pool") or {}
        key = intern(driver), str(pool.get("name") or "")
        listed = spec.get("devices") or ()
        node = str(spec.get("nodeName") or "")
        devices = []
        for device in listed[:_MAX_DEVICES]:
            try:
                devices.append(self._device(key, device))
            except (ValueError, QuantityError, KeyError, TypeError, AttributeError) as error:
                self._ignore(name, f"{type(error).__name__}: {error}")
        if len(listed) > _MAX_DEVICES:
            self._ignore(name, f"{len(listed)} devices, wanted at most {_MAX_DEVICES}")
        counters = self._counters(key, spec.get("sharedCounters") or (), "name")
        roaming = () if node else tuple([device.facts for device in devices])
        told = DeviceSet(tuple(devices) if node else (), counters)
        return _Slice(
            key, int(pool.get("generation") or 0), int(pool.get("resourceSliceCount") or 0), node, told, roaming
        )

    def _ignore(self, name: str, why: str) -> None:
        if len(self.ignored) < _MAX_IGNORED:
            self.ignored[name] = why[:256]

    def _device(self, pool: Pool, device: Mapping[str, Any]) -> Device:
        taints = [told for taint in device.get("taints") or () if (told := taint_of(taint)) is not None]
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
        return tuple(sorted([driver for driver, slices in self._drivers.items() if slices]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._slices)


def _is_valid(slices: list[_Slice]) -> bool:
    """Whether each device and each counter set of a pool is told once, and all counters that devices draw on are told
    (buildPool). Devices that are not of a single node are not looked at."""
    devices = [device for each in slices for device in each.devices.devices]
    counters = [each[:2] for piece in slices for each in piece.devices.counters]
    drawn = {draw[:2] for device in devices for draw in device.counters}
    return (
        len({device.name for device in devices}) == len(devices)
        and len(set(counters)) == len(counters)
        and drawn.issubset(counters)
    )


def device_id(driver: str, pool: str, device: str) -> str:
    """The name of a device of DRA in the device table."""
    return f"{driver}/{pool}/{device}"

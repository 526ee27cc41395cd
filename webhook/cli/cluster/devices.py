"""GPUs that come by DRA: what ResourceSlices offer on each node, and what is allocated to ResourceClaims.

resource.k8s.io/v1. Only the slices of the newest generation of a pool count. Devices that draw on one counter set are parts of
one GPU (a GPU and its MIG instances): they count as one, which is allocated as soon as a part of it is. A claim with adminAccess
takes nothing. Devices that belong to no one node (`allNodes`, `nodeSelector`) are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.cluster.slices import is_gpu_driver
from webhook.kube.pod import Pod


class _Gpu(NamedTuple):
    driver: str
    pool: str
    name: str
    """Of the counter set that it draws on, else its own."""


class Devices:
    """The GPUs of one snapshot. Empty where its ResourceClaims are not known: nobody can say what is free."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._offered: dict[str, set[_Gpu]] = {}
        self._taken: set[_Gpu] = set()
        self._held: dict[str, set[_Gpu]] = {}
        """By the uid of a pod."""
        if "ResourceClaim" in snapshot.missing:
            return
        gpus: dict[tuple[str, str, str], _Gpu] = {}
        for spec in newest(snapshot.of("ResourceSlice")):
            if not is_gpu_driver(spec.get("driver") or ""):
                continue
            for device in spec.get("devices") or ():
                gpu = _gpu(spec, device)
                gpus[gpu.driver, gpu.pool, device["name"]] = gpu
                if node := spec.get("nodeName") or device.get("nodeName"):
                    self._offered.setdefault(node, set()).add(gpu)
        for claim in snapshot.of("ResourceClaim") if gpus else ():
            keys = [(result["driver"], result["pool"], result["device"]) for result in _results(claim)]
            held = {gpus[key] for key in keys if key in gpus}
            self._taken |= held
            for user in claim["status"].get("reservedFor") or ():
                self._held.setdefault(str(user.get("uid")), set()).update(held)

    def on(self, node: str) -> dict[str, dict[str, int]]:
        """By driver: how many it has, and how many of them claims have."""
        offered = self._offered.get(node, set())
        total = Counter([gpu.driver for gpu in offered])
        taken = Counter([gpu.driver for gpu in offered & self._taken])
        return {
            driver: {"total": count, "allocated": taken[driver], "promised": 0, "free": count - taken[driver]}
            for driver, count in sorted(total.items())
        }

    def of(self, pod: Pod) -> dict[str, int]:
        """How many the claims of a pod have, by driver. One that pods share counts for each of them."""
        held = self._held.get(str(pod["metadata"].get("uid")), ()) if self._held else ()
        return dict(sorted(Counter([gpu.driver for gpu in held]).items()))


def newest(slices: list[Object]) -> Iterator[Mapping[str, Any]]:
    """The specs of the newest generation of each pool: a driver writes a new one before it deletes the old."""
    last: dict[tuple[str, str], int] = {}
    for obj in slices:
        pool = obj["spec"].get("pool") or {}
        key = str(obj["spec"].get("driver")), str(pool.get("name"))
        last[key] = max(int(pool.get("generation") or 0), last.get(key, 0))
    for obj in slices:
        pool = obj["spec"].get("pool") or {}
        if int(pool.get("generation") or 0) == last[str(obj["spec"].get("driver")), str(pool.get("name"))]:
            yield obj["spec"]


def _gpu(spec: Mapping[str, Any], device: Mapping[str, Any]) -> _Gpu:
    counters = next(iter(device.get("consumesCounters") or ()), None)
    name = f"counters {counters.get('counterSet')}" if counters else str(device["name"])
    return _Gpu(str(spec["driver"]), str((spec.get("pool") or {}).get("name")), name)


def _results(claim: Object) -> Iterator[Mapping[str, Any]]:
    allocation = claim["status"].get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield result

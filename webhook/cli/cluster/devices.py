"""Counts the GPUs that DRA offers: in the ResourceSlices of each node, and allocated to ResourceClaims.

resource.k8s.io/v1. Only slices of the newest generation of a pool count. Devices that consume the same counter set are parts of
one GPU (a GPU and its MIG instances). They count as one GPU, which is allocated as soon as one part is. A request with
adminAccess allocates nothing. Devices that do not belong to a single node (`allNodes`, `nodeSelector`) are not counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from webhook.cli.cluster.snapshot import Object, Snapshot
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.pod import Pod


class _Gpu(NamedTuple):
    driver: str
    pool: str
    name: str
    """The name of the counter set that the device consumes, else of the device."""


class Devices:
    """The GPUs of one snapshot. None are counted if its ResourceClaims are missing: it is not known which are free."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._offered: dict[str, set[_Gpu]] = {}
        """By node."""
        self._allocated: set[_Gpu] = set()
        self._claimed: dict[str, set[_Gpu]] = {}
        """By the uid of the pod for which the claim is reserved."""
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
            allocated = {gpus[key] for key in keys if key in gpus}
            self._allocated |= allocated
            for user in claim["status"].get("reservedFor") or ():
                self._claimed.setdefault(str(user.get("uid")), set()).update(allocated)

    def on(self, node: str) -> dict[str, dict[str, int]]:
        """How many GPUs of each driver the node has, in all, allocated and free."""
        offered = self._offered.get(node, set())
        total = Counter([gpu.driver for gpu in offered])
        allocated = Counter([gpu.driver for gpu in offered & self._allocated])
        return {
            driver: {"total": count, "allocated": allocated[driver], "promised": 0, "free": count - allocated[driver]}
            for driver, count in sorted(total.items())
        }

    def of(self, pod: Pod) -> dict[str, int]:
        """How many GPUs of each driver are allocated to the claims of a pod. A claim that pods share counts for each."""
        gpus = self._claimed.get(str(pod["metadata"].get("uid")), ())
        return dict(sorted(Counter([gpu.driver for gpu in gpus]).items()))


def newest(slices: list[Object]) -> Iterator[Mapping[str, Any]]:
    """The specs of the newest generation of each pool: a driver writes new slices before it deletes the old ones."""
    newest_of: dict[tuple[str, str], int] = {}
    for obj in slices:
        pool, generation = _pool_and_generation(obj["spec"])
        newest_of[pool] = max(generation, newest_of.get(pool, 0))
    for obj in slices:
        pool, generation = _pool_and_generation(obj["spec"])
        if generation == newest_of[pool]:
            yield obj["spec"]


def _pool_and_generation(spec: Mapping[str, Any]) -> tuple[tuple[str, str], int]:
    pool = spec.get("pool") or {}
    return (str(spec.get("driver")), str(pool.get("name"))), int(pool.get("generation") or 0)


def _gpu(spec: Mapping[str, Any], device: Mapping[str, Any]) -> _Gpu:
    counters = next(iter(device.get("consumesCounters") or ()), None)
    name = f"counters {counters.get('counterSet')}" if counters else str(device["name"])
    return _Gpu(str(spec["driver"]), str((spec.get("pool") or {}).get("name")), name)


def _results(claim: Object) -> Iterator[Mapping[str, Any]]:
    allocation = claim["status"].get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if not result.get("adminAccess"):
            yield result

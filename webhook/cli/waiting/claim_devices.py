"""Counts the devices that match the requests of ResourceClaims (DRA), by node: how many match at all, and how many are free.

k8s.io/dynamic-resource-allocation/structured. A device matches if all CEL expressions of its class and of the request are true.
Whether it can be had is not known if an expression cannot be evaluated, or if it is a part of a GPU of which others have parts.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.cli.cluster.snapshot import Object
from webhook.cli.waiting.situation import Situation
from webhook.cli.waiting.volumes import selected
from webhook.cluster.taint_rules import taint_of
from webhook.kube.device_selectors import Facts, Selector, facts_of


class Wanted(NamedTuple):
    """What one request, or one of its alternatives, asks for."""

    device_class: str
    number: int
    selectors: tuple[str, ...]
    """CEL of the class and of the request."""
    tolerates: bool = False
    """It has tolerations of device taints."""
    alike: str = ""
    """An attribute that must be equal for all of its devices."""
    apart: str = ""
    """An attribute that no two of its devices may have in common."""


class Counts(NamedTuple):
    """Numbers of devices by node."""

    match: Counter[str]
    free: Counter[str]
    """Of those that match."""
    unknown: Counter[str]
    """Those that are free, if they match."""
    taints: dict[str, set[str]]
    """By node the taints of those that would match."""


class _Offered(NamedTuple):
    facts: Facts | None
    """None: Kubernetes cannot read the device."""
    nodes: tuple[str, ...]
    free: bool
    shared: bool
    """It draws on counters of which others have a part."""
    taints: frozenset[str]
    """The keys of its taints."""


def requests(s: Situation, claim: Object) -> Iterator[tuple[Wanted, ...]]:
    """The alternatives of each request of a claim that needs free devices."""
    devices = claim["spec"].get("devices") or {}
    constraints = devices.get("constraints") or ()
    for request in devices.get("requests") or ():
        name = request.get("name")
        own = [each for each in constraints if name in (each.get("requests") or [name])]
        alike, apart = (
            next((str(each[key]) for each in own if each.get(key)), "")
            for key in ("matchAttribute", "distinctAttribute")
        )
        given = request.get("firstAvailable") or [request.get("exactly") or request]
        if found := tuple([_wanted(s, each)._replace(alike=alike, apart=apart) for each in given if _counts(each)]):
            yield found


def _counts(request: Mapping[str, Any]) -> bool:
    return bool(request.get("deviceClassName")) and not request.get("adminAccess")


def _wanted(s: Situation, request: Mapping[str, Any]) -> Wanted:
    name = str(request["deviceClassName"])
    own = _expressions(request.get("selectors"))
    number = 1 if request.get("allocationMode") == "All" else int(request.get("count") or 1)
    return Wanted(name, number, class_selectors(s, name) + own, bool(request.get("tolerations")))


def class_selectors(s: Situation, name: str) -> tuple[str, ...]:
    device_class = s.snapshot.named("DeviceClass").get(("", name)) or {"spec": {}}
    return _expressions(device_class["spec"].get("selectors"))


def _expressions(selectors: Iterable[Mapping[str, Any]] | None) -> tuple[str, ...]:
    return tuple([str((each.get("cel") or {}).get("expression") or "") for each in selectors or ()])


_selector = lru_cache(maxsize=512)(Selector)


def counts(s: Situation, wanted: Wanted) -> Counts:
    """How many devices match what is wanted. Kept with the situation."""
    key = wanted._replace(device_class="", number=0)
    if key not in s.device_counts:
        s.device_counts[key] = _counted(s, wanted)
    found: Counts = s.device_counts[key]
    return found


def by_row(s: Situation, wanted: Wanted) -> tuple[NDArray[np.int64], ...]:
    """The devices of `counts` that match, that are free, and that are free if they match, by the row of their node."""
    key = "rows", wanted._replace(device_class="", number=0)
    if key not in s.device_counts:
        found, names = counts(s, wanted), s.names[: len(s.alive)]
        numbers = (found.match, found.free, found.unknown)
        s.device_counts[key] = tuple([np.array([of[name] for name in names], np.int64) for of in numbers])
    rows: tuple[NDArray[np.int64], ...] = s.device_counts[key]
    return rows


def _counted(s: Situation, wanted: Wanted) -> Counts:
    match, free, unknown = Counter[tuple[str, Any]](), Counter[tuple[str, Any]](), Counter[str]()
    taints = dict[str, set[str]]()
    compiled = [_selector(text) for text in wanted.selectors]
    for device in _devices(s):
        if device.facts is None:
            continue
        results = {each.matches(device.facts) for each in compiled}
        if False in results:
            continue
        if device.taints and not wanted.tolerates:
            for node in device.nodes:
                taints.setdefault(node, set()).update(device.taints)
            continue
        alike = tuple([device.facts.attributes.get(name) if name else None for name in (wanted.alike, wanted.apart)])
        match.update([(node, alike) for node in device.nodes])
        if device.free and (None in results or device.shared):
            unknown.update(device.nodes)
        elif device.free:
            free.update([(node, alike) for node in device.nodes])
    return Counts(_best(match, wanted), _best(free, wanted), unknown, taints)


def _best(numbers: Counter[tuple[str, Any]], wanted: Wanted) -> Counter[str]:
    """By node the largest group of devices that may be together. `numbers`: by node and by what is compared."""
    groups, best = Counter[tuple[str, Any]](), Counter[str]()
    for (node, (alike, apart)), number in numbers.items():
        groups[node, alike] += 1 if wanted.apart and apart is not None else 0 if wanted.apart else number
    for (node, _), number in groups.items():
        best[node] = max(best[node], number)
    return best


def _devices(s: Situation) -> list[_Offered]:
    if not s.offered:
        s.offered.extend(_read(s))
    return s.offered


def _read(s: Situation) -> Iterator[_Offered]:
    """All devices. What a claim has with adminAccess stays free for others (allocatedState in the allocator)."""
    taken = {
        (result["driver"], result["pool"], result["device"])
        for claim in s.snapshot.of("ResourceClaim")
        for result in ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
        if not result.get("adminAccess")
    }
    slices, rules = list(newest(s.snapshot.of("ResourceSlice"))), s.snapshot.state.slices.taint_rules
    drawn = {
        (spec["driver"], spec["pool"]["name"], each.get("counterSet"))
        for spec in slices
        for device in spec.get("devices") or ()
        if (spec["driver"], spec["pool"]["name"], device["name"]) in taken
        for each in device.get("consumesCounters") or ()
    }
    for spec in slices:
        pool = spec["driver"], spec["pool"]["name"]
        for device in spec.get("devices") or ():
            counters = [(*pool, each.get("counterSet")) for each in device.get("consumesCounters") or ()]
            own = map(taint_of, device.get("taints") or ())
            yield _Offered(
                _facts(spec["driver"], device),
                tuple(_nodes(s, device if spec.get("perDeviceNodeSelection") else spec)),
                bool(device.get("allowMultipleAllocations")) or (*pool, device["name"]) not in taken,
                not drawn.isdisjoint(counters),
                frozenset([taint.key for taint in (*own, *rules.of(*pool, device["name"])) if taint]),
            )


def _facts(driver: str, device: Mapping[str, Any]) -> Facts | None:
    try:
        return facts_of(driver, device)
    except ValueError:
        return None


def _nodes(s: Situation, offered_to: Mapping[str, Any]) -> Iterable[str]:
    """The nodes to which a slice, or one device of it, belongs."""
    if name := offered_to.get("nodeName"):
        return [name]
    mask = s.alive if offered_to.get("allNodes") else s.alive & selected(s, offered_to.get("nodeSelector") or {})
    return [s.names[row] for row in np.flatnonzero(mask)]


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


def has(s: Situation, device_class: str, names: Iterable[str]) -> list[str]:
    """The pods for which claims with devices of this class on these nodes are reserved."""
    if not s.reserved:
        s.reserved.extend(_reserved(s))
        specs = newest(s.snapshot.of("ResourceSlice"))
        s.pools.extend([((spec["driver"], spec["pool"]["name"]), set(_nodes(s, spec))) for spec in specs])
    at = set(names)
    pools = {pool for pool, there in s.pools if not at.isdisjoint(there)}
    of = [users for classes, places, users in s.reserved if device_class in classes and not pools.isdisjoint(places)]
    return sorted(set().union(*of))


def _reserved(s: Situation) -> Iterator[tuple[set[str], set[tuple[str, str]], list[str]]]:
    """Of each allocated claim its device classes, the pools of its devices, and the pods for which it is reserved."""
    for claim in s.snapshot.of("ResourceClaim"):
        allocated = ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
        if allocated and (users := claim["status"].get("reservedFor")):
            classes = {each.device_class for alternatives in requests(s, claim) for each in alternatives}
            names = [f"{user.get('name')} in {claim['metadata']['namespace']}" for user in users]
            yield classes, {(each["driver"], each["pool"]) for each in allocated}, names

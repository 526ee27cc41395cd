"""Counts the devices that match the requests of ResourceClaims (DRA), by node: how many match at all, and how many are free.

k8s.io/dynamic-resource-allocation/structured. A device matches if all CEL expressions of its class and of the request are true.
Whether it can be had is not known if an expression cannot be evaluated, or if it is a part of a GPU of which others have parts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from webhook.cli.cluster.snapshot import Object
from webhook.cli.waiting.situation import Situation
from webhook.cli.waiting.volumes import selected
from webhook.cluster.claims import selectors_of
from webhook.cluster.node_table import Integers
from webhook.cluster.taint_rules import taint_of
from webhook.kube.device_selectors import Facts, Selector, facts_of
from webhook.placement.constraints import Mask


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
    """Numbers of devices by the row of their node."""

    match: Integers
    free: Integers
    """Of those that match."""
    unknown: Integers
    """Those that are free, if they match."""
    taints: dict[int, set[str]]
    """By row the taints of those that would match."""


class _Offered(NamedTuple):
    facts: Facts
    rows: list[int]
    """Of its nodes."""
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
    number = 1 if request.get("allocationMode") == "All" else int(request.get("count") or 1)
    return Wanted(name, number, class_selectors(s, name) + selectors_of(request), bool(request.get("tolerations")))


def class_selectors(s: Situation, name: str) -> tuple[str, ...]:
    return s.snapshot.state.device_demands.class_selectors(name) or ()


_selector = lru_cache(maxsize=512)(Selector)


def counts(s: Situation, wanted: Wanted) -> Counts:
    """How many devices match what is wanted. Kept with the situation."""
    key = wanted._replace(device_class="", number=0)
    found: Counts = s.kept(key, lambda: _counted(s, wanted))
    return found


def _counted(s: Situation, wanted: Wanted) -> Counts:
    match, free, unknown = Counter[tuple[int, Any]](), Counter[tuple[int, Any]](), np.zeros(len(s.alive), np.int64)
    taints = dict[int, set[str]]()
    compiled = [_selector(text) for text in wanted.selectors]
    for device in s.kept("devices", lambda: list(_read(s))):
        results = {each.matches(device.facts) for each in compiled}
        if False in results:
            continue
        if device.taints and not wanted.tolerates:
            for row in device.rows:
                taints.setdefault(row, set()).update(device.taints)
            continue
        alike = tuple([device.facts.attributes.get(name) if name else None for name in (wanted.alike, wanted.apart)])
        match.update([(row, alike) for row in device.rows])
        if device.free and (None in results or device.shared):
            unknown[device.rows] += 1
        elif device.free:
            free.update([(row, alike) for row in device.rows])
    return Counts(_best(match, wanted, len(s.alive)), _best(free, wanted, len(s.alive)), unknown, taints)


def _best(numbers: Counter[tuple[int, Any]], wanted: Wanted, rows: int) -> Integers:
    """By row the largest group of devices that may be together. `numbers`: by row and by what is compared."""
    groups, best = Counter[tuple[int, Any]](), np.zeros(rows, np.int64)
    for (row, (alike, apart)), number in numbers.items():
        groups[row, alike] += 1 if wanted.apart and apart is not None else 0 if wanted.apart else number
    for (row, _), number in groups.items():
        best[row] = max(best[row], number)
    return best


def _read(s: Situation) -> Iterator[_Offered]:
    """The devices that Kubernetes can read. What a claim has with adminAccess stays free for others (allocatedState)."""
    taken = {
        (result["driver"], result["pool"], result["device"])
        for claim in s.snapshot.of("ResourceClaim")
        for result in ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
        if not result.get("adminAccess")
    }
    usable, rules = s.snapshot.state.slices.usable, s.snapshot.state.slices.taint_rules
    slices = [spec for spec in _newest(s) if usable((spec["driver"], spec["pool"]["name"]))]
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
            try:
                facts = facts_of(spec["driver"], device)
            except ValueError:
                continue
            counters = [(*pool, each.get("counterSet")) for each in device.get("consumesCounters") or ()]
            own = map(taint_of, device.get("taints") or ())
            yield _Offered(
                facts,
                _rows(s, device if spec.get("perDeviceNodeSelection") else spec),
                bool(device.get("allowMultipleAllocations")) or (*pool, device["name"]) not in taken,
                not drawn.isdisjoint(counters),
                frozenset([taint.key for taint in (*own, *rules.of(*pool, device["name"])) if taint]),
            )


def _rows(s: Situation, offered_to: Mapping[str, Any]) -> list[int]:
    """The rows of the nodes to which a slice, or one device of it, belongs."""
    if name := offered_to.get("nodeName"):
        return [s.nodes.row_of[name]] if name in s.nodes.row_of else []
    mask = s.alive if offered_to.get("allNodes") else s.alive & selected(s, offered_to.get("nodeSelector") or {})
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows


def _newest(s: Situation) -> list[Mapping[str, Any]]:
    """The specs of the newest generation of each pool: a driver writes new slices before it deletes the old ones."""
    pools: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for spec in [obj["spec"] for obj in s.snapshot.of("ResourceSlice")]:
        pool = spec.get("pool") or {}
        generations = pools.setdefault((str(spec.get("driver")), str(pool.get("name"))), {})
        generations.setdefault(int(pool.get("generation") or 0), []).append(spec)
    return [spec for generations in pools.values() for spec in generations[max(generations)]]


def has(s: Situation, device_class: str, nodes: Mask) -> list[str]:
    """The pods for which claims with devices of this class on these nodes are reserved."""
    pools = {pool for pool, rows in s.kept("pools", lambda: list(_pools(s))) if nodes[rows].any()}
    reserved = s.kept("reserved", lambda: list(_reserved(s)))
    of = [users for classes, places, users in reserved if device_class in classes and not pools.isdisjoint(places)]
    return sorted(set().union(*of))


def _pools(s: Situation) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """The pool of each slice with the rows of its nodes."""
    for spec in _newest(s):
        yield (spec["driver"], spec["pool"]["name"]), _rows(s, spec)


def _reserved(s: Situation) -> Iterator[tuple[set[str], set[tuple[str, str]], list[str]]]:
    """Of each allocated claim its device classes, the pools of its devices, and the pods for which it is reserved."""
    for claim in s.snapshot.of("ResourceClaim"):
        allocated = ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
        if allocated and (users := claim["status"].get("reservedFor")):
            classes = {each.device_class for alternatives in requests(s, claim) for each in alternatives}
            names = [f"{user.get('name')} in {claim['metadata']['namespace']}" for user in users]
            yield classes, {(each["driver"], each["pool"]) for each in allocated}, names

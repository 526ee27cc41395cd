"""Checks ResourceClaims (DRA): whether they exist, and which nodes have the devices for them.

k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources. Of the CEL in selectors only a comparison of the driver is
evaluated.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from webhook.cli.cluster.devices import newest
from webhook.cli.cluster.snapshot import Object
from webhook.cli.waiting.situation import Case, Cause, NodeCheck, Situation
from webhook.cli.waiting.volumes import selected
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, plural

_DRIVER: Final = re.compile(r"device\.driver\s*==\s*[\"']([^\"']+)[\"']")
_MAX_USERS: Final = 256
"""Maximum number of pods that share a claim (resource.k8s.io/v1 ResourceClaimReservedForMaxSize)."""


def missing(case: Case) -> Iterator[Cause]:
    """Claims for which the scheduler looks at no node."""
    s = case.situation
    for entry, claim_name in _entries(case):
        template = entry.get("resourceClaimTemplateName")
        if claim_name is None and template:
            templates = s.snapshot.named("ResourceClaimTemplate")
            if (case.namespace, template) not in templates and "ResourceClaimTemplate" not in s.snapshot.missing:
                yield from case.absent("claimTemplateMissing", "ResourceClaimTemplate", template)
            else:
                text = f"no ResourceClaim was made of template {bare(template)} yet"
                fix = f"see kubectl describe pod -n {case.namespace} {bare(case.pod['metadata']['name'])}"
                yield Cause("claimMissing", text, fix)
            continue
        claim = s.snapshot.named("ResourceClaim").get((case.namespace, str(claim_name)))
        if claim is None:
            yield from case.absent("claimMissing", "ResourceClaim", str(claim_name))
            continue
        classes = {name for _, name in s.snapshot.named("DeviceClass")}
        for name in sorted({name for name, _ in _requests(claim)} - classes):
            yield from case.absent("deviceClassMissing", "DeviceClass", name, f" (claim {bare(str(claim_name))})")
        if len(claim["status"].get("reservedFor") or ()) >= _MAX_USERS:
            text = f"ResourceClaim {bare(str(claim_name))} is used by {_MAX_USERS} pods, the most that can"
            yield Cause("claimInUse", text, "use another claim")


def devices(case: Case) -> NodeCheck:
    """Nodes without enough free devices for the pod's claims, or without the devices that are allocated to them."""
    s, few = case.situation, np.zeros_like(case.situation.alive)
    shortages, away = list[str](), dict[str, Mask]()
    for _, name in _entries(case):
        claim = s.snapshot.named("ResourceClaim").get((case.namespace, str(name)))
        if claim is None:
            continue
        if allocation := claim["status"].get("allocation"):
            away[f"claim {bare(str(name))}"] = ~selected(s, allocation.get("nodeSelector"))
            continue
        wanted: Counter[str] = Counter()
        for class_name, count in _requests(claim):
            wanted[_driver(s, class_name)] += count
        for driver, count in wanted.items():
            few |= _too_few(s, driver, count, f"claim {bare(str(name))}", shortages)
    for resource, class_name in case.device_class_of.items():
        count, plugin = case.demand.amount(resource), s.capacity.get(resource, np.zeros(len(s.alive))) > 0
        few |= _too_few(s, _driver(s, class_name), count, bare(resource), shortages) & ~plugin
    fails = np.any([few, *away.values()], axis=0)

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        if (off := mask & few).any():
            text = f"{listed(shortages)}: not on {s.where(off)}"
            fix = "ask for fewer devices, wait for a claim to be released, or repair the driver there: kubectl get resourceslices"
            yield s.cause("noDevice", text, fix, off, alone)
        for who, elsewhere in away.items():
            if (off := mask & ~few & elsewhere).any():
                there = s.where(s.alive & ~elsewhere)
                text = f"the devices of {who} are on {there}, not on {s.where(off)}"
                fix = f"make room on {there}, or use a claim of its own: a ResourceClaimTemplate makes one for each pod"
                yield s.cause("claimElsewhere", text, fix, off, np.zeros_like(off))  # room on other nodes than these

    return NodeCheck(s.alive & fails, explain)


def elsewhere(case: Case) -> Mask:
    """Nodes that cannot reach the devices that are allocated to the pod's claims."""
    s, away = case.situation, np.zeros_like(case.situation.alive)
    for _, name in _entries(case):
        claim = s.snapshot.named("ResourceClaim").get((case.namespace, str(name))) or {"status": {}}
        if allocation := claim["status"].get("allocation"):
            away |= ~selected(s, allocation.get("nodeSelector"))
    return away


def _too_few(s: Situation, driver: str, count: int, who: str, shortages: list[str]) -> Mask:
    """The nodes with fewer than `count` free devices of the driver. Adds a sentence to `shortages`."""
    free = _free(s)
    by_node = free.get(driver, Counter()) if driver else sum(free.values(), Counter())
    max_free, of = max(by_node.values(), default=0), bare(driver or "any driver")
    shortages.append(f"{who}: {plural(count, 'device')} of {of} wanted, at most {max_free} free on a node")
    return np.array([by_node[name] < count for name in s.names[: len(s.alive)]], bool)


def _entries(case: Case) -> Iterator[tuple[Object, str | None]]:
    """Each entry of spec.resourceClaims with the name of its claim; None if the claim does not exist yet."""
    claim_names = {
        status["name"]: status.get("resourceClaimName")
        for status in case.pod["status"].get("resourceClaimStatuses") or ()
    }
    for entry in case.pod["spec"].get("resourceClaims") or ():
        if entry["name"] in claim_names and claim_names[entry["name"]] is None:
            continue  # its template makes no claim
        yield entry, entry.get("resourceClaimName") or claim_names.get(entry["name"])


def _requests(claim: Object) -> Iterator[tuple[str, int]]:
    """The device class of each request, and how many free devices it needs; of alternatives, the first."""
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        exact = request.get("exactly") or next(iter(request.get("firstAvailable") or ()), None) or request
        if name := exact.get("deviceClassName"):
            yield name, 0 if exact.get("adminAccess") else int(exact.get("count") or 1)


def _driver(s: Situation, class_name: str) -> str:
    """The driver that the CEL of a device class selects; "" if it selects none."""
    device_class = s.snapshot.named("DeviceClass").get(("", class_name)) or {"spec": {}}
    expressions = [
        (selector.get("cel") or {}).get("expression") or "" for selector in device_class["spec"].get("selectors") or ()
    ]
    return next((match[1] for text in expressions if (match := _DRIVER.search(text))), "")


def _free(s: Situation) -> dict[str, Counter[str]]:
    """How many devices a claim could get, by driver and node: those that no claim has, and those that claims share.

    What a claim has with adminAccess stays free for others (allocatedState in k8s.io/dynamic-resource-allocation).
    """
    taken = {
        (result["driver"], result["pool"], result["device"])
        for claim in s.snapshot.of("ResourceClaim")
        for result in ((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ()
        if not result.get("adminAccess")
    }
    by_driver: dict[str, Counter[str]] = {}
    for spec in newest(s.snapshot.of("ResourceSlice")):
        for device in spec.get("devices") or ():
            if (
                device.get("allowMultipleAllocations")
                or (spec["driver"], spec["pool"]["name"], device["name"]) not in taken
            ):
                offered_to = device if spec.get("perDeviceNodeSelection") else spec
                by_driver.setdefault(spec["driver"], Counter()).update(_nodes(s, offered_to))
    return by_driver


def _nodes(s: Situation, offered_to: Mapping[str, Any]) -> Iterable[str]:
    """The nodes to which a slice, or one device of it, belongs."""
    if name := offered_to.get("nodeName"):
        return [name]
    mask = s.alive if offered_to.get("allNodes") else s.alive & selected(s, offered_to.get("nodeSelector") or {})
    return [s.names[row] for row in np.flatnonzero(mask)]

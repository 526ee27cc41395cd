"""The causes for nodes that do not offer a resource that the pod requests: none does, or these offer another one, or no GPU."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from webhook.kube.gpus import labelled_count, vendor
from webhook.kube.other_gpus import RESOURCES
from webhook.kube.pod import Pod
from webhook.nodes.nodes import installed_on
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, matches, nearest
from webhook.vendors.catalogue import sharing
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix
from webhook.whatif.waiting.nodes import unselected
from webhook.whatif.waiting.situation import Case, with_spec


def unknown(case: Case, name: str, mask: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for a resource that no node offers."""
    s = case.situation
    offered = [n for n, capacity in s.capacity.items() if "/" in n and capacity[s.alive].any()]
    offered.sort(key=lambda each: (vendor(each) != vendor(name), each))
    silent = mask & np.array([gpus is None for gpus in s.gpus_at[: len(mask)]], bool) & ~_of_others(case, name, mask)
    if silent.any() and s.policy.gpus.kind(name) is not None:
        yield from _silent(case, name, silent, alone & silent)
        if not (mask := mask & ~silent).any():
            return
    reachable = s.alive & ~unselected(case)
    here = [each for each in offered if s.capacity[each][reachable].any()] or offered
    near = nearest(name, here) or next((each for each in here if vendor(each) == vendor(name)), None)
    offers = f"; they offer {listed(map(bare, offered)) or 'no extended resource at all'}" if "/" in name else ""
    text = f"no node offers {bare(name)}{offers}"
    if any(matches(pattern, name) for pattern in RESOURCES):
        of = sharing(name) or "what serves it"
        fixes: tuple[Fix | str, ...] = (
            Fix(f"leave {bare(name)} out of the container", pod=_asking(case.pod, None, name)),
        )
        fixes = *fixes, f"install {of}, by whose scheduler it is counted"
    elif near:
        other = vendor(near) != vendor(name) and None not in map(s.policy.gpus.kind, (near, name))
        words = f"ask for {bare(near)} in place of {bare(name)}{', if its image is for these GPUs' if other else ''}"
        if s.policy.gpus.kind(name) == "whole" and (parts := s.parts(s.alive, near)):
            words = f"{words}: these are {parts}"
        fixes = (Fix(words, pod=_asking(case.pod, near, name)),)
    else:
        fixes = (f"install what offers {bare(name)}", "add nodes that have it")
    yield s.cause("unknownResource", text, mask, alone, *fixes)


def _asking(pod: Pod, resource: str | None, in_place_of: str) -> Pod:
    """The pod that asks for one resource in place of another, in the same amounts; None: for nothing in place of it."""

    def changed(container: Mapping[str, Any]) -> dict[str, Any]:
        given = container.get("resources") or {}
        parts = {
            part: {
                (resource or name) if name == in_place_of else name: quantity
                for name, quantity in each.items()
                if resource or name != in_place_of
            }
            for part in ("limits", "requests")
            if (each := given.get(part))
        }
        return {**container, "resources": {**given, **parts}}

    lists = {kind: [changed(each) for each in pod["spec"].get(kind) or ()] for kind in ("initContainers", "containers")}
    return with_spec(pod, **lists)


def without(case: Case, name: str, mask: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for nodes that offer none of a GPU resource: their device plugin offers nothing or another one, or no GPU."""
    s, of_others = case.situation, _of_others(case, name, mask)
    rows_with: dict[tuple[tuple[str, ...] | None, str], list[int]] = {}
    for row in np.flatnonzero(mask).tolist():
        gpus = () if of_others[row] else s.gpus_at[row]
        kinds = {
            of: s.policy.gpus.kind(of)
            for of in gpus or ()
            if s.nodes.one_of(s.nodes.columns.name[row], of).kind == "whole"
        }
        rows_with.setdefault((gpus, next((of for of, kind in kinds.items() if kind == "whole"), "")), []).append(row)
    for (gpus, whole), at in rows_with.items():
        rows = np.zeros_like(mask)
        rows[at] = True
        if gpus is None:
            yield from _silent(case, name, rows, alone)
        elif gpus:
            text = f"{s.where(rows)}: {listed(map(bare, gpus))} in place of {bare(name)}"
            fix = (
                f"ask for {f'{bare(whole)}, a whole one' if whole else f'{bare(gpus[0])} if a part of a GPU is enough'}"
            )
            one = case.pod_requests.amount(name) == 1  # of several GPUs, one part is not nearly as much
            fixed = Fix(fix, pod=_asking(case.pod, whole or gpus[0], name) if one else None)
            yield s.cause("otherGpuResource", text, rows, alone & one, fixed)
        else:
            text = f"{s.where(rows)}: no {bare(name)}"
            fix = "nothing: they are for other pods"
            if case.daemon:
                fix = f"leave these nodes out, by the nodeSelector in the template of {bare(s.names_of.top(case.pod))}"
            yield Cause.of("noGpus", text, fix, nodes=s.named(rows))


def _of_others(case: Case, name: str, mask: Mask) -> Mask:
    """The nodes that offer no GPU now, and have installed those of other vendors only."""
    s, found = case.situation, np.zeros_like(mask)
    for row in np.flatnonzero(mask).tolist():
        if s.gpus_at[row] is None:
            installed = installed_on(s.snapshot.nodes[s.nodes.columns.name[row]])
            vendors = {vendor(each) for each, amount in installed.items() if amount and s.policy.gpus.knows(each)}
            found[row] = bool(vendors) and vendor(name) not in vendors
    return found


def _silent(case: Case, name: str, rows: Mask, alone: Mask) -> Iterator[Cause]:
    """The causes for nodes with GPUs by their labels, and none of a device plugin: they have them another way, or not at all.
    Nothing else excludes those whose label has the number of GPUs."""
    s, asked = case.situation, case.pod_requests.amount(name)
    drivers = {row: s.devices.gpus(row) for row in np.flatnonzero(rows).tolist()}
    by_other = np.zeros_like(rows)
    by_other[[row for row, of in drivers.items() if of]] = True
    if by_other.any():
        names = sorted({driver for of in drivers.values() for driver in of})
        by_claim = any("/" not in driver for driver in names)  # other sources are called as resources
        fix = Fix("ask as what shares them wants it")
        if by_claim:
            fix = Fix("claim them in spec.resourceClaims", kubectl("get", "deviceclasses"))
        text = f"{s.where(by_other)}: {listed(map(bare, names))} in place of {bare(name)}"
        yield s.cause("otherGpuResource", text, by_other, np.zeros_like(by_other), fix)
    if not (rows := rows & ~by_other).any():
        return
    offered = s.snapshot.nodes[s.named(rows)[0]]["status"].get("capacity") or {}
    text = f"{s.where(rows)}: GPUs by the labels, but the device plugin offers none"
    if (has := str(offered.get(name, "0"))) != "0":
        why = "the device plugin calls all unhealthy, or has gone"
        text = f"{s.where(rows)}: of {bare(has)} {bare(name)} none is allocatable: {why}"
    look = kubectl("get", "pods", "-A", "-o", "wide", "--field-selector", f"spec.nodeName={s.named(rows)[0]}")
    enough = alone.copy()
    for row in np.flatnonzero(alone).tolist():
        enough[row] = labelled_count(s.nodes.labels.get(row)) >= asked
    yield s.cause("devicePluginMissing", text, rows, enough, Fix("look at the device plugin there", look))

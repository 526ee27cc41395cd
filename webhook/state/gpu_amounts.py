"""Counts the GPUs of each node, each of them once: for the metrics, the commands and the page.

GPUs of a device plugin have the name of their resource. GPUs that the device table knows one by one have the name of their
driver. A part of one is a fraction: what it takes of the scarcest of memory, cores and the like. Where several tell of the same
GPUs, they count once:

- A scheduler of parts of GPUs, as HAMi, also offers them as a number of slots. The slots do not count.
- A node whose device plugin offers GPUs may have slices of the same GPUs. What claims have of these counts under their driver,
  the rest under the resource. They are other GPUs if the node has as many by its label as both offer together.
- What a pod asks for as a resource, and gets as a claim, counts as the claim.
- A GPU that a pod of KAI reserves counts as what the pods of its group have of it, and not as one of the device plugin.
"""

from collections.abc import Hashable, Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.devices.layout import Amounts, Layout, NodeDevices
from webhook.devices.source_kai import KAI
from webhook.devices.sources import SOURCES
from webhook.devices.types import DRA, WHOLE
from webhook.kube.gpus import SILICON, Gpus, is_same_vendor, labelled_count
from webhook.nodes.nodes import UNKNOWN_AMOUNT
from webhook.nodes.table import Floats
from webhook.state.state import ClusterState

_SLOTS: Final = {source.name: source.resource for source in SOURCES}


class GpuAmounts(NamedTuple):
    """GPUs of one resource or driver, by row of the node table."""

    offered: Floats
    installed: Floats
    """With those that the node has and does not offer."""
    allocated: Floats
    promised: Floats
    """Reserved for pods that are not bound, or whose claims are not allocated yet. What they get when others end is left out."""

    @property
    def free(self) -> Floats:
        left: Floats = np.maximum(self.offered - self.allocated - self.promised, 0)
        return left


class Models(NamedTuple):
    """The GPU model of each node: by its label, else by what the driver tells of its devices."""

    names: list[str]
    """"": not known."""
    number: NDArray[np.int32]
    """By row, the place in `names`."""


class Part(NamedTuple):
    """What one holder has of the devices of a node."""

    row: int
    source: str
    holder: Hashable
    """Namespace and name of a claim; of other sources than DRA the uid of a pod."""
    gpus: dict[str, float]
    """By driver."""


def gpu_amounts(state: ClusterState, gpus: Gpus, *, claims_known: bool = True) -> dict[str, GpuAmounts]:
    """By resource and by driver. Without the claims of the cluster it is not known what is free of the devices of DRA: they are
    counted only if nobody asks for that (`claims_known` is False)."""
    columns, size = state.nodes.columns, state.nodes.columns.size
    found = {}
    for name in gpus.among(columns.capacity):
        offered = columns.capacity[name].astype(np.float64)
        installed = np.where(columns.installed[name] == UNKNOWN_AMOUNT, 0, columns.installed[name])
        found[name] = GpuAmounts(offered, np.maximum(installed, offered), np.zeros(size), np.zeros(size))
    for (_, name), by_row in state.holdings.items():
        if name in found:
            found[name].allocated[list(by_row)] += list(by_row.values())
    for row, kind in state.promised():
        for name, amount in kind.gpus:
            if name in found:
                found[name].promised[row] += amount
    _of_one_silicon(found)
    for each in found.values():
        np.minimum(each.promised, np.maximum(each.installed - each.allocated, 0), out=each.promised)
        each.allocated[~columns.alive] = each.promised[~columns.alive] = 0
    resources, listed = list(found), not claims_known or "resourceclaims" in state.freshness.listed
    for row, node, layout, left in state.nodes.devices.published():
        counted = layout.drivers if listed else [driver for driver in layout.drivers if driver in _SLOTS]
        for driver in counted:
            of = found.setdefault(driver, GpuAmounts(*[np.zeros(size) for _ in GpuAmounts._fields]))
            total, unheld, free = (
                layout.free(driver, each) / WHOLE for each in (layout.totals, _without_held(node, layout, left), left)
            )
            of.offered[row] = of.installed[row] = total
            of.allocated[row], of.promised[row] = total - unheld, max(0.0, unheld - free)
        _once(state, found, gpus, resources, row, layout)
    return found


def _of_one_silicon(found: dict[str, GpuAmounts]) -> None:
    """What pods have of devices that several resources hand out counts for each of these, in its own units."""
    for whole, *parts in {SILICON[name] for name in found if name in SILICON}:
        names = [name for name in (whole, *parts) if name in found]
        offered = {name: np.maximum(found[name].installed, 1) for name in names}
        for amounts in zip(*[(found[name].allocated, found[name].promised) for name in names], strict=True):
            share = sum([amount / offered[name] for name, amount in zip(names, amounts, strict=True)])
            for name, amount in zip(names, amounts, strict=True):
                amount[:] = np.where(found[name].installed > 0, share * offered[name], amount)


def _without_held(node: NodeDevices, layout: Layout, left: Amounts) -> Amounts:
    """What would be left if nothing were reserved."""
    return layout.used(node.all_placed()) if node.held else left


def _once(
    state: ClusterState, found: dict[str, GpuAmounts], gpus: Gpus, resources: list[str], row: int, layout: Layout
) -> None:
    """Count the GPUs of a node once that several tell of."""
    slots = {_SLOTS[name] for name in layout.sets if name != DRA}
    if KAI.name in layout.sets and KAI.whole in found:
        for whole in found[KAI.whole][:2]:
            whole[row] = max(0.0, whole[row] - len(layout.sets[KAI.name].devices))
    claimed = [driver for driver in layout.drivers if driver in found and driver not in _SLOTS]
    for name in resources:
        of = found[name]
        if name in slots or (claimed and not of.offered[row]):
            for each in of:
                each[row] = 0
        elif gpus.kind(name) == "whole":
            for driver in claimed:
                if is_same_vendor(name, driver):
                    _share_out(state, of, found[driver], row)


def _share_out(state: ClusterState, plugin: GpuAmounts, claims: GpuAmounts, row: int) -> None:
    by_label = labelled_count(state.nodes.labels.get(row))
    both = plugin.installed[row] + claims.offered[row]
    if by_label >= both:
        return
    taken = claims.allocated[row] + claims.promised[row]
    claims.offered[row] = claims.installed[row] = taken
    for part in (plugin.offered, plugin.installed):
        part[row] = max(0.0, part[row] - taken)


def models_of(state: ClusterState) -> Models:
    """The models of all nodes."""
    columns = state.nodes.columns
    found = Models(list(columns.models), columns.model.copy())
    for row, _, layout, _ in state.nodes.devices.published():
        if layout.model and not found.number[row]:
            if layout.model not in found.names:
                found.names.append(layout.model)
            found.number[row] = found.names.index(layout.model)
    return found


def parts(state: ClusterState) -> Iterator[Part]:
    """What each claim, and each pod with parts of GPUs, has. Parts of one GPU may take more together than is taken of it: one
    most of its memory, another most of its cores."""
    for row, node, layout, _ in state.nodes.devices.published():
        for (source, holder), uses in node.uses.items():
            taken = layout.taken(node.placed(source, uses))
            yield Part(row, source, holder, {driver: amount / WHOLE for driver, amount in taken.items()})


def gpu_number(amount: float) -> int | float:
    """An amount of GPUs as it is written: 3, 0.25."""
    rounded = round(float(amount), 3)
    return int(rounded) if rounded.is_integer() else rounded

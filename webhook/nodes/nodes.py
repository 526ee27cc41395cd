"""The nodes: reads Node objects (amounts, taints, conditions), and keeps the node table up to date with their events."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.devices.sources import SOURCES
from webhook.devices.table import DeviceTable
from webhook.devices.types import PUBLISHED, DeviceSet
from webhook.errors import QuantityError
from webhook.kube.gpus import (
    COUNT_LABELS,
    DIVIDED,
    GPU_KINDS,
    MODEL_LABELS,
    WHOLE_GPU,
    Gpus,
    One,
    is_same_vendor,
    one_on,
)
from webhook.kube.pod import HOSTNAME
from webhook.kube.pod_requests import PodRequests
from webhook.kube.quantity import milli, whole
from webhook.kube.taints import Taint, node_taints
from webhook.nodes.rejections import Rejections
from webhook.nodes.siblings import order_of, place_of
from webhook.nodes.table import Columns, Journal, Labels
from webhook.nodes.utilisation import UNKNOWN, NodeUse
from webhook.text import number_of

_MAX_AMOUNT = 2**53  # larger amounts are not real; sums of amounts up to this fit into int64
UNKNOWN_AMOUNT = _MAX_AMOUNT
"""The installed amount of a resource of which a node says 0."""
GENERAL = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every node has."""
_SPARE_STATUSES = 256
_STEPS = 20
"""Utilisation is kept in this many steps, so of 5 %: a smaller change does not score the node again."""
_DEGREES = 5
"""Temperature is kept in steps of so many degrees Celsius, for the same reason."""


class Status(NamedTuple):
    """Taints, conditions and cordon of a node. Most nodes of a cluster share a few of these values."""

    taints: tuple[Taint, ...] = ()
    conditions: frozenset[tuple[str, str]] = frozenset()
    """Type and status of each condition."""
    cordoned: bool = False


def status_of(node: Mapping[str, Any]) -> Status:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = [(str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ()]
    return Status(tuple(sorted(node_taints(node))), frozenset(conditions), bool(spec.get("unschedulable")))


def amounts_of(node: Mapping[str, Any], part: Literal["allocatable", "capacity"] = "allocatable") -> dict[str, int]:
    """The amounts of each resource: CPU in thousandths, all else in whole units. An unreadable quantity counts as 0."""
    amounts = {}
    for name, quantity in ((node.get("status") or {}).get(part) or {}).items():
        try:
            amounts[name] = min(_MAX_AMOUNT, milli(quantity) if name == "cpu" else whole(quantity))
        except QuantityError:
            amounts[name] = 0
    return amounts


def installed_on(node: Mapping[str, Any]) -> dict[str, int]:
    """How much of each extended resource the node may offer as it is: the larger of allocatable and capacity, since sick
    devices count in capacity only. Where both are 0 it is UNKNOWN_AMOUNT: the kubelet writes 0 while a device plugin is away. But
    not where the node offers something else of the same vendor: a plugin that renames shared GPUs, or slices them, leaves a 0.
    """
    allocatable, capacity = amounts_of(node, "allocatable"), amounts_of(node, "capacity")
    most = {
        name: max(allocatable.get(name, 0), capacity.get(name, 0)) for name in (*allocatable, *capacity) if "/" in name
    }
    offered = {name.partition("/")[0] for name, amount in most.items() if amount}
    return {
        name: amount or (0 if name.partition("/")[0] in offered else UNKNOWN_AMOUNT) for name, amount in most.items()
    }


class Nodes:
    """All nodes. `changes` names the rows that changed."""

    def __init__(self, sibling: str = "") -> None:
        self.columns = Columns()
        for resource in GENERAL:
            self.columns.add_resource(resource)
        self.labels = Labels()
        self.statuses: list[Status] = [Status()]
        """Statuses that nodes have or had; `columns.status` is an index into these."""
        self.renumbered = 0
        """Rises when `statuses` are numbered again."""
        self.row_of: dict[str, int] = {}
        self.dra: set[str] = set()
        """Names of nodes whose GPUs are listed in ResourceSlices."""
        self.provided: set[str] = set()
        """Names of nodes with `spec.providerID`: machines of a cloud or of a machine API, to which more may be added."""
        self.renamed: set[str] = set()
        """Names of nodes whose label kubernetes.io/hostname is another name, or missing."""
        self.metered = 0
        """Number of nodes with GPU metrics."""
        self.rejections = Rejections()
        self.count = 0
        """Number of nodes."""
        self.changes = Journal()
        self.siblings: tuple[str, ...] = ()
        """The siblings, between which the nodes are divided."""
        self._sibling = sibling
        self._status_numbers = {Status(): 0}
        self._ones: dict[str, dict[str, One]] = {}
        """By node and resource, what one of it is there, if that is no whole GPU."""
        self._free_rows: list[int] = []
        self._unordered = False
        self._undivided = False
        self._by_name: NDArray[np.intp] = np.zeros(0, np.intp)
        self.uses: dict[str, NodeUse] = {}
        """The GPU metrics of nodes by name, also of nodes that are not there yet."""
        self.devices = DeviceTable(self.columns, self.row_of, self._changed)

    def row(self, name: str) -> int:
        """The row of a node; a new one, which is not alive, if there is none."""
        if (known := self.row_of.get(name)) is not None:
            return known
        columns = self.columns
        if self._free_rows:
            row = self._free_rows.pop()
            columns.name[row] = name
        else:
            row = columns.rows
            if row == columns.size:
                columns.grow()
            columns.rows += 1
            columns.name.append(name)
        self.row_of[name] = row
        self._unordered = True
        columns.place[row] = place_of(name)
        return row

    def seen(self, node: Mapping[str, Any]) -> int:
        """A node was added or changed. Returns its row."""
        metadata, columns, status = node["metadata"], self.columns, status_of(node)
        labels = metadata.get("labels") or {}
        allocatable, installed = amounts_of(node), installed_on(node)
        provider = (node.get("spec") or {}).get("providerID")
        # A malformed object changes nothing: only the lines above may raise.
        row = self.row(metadata["name"])
        (self.provided.add if provider else self.provided.discard)(metadata["name"])
        (self.renamed.discard if labels.get(HOSTNAME) == metadata["name"] else self.renamed.add)(metadata["name"])
        changed = self.labels.put(row, labels) or not columns.alive[row]
        model = next((labels[key] for key in MODEL_LABELS if key in labels), "")
        if columns.models[columns.model[row]] != model:
            if model not in columns.models:
                columns.models.append(model)
            columns.model[row] = columns.models.index(model)
            self._undivided = True
        published = {each: found for each in SOURCES if (found := each.devices(node)) is not None}
        cards = {each.resource: (each, len(found.devices)) for each, found in published.items() if found.devices}
        ones = {name: one_on(name, "whole", labels, allocatable.get(name, 0)) for name in DIVIDED}
        for name in [name for name in DIVIDED if name in cards and ones[name].kind == "whole"]:
            source, count = cards[name]
            shares = max(2.0, allocatable.get(name, 0) / count)
            ones[name] = One("share", shares=shares, said=source.annotations[0], alone=True)
        if divided := {name: one for name, one in ones.items() if one.kind != "whole"}:
            self._ones[metadata["name"]] = divided
        else:
            self._ones.pop(metadata["name"], None)
        one = next(iter(divided.values()), WHOLE_GPU)
        columns.one[row], columns.slices[row], columns.sharing[row] = GPU_KINDS.index(one.kind), one.slices, one.shares
        if status != self.statuses[columns.status[row]]:
            columns.status[row] = self._status_number_of(status)
            changed = True
        if not columns.alive[row]:
            columns.alive[row] = self._undivided = True
            self.count += 1
            self._set_use(row, self.uses.get(metadata["name"], UNKNOWN))
            self.devices.refresh(metadata["name"], changed=True)
        for source, found in published.items():
            self.devices.publish(metadata["name"], source.name, found)
        if self._set_capacity(row, allocatable, installed) or changed:
            self._changed(row)
        return row

    def gone(self, name: str) -> None:
        """A node was deleted. Its row stays while pods are on it."""
        row = self.row_of.get(name)
        if row is None or not self.columns.alive[row]:
            return
        self._set_use(row, UNKNOWN)
        self.columns.alive[row], self._undivided = False, True
        self.provided.discard(name)
        self.renamed.discard(name)
        self.count -= 1
        self.labels.put(row, {})
        self.columns.status[row] = self.columns.model[row] = 0
        self.columns.one[row], self.columns.slices[row], self.columns.sharing[row] = 0, 1, 1
        self._ones.pop(name, None)
        self._set_capacity(row, {}, {})
        for source in SOURCES:
            self.devices.publish(name, source.name, DeviceSet())
        self.devices.refresh(name)
        self._changed(row)
        self.drop_if_unused(row)

    def labels_of(self, name: str) -> Mapping[str, str]:
        """The labels of a node; {} if it is not there."""
        row = self.row_of.get(name)
        return {} if row is None else self.labels.get(row)

    def one_of(self, name: str, resource: str) -> One:
        """What one of a resource is on a node, by its labels and by what a scheduler of parts writes there."""
        return self._ones.get(name, {}).get(resource, WHOLE_GPU)

    def offering(self, pod_requests: PodRequests) -> int:
        """The number of nodes that offer the rarest of the requested resources, of extended resources and of published
        devices."""
        columns = self.columns
        amounts = [
            columns.capacity[name] for name, _ in pod_requests.requests if "/" in name and name in columns.capacity
        ]
        counts = [int(np.count_nonzero(each[: columns.rows])) for each in amounts]
        if pod_requests.devices and not counts:
            counts.append(int(np.count_nonzero(columns.devices[: columns.rows])))
        return min(counts, default=self.count)

    def with_gpus(self, gpus: Gpus) -> NDArray[np.bool_]:
        """Which rows are nodes with GPUs: a device plugin offers some now, or a source publishes them one by one."""
        columns = self.columns
        mask = self.by_dra() | self.devices.with_gpus(columns.rows)
        for resource in gpus.among(columns.capacity):
            mask |= columns.capacity[resource][: columns.rows] > 0
        return mask & columns.alive[: columns.rows]

    def by_dra(self) -> NDArray[np.bool_]:
        """Which rows are nodes whose GPUs are listed in ResourceSlices."""
        mask = np.zeros(self.columns.rows, bool)
        mask[[row for name in self.dra if (row := self.row_of.get(name)) is not None]] = True
        return mask

    def twice(self, gpus: Iterable[str]) -> NDArray[np.bool_]:
        """Which rows are nodes that hand out GPUs of these resources both by a device plugin and by a DRA driver, which do
        not know of each other. Nodes are left out whose labels count as many GPUs as both offer together: these are
        different GPUs."""
        columns, rows = self.columns, self.columns.rows
        found = np.zeros(rows, bool)
        for resource in [each for each in gpus if each in columns.capacity and not each.startswith(PUBLISHED)]:
            both = (columns.capacity[resource][:rows] > 0) & (columns.devices[:rows] > 0)
            states = columns.devices[:rows][both]
            by_state = np.zeros(int(states.max(initial=0)) + 1, np.int64)
            for number in np.flatnonzero(np.bincount(states)).tolist():  # nodes with equal devices share one
                if state := self.devices.states[number]:
                    drivers = [driver for driver in state[0].dra_drivers if is_same_vendor(resource, driver)]
                    by_state[number] = sum([len(state[0].gpus.get(driver, ())) for driver in drivers])
            if by_state.any():
                listed = by_state[states]
                every = columns.capacity[resource][:rows][both] + listed
                found[both] |= (listed > 0) & (self._labelled_counts()[both] < every)
        return found

    def _labelled_counts(self) -> NDArray[np.int64]:
        """`labelled_count` of each row."""
        rows = self.columns.rows
        found = np.zeros(rows, np.int64)
        for column in [column for key in reversed(COUNT_LABELS) if (column := self.labels.column(key))]:
            codes, numbers = column.padded(rows)[:rows], np.array([number_of(value) or 0 for value in column.values])
            found = np.where(codes > 0, numbers[codes], found)
        return found

    def drop_if_unused(self, row: int) -> None:
        """Release the row of a deleted node if it has no pods left."""
        columns = self.columns
        if columns.alive[row] or columns.pods[row]:
            return
        name = columns.name[row]
        columns.name[row] = ""
        del self.row_of[name]
        self._free_rows.append(row)

    def use_seen(self, name: str, use: NodeUse) -> None:
        """GPU metrics of a node; UNKNOWN if there are none any more."""
        if use.known:
            self.uses[name] = use
        else:
            self.uses.pop(name, None)
        row = self.row_of.get(name)
        if row is not None and self.columns.alive[row]:
            self._set_use(row, use)

    def divide(self, siblings: Sequence[str]) -> None:
        """Set the siblings, between which the nodes are divided."""
        self.siblings, self._undivided = tuple(siblings), True

    def divided(self) -> bool:
        """Whether the nodes are divided between several siblings. They are divided again if nodes came or went."""
        if self._undivided:
            self._undivided = False
            columns, rows = self.columns, self.columns.alive.nonzero()[0]
            order = order_of(columns.place[rows], columns.model[rows], self._sibling, self.siblings)
            for row in rows[order != columns.order[rows]].tolist():
                columns.changes.add(row)
            columns.order[rows] = order
        return len(self.siblings) > 1

    def by_name(self) -> NDArray[np.intp]:
        """All rows that have a node or pods, sorted by node name: ties are broken by this order."""
        if self._unordered:
            self._unordered = False
            self._by_name = np.array([self.row_of[name] for name in sorted(self.row_of)], np.intp)
        return self._by_name

    # --- values -------------------------------------------------------------------------------------------------------

    def _status_number_of(self, status: Status) -> int:
        # A taint's value may be a time, so old statuses are dropped now and then.
        if len(self.statuses) > 2 * self.columns.rows + _SPARE_STATUSES:
            used = sorted({0, *self.columns.status.tolist()})
            self.columns.status[:] = np.searchsorted(used, self.columns.status)
            self.statuses = [self.statuses[number] for number in used]
            self._status_numbers = {known: number for number, known in enumerate(self.statuses)}
            self.renumbered += 1
        number = self._status_numbers.setdefault(status, len(self.statuses))
        if number == len(self.statuses):
            self.statuses.append(status)
        return number

    def _set_capacity(self, row: int, amounts: Mapping[str, int], installed: Mapping[str, int]) -> bool:
        """Set the amounts of a row: the allocatable ones, and those `installed`. Returns whether they changed."""
        columns = self.columns
        changed = False
        for resource in (*amounts, *installed):
            if resource not in columns.capacity:
                columns.add_resource(resource)
        for resource, capacity in columns.capacity.items():
            if resource.startswith(PUBLISHED):
                continue
            change = amounts.get(resource, 0) - int(capacity[row])
            if change:
                capacity[row] += change
                columns.add_free(resource, row, change)
                changed = True
            if columns.installed[resource][row] != installed.get(resource, 0):
                columns.installed[resource][row] = installed.get(resource, 0)
                changed = True
        return changed

    def _set_use(self, row: int, use: NodeUse) -> None:
        """Small changes do not score the node again."""
        columns = self.columns
        load = round(use.utilisation * _STEPS) / _STEPS if use.measured else 0.0
        heat = 0.0 if isnan(use.hottest) else use.hottest // _DEGREES * _DEGREES
        values = [
            (columns.measured, use.measured),
            (columns.idle, use.idle),
            (columns.utilisation, load),
            (columns.avoid, use.avoid),
            (columns.busy, use.busy),
            (columns.known, use.known),
            (columns.heat, heat),
        ]
        self.metered += (use.known > 0) - int(columns.known[row] > 0)
        if any([array.item(row) != value for array, value in values]):
            for array, value in values:
                array[row] = value
            columns.changes.add(row)

    def _changed(self, row: int) -> None:
        self.changes.add(row)
        self.columns.changes.add(row)

"""Nodes as rows: what placement needs of each, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import Journal
from webhook.cluster.labels import Labels
from webhook.cluster.node import SHARED, Status, amounts_of, pods_to_a_gpu, status_of
from webhook.cluster.node_table import Columns
from webhook.cluster.replicas import share
from webhook.cluster.utilisation import UNKNOWN, NodeUse
from webhook.kube.gpus import MODEL_LABELS

GENERAL = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every node has."""
_SPARE = 256
_STEPS = 20  # utilisation in steps of 5 %, and
_DEGREES = 5  # heat in steps of 5 °C: a smaller change is not worth ranking anew


class Nodes:
    """The table of nodes. `version` counts changes of nodes; `changes` names the rows that did."""

    def __init__(self, replica: str = "") -> None:
        self.columns = Columns()
        for resource in GENERAL:
            self.columns.add_resource(resource)
        self.labels = Labels()
        self.statuses: list[Status] = [Status()]
        """Each that some node has, or had. `columns.status` has the index."""
        self.renumbered = 0
        """Rises when `statuses` are numbered anew."""
        self.row_of: dict[str, int] = {}
        self.dra: set[str] = set()
        """Names of nodes whose GPUs are listed in ResourceSlices."""
        self.metered = 0
        """Nodes with GPU metrics."""
        self.count = 0
        """Nodes that are there."""
        self.version = 0
        self.max_capacity: dict[str, dict[int, int]] = {}
        """The most that one node had since this program started: by resource, then by how many pods share a GPU of that node."""
        self.max_capacity_beside: dict[str, dict[str, int]] = {}
        """The same for nodes with an extended resource: by that resource, then by general resource."""
        self.changes = Journal()
        self.replicas: tuple[str, ...] = ()
        """Those of this program that share the nodes."""
        self._replica = replica
        self._status_number = {Status(): 0}
        self._free_rows: list[int] = []
        self._unordered = False
        self._by_name: NDArray[np.intp] = np.zeros(0, np.intp)
        self._uses: dict[str, NodeUse] = {}

    def row(self, name: str) -> int:
        """The row of a node; a new one, not alive, where there is none yet."""
        row = self.row_of.get(name)
        return self._new_row(name) if row is None else row

    def seen(self, node: Mapping[str, Any]) -> int:
        """A node was added or changed. Gives its row."""
        metadata, columns, status = node["metadata"], self.columns, status_of(node)
        labels = metadata.get("labels") or {}
        allocatable, capacity = amounts_of(node, "allocatable"), amounts_of(node, "capacity")
        row = self.row(metadata["name"])  # from here on nothing fails: an object that we cannot read changes nothing
        changed = self.labels.put(row, labels) or not columns.alive[row]
        model = next((labels[key] for key in MODEL_LABELS if key in labels), "")
        if columns.models[columns.model[row]] != model:
            columns.model[row] = self._model(model)
        columns.sharing[row] = pods_to_a_gpu(labels, allocatable.get(SHARED, 0))
        if status != self.statuses[columns.status[row]]:
            columns.status[row] = self._number_of(status)
            changed = True
        self.count += not columns.alive[row]
        columns.alive[row] = True
        if self._allocatable(row, allocatable, capacity) or changed:
            self._changed(row)
        if self._uses and (use := self._uses.pop(metadata["name"], None)) is not None:
            self.use_seen(metadata["name"], use)
        return row

    def gone(self, name: str) -> None:
        """A node was deleted. Its row stays while pods are on it."""
        row = self.row_of.get(name)
        if row is None or not self.columns.alive[row]:
            return
        self.use_seen(name, UNKNOWN)
        self.columns.alive[row] = False
        self.count -= 1
        self.labels.put(row, {})
        self.columns.status[row] = self.columns.model[row] = 0
        self.columns.sharing[row] = 1
        self._allocatable(row, {}, {})
        self._changed(row)
        self.drop_if_unused(row)

    def drop_if_unused(self, row: int) -> None:
        """Free the row of a node that is not there and has no pods left."""
        columns = self.columns
        if columns.alive[row] or columns.free["pods"][row]:
            return
        name = columns.name[row]
        columns.name[row] = ""
        del self.row_of[name]
        self._free_rows.append(row)

    def use_seen(self, name: str, use: NodeUse) -> None:
        """GPU metrics of a node, which may be there before the node is. Small changes of utilisation move nobody."""
        row = self.row_of.get(name)
        if row is None or not self.columns.alive[row]:
            self._uses.pop(name, None)
            if use.known:
                self._uses[name] = use
            return
        columns = self.columns
        load = round(use.utilisation * _STEPS) / _STEPS if use.measured else 0.0
        heat = 0.0 if use.hottest != use.hottest else use.hottest // _DEGREES * _DEGREES
        now = (use.measured, use.idle, load, use.avoid, use.busy, use.known, heat)
        of_use = (
            columns.measured,
            columns.idle,
            columns.utilisation,
            columns.avoid,
            columns.busy,
            columns.known,
            columns.heat,
        )
        self.metered += (use.known > 0) - int(columns.known[row] > 0)
        if now != tuple([array.item(row) for array in of_use]):
            for array, number in zip(of_use, now, strict=True):
                array[row] = number
            columns.changes.add(row)

    def share(self, replicas: Sequence[str]) -> None:
        """These replicas share the nodes from now on."""
        self.replicas = tuple(replicas)
        for name, row in self.row_of.items():
            self.columns.share[row] = share(name, self._replica, self.replicas)

    def by_name(self) -> NDArray[np.intp]:
        """All rows that have a node or pods, in the order of names: who comes first goes first among equals."""
        if self._unordered:
            self._unordered = False
            self._by_name = np.array([self.row_of[name] for name in sorted(self.row_of)], np.intp)
        return self._by_name

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
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
        columns.share[row] = share(name, self._replica, self.replicas)
        return row

    # --- values -------------------------------------------------------------------------------------------------------

    def _model(self, model: str) -> int:
        models = self.columns.models
        if model not in models:
            models.append(model)
        return models.index(model)

    def _number_of(self, status: Status) -> int:
        if (
            len(self.statuses) > 2 * self.columns.rows + _SPARE
        ):  # forget those of the past: a taint's value may be a time
            used = sorted({0, *self.columns.status.tolist()})
            self.columns.status[:] = np.searchsorted(used, self.columns.status)
            self.statuses = [self.statuses[number] for number in used]
            self._status_number = {known: number for number, known in enumerate(self.statuses)}
            self.renumbered += 1
        number = self._status_number.setdefault(status, len(self.statuses))
        if number == len(self.statuses):
            self.statuses.append(status)
        return number

    def _allocatable(self, row: int, amounts: Mapping[str, int], capacity_of: Mapping[str, int]) -> bool:
        columns = self.columns
        changed = False
        sharing = int(columns.sharing[row])
        for resource, amount in amounts.items():
            if resource not in columns.capacity:
                columns.add_resource(resource)
            by_sharing = self.max_capacity.setdefault(resource, {})
            whole = capacity_of.get(resource, 0) if "/" in resource else 0  # sick devices are in the capacity alone
            by_sharing[sharing] = max(amount, whole, by_sharing.get(sharing, 0))
            if amount and "/" in resource:
                beside = self.max_capacity_beside.setdefault(resource, {})
                beside.update({name: max(amounts.get(name, 0), beside.get(name, 0)) for name in GENERAL})
        for resource, capacity in columns.capacity.items():
            more = amounts.get(resource, 0) - int(capacity[row])
            if more:
                capacity[row] += more
                columns.free[resource][row] += more
                changed = True
        return changed

    def _changed(self, row: int) -> None:
        self.version += 1
        self.changes.add(row)
        self.columns.changes.add(row)

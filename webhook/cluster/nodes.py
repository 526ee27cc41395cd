"""Nodes as rows: what placement needs of each, and nothing else."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.interned import Interned
from webhook.cluster.journal import Journal
from webhook.cluster.labels import Labels
from webhook.cluster.node import allocatable_of, pods_to_a_gpu
from webhook.cluster.node_table import Columns
from webhook.cluster.replica_shares import Shares
from webhook.cluster.utilisation import UNKNOWN, NodeUse
from webhook.framework.cluster_view import Taint
from webhook.kube.gpus import MODEL_LABELS

Conditions = frozenset[tuple[str, str]]

GENERAL = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every node has."""
_SPARE = 256
_STEPS = 20  # utilisation in steps of 5 %: a smaller change is not worth ranking anew


class Nodes:
    """The table of nodes. `version` counts changes of nodes; `changes` names the rows that did."""

    def __init__(self, replica: str = "") -> None:
        self.columns = Columns()
        for resource in GENERAL:
            self.columns.add_resource(resource)
        self.labels = Labels()
        self.taints: Interned[tuple[Taint, ...]] = Interned(())
        self.conditions: Interned[Conditions] = Interned(frozenset())
        size = self.columns.size
        self.taint: NDArray[np.int32] = np.zeros(size, np.int32)
        """Index into `taints` by row."""
        self.condition: NDArray[np.int32] = np.zeros(size, np.int32)
        """Index into `conditions` by row: the type and status of each condition."""
        self.cordoned: NDArray[np.bool_] = np.zeros(size, bool)
        self.order: NDArray[np.float64] = np.zeros(size, np.float64)
        """Who goes first among equals: by name."""
        self.row_of: dict[str, int] = {}
        self.dra: set[str] = set()
        """Names of nodes whose GPUs are listed in ResourceSlices."""
        self.reordered = 0
        """Rises when rows that did not change got another place in `order`, or another owner."""
        self.avoided = 0
        """Nodes that GPU metrics advise against."""
        self.count = 0
        """Nodes that are there."""
        self.version = 0
        self.most: dict[str, dict[int, int]] = {}
        """Resource to the most that one node ever had since this program started, by how many pods share a GPU of that node."""
        self.most_beside: dict[str, dict[str, int]] = {}
        """Extended resource to the most of each general resource that a node with it ever had."""
        self.changes = Journal()
        self.shares = Shares(replica, size)
        self._free_rows: list[int] = []
        self._names: list[str] = []
        self._uses: dict[str, NodeUse] = {}

    def row(self, name: str) -> int:
        """The row of a node; a new one, not alive, where there is none yet."""
        found = self.row_of.get(name)
        return self._new_row(name) if found is None else found

    def seen(self, node: Mapping[str, Any]) -> int:
        """A node was added or changed. Gives its row."""
        metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
        for interned, codes in ((self.taints, self.taint), (self.conditions, self.condition)):
            if len(interned.values) > 2 * self.columns.rows + _SPARE:
                interned.compact(codes)
        columns = self.columns
        taints = tuple(
            sorted(
                Taint(str(t.get("key", "")), str(t.get("value") or ""), str(t.get("effect", "")))
                for t in spec.get("taints") or ()
            )
        )
        conditions = frozenset((str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ())
        labels = metadata.get("labels") or {}
        allocatable = allocatable_of(node)
        row = self.row(metadata["name"])  # from here on nothing fails: an object that we cannot read changes nothing
        changed = self.labels.put(row, labels) or not columns.alive[row]
        model = next((labels[key] for key in MODEL_LABELS if key in labels), "")
        if columns.models[columns.model[row]] != model:
            columns.model[row] = self._model(model)
        columns.sharing[row] = sharing = pods_to_a_gpu(labels)
        columns.observed = columns.observed or sharing != 1
        now = (self.taints.id(taints), self.conditions.id(conditions), bool(spec.get("unschedulable")))
        if now != (self.taint[row], self.condition[row], self.cordoned[row]):
            self.taint[row], self.condition[row], self.cordoned[row] = now
            changed = True
        self.count += not columns.alive[row]
        columns.alive[row] = True
        if self._allocatable(row, allocatable) or changed:
            self._changed(row)
        if self._uses and (use := self._uses.pop(metadata["name"], None)) is not None:
            self.use_seen(metadata["name"], use)
        return row

    def taints_of(self, row: int) -> tuple[Taint, ...]:
        """Of a node."""
        return self.taints.values[int(self.taint[row])]

    def gone(self, name: str) -> None:
        """A node was deleted. Its row stays while pods are on it."""
        row = self.row_of.get(name)
        if row is None or not self.columns.alive[row]:
            return
        self.use_seen(name, UNKNOWN)
        self.columns.alive[row] = False
        self.count -= 1
        self.labels.put(row, {})
        self.taint[row] = self.condition[row] = self.columns.model[row] = 0
        self.cordoned[row] = False
        self.columns.sharing[row] = 1
        self._allocatable(row, {})
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
        del self._names[bisect_left(self._names, name)]
        self._free_rows.append(row)

    def use_seen(self, name: str, use: NodeUse) -> None:
        """GPU metrics of a node, which may be there before the node is. Small changes of utilisation move nobody."""
        row = self.row_of.get(name)
        if row is None or not self.columns.alive[row]:
            self._uses.pop(name, None)
            if use.measured or use.avoid:
                self._uses[name] = use
            return
        columns = self.columns
        idle = float(use.idle) if use.measured else np.nan
        steps = use.utilisation if np.isnan(use.utilisation) else round(use.utilisation * _STEPS) / _STEPS
        now = (float(use.measured), idle, steps, float(use.avoid))
        self.avoided += (use.avoid > 0) - int(columns.avoid[row] > 0)
        before = (columns.measured[row], columns.idle[row], columns.utilisation[row], columns.avoid[row])
        if not np.array_equal(before, now, equal_nan=True):
            columns.measured[row], columns.idle[row], columns.utilisation[row], columns.avoid[row] = now
            columns.observed = True
            columns.changes.add(row)

    def share(self, replicas: Sequence[str]) -> None:
        """Other replicas than before share the nodes: all rows are to be looked at anew."""
        self.shares.share_among(replicas)
        self.reordered += 1
        self.columns.changes.add(0)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _new_row(self, name: str) -> int:
        columns = self.columns
        if self._free_rows:
            row = self._free_rows.pop()
            columns.name[row] = name
        else:
            row = columns.rows
            if row == columns.size:
                self._grow()
            columns.rows += 1
            columns.name.append(name)
        self.row_of[name] = row
        self._rank(row, name)
        self.shares.named(row, name)
        return row

    def _grow(self) -> None:
        more = self.columns.size
        self.columns.grow()
        self.taint = np.concatenate([self.taint, np.zeros(more, np.int32)])
        self.condition = np.concatenate([self.condition, np.zeros(more, np.int32)])
        self.cordoned = np.concatenate([self.cordoned, np.zeros(more, bool)])
        self.order = np.concatenate([self.order, np.zeros(more)])
        self.shares.grow(more)

    def _rank(self, row: int, name: str) -> None:
        """Give a new row its place in `order`: between its neighbours by name, so that nobody else moves."""
        names, at = self._names, bisect_left(self._names, name)
        below = self.order[self.row_of[names[at - 1]]] if at else None
        above = self.order[self.row_of[names[at]]] if at < len(names) else None
        names.insert(at, name)
        if below is None:
            middle = 0.0 if above is None else above - 1.0
        else:
            middle = below + 1.0 if above is None else (below + above) / 2
        if middle in (below, above):  # no number is left between the two
            self.order[[self.row_of[n] for n in names]] = np.arange(len(names))
            self.reordered += 1
        else:
            self.order[row] = middle

    # --- values -------------------------------------------------------------------------------------------------------

    def _model(self, model: str) -> int:
        models = self.columns.models
        if model not in models:
            models.append(model)
        return models.index(model)

    def _allocatable(self, row: int, amounts: Mapping[str, int]) -> bool:
        columns = self.columns
        changed = False
        sharing = int(columns.sharing[row])
        for resource, amount in amounts.items():
            if resource not in columns.capacity:
                columns.add_resource(resource)
            had = self.most.setdefault(resource, {})
            had[sharing] = max(amount, had.get(sharing, 0))
            if amount and "/" in resource:
                beside = self.most_beside.setdefault(resource, {})
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

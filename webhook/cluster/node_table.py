"""The nodes as numpy arrays, one row per node, and the contract of a strategy that ranks them.

Arrays grow by doubling and rows of deleted nodes are used again, so nobody keeps an array or a row across events: take
them from `Columns` at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import Journal

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp] | slice
"""Which rows: an index array without duplicates, or a slice."""

LAST: Final = 1000.0
"""Taken off the score of a node that is to come after the others: more than scores differ."""
_FIRST_SIZE = 64


class Demand(NamedTuple):
    """What a pod takes from its node. Interned: equal demands are the same object within one cluster state."""

    requests: tuple[tuple[str, int], ...]
    """(resource, amount), sorted by name, amounts above zero; "cpu" in thousandths, all else in whole units. Every pod
    asks for one of "pods"."""

    def amount(self, resource: str) -> int:
        """How much of `resource`; 0 where it is not asked for."""
        for name, amount in self.requests:
            if name == resource:
                return amount
        return 0

    def beyond(self, held: Sequence[Demand]) -> Demand:
        """What is missing where so much is held for the same pod, and one of "pods"."""
        missing = {name: amount - sum([each.amount(name) for each in held]) for name, amount in self.requests}
        missing["pods"] = 1  # everything that is held counts as a pod: a row without any may be dropped
        return Demand(tuple([(name, amount) for name, amount in missing.items() if amount > 0]))


class Popular(NamedTuple):
    """A demand seen lately. `models`: the GPU models it is confined to, as in `Columns.model`; None: any."""

    demand: Demand
    models: tuple[int, ...] | None
    share: float
    """Its part of the recent GPU pods, 0 to 1."""


@dataclass(frozen=True, slots=True)
class View:
    """What strategies know besides the rows. It changes slowly: a new `version` means that every score is computed
    again, so that between two versions only changed rows are."""

    version: int
    gpus: tuple[str, ...]
    """The resources that the policy calls GPUs and some node has, sorted."""
    popular: tuple[Popular, ...] = ()
    """Most popular first; at most a few dozen."""
    spare: dict[str, Any] = field(default_factory=dict, compare=False)
    """Where a strategy keeps what it derived from this view (matrices of `popular`, scarcity by model)."""


class Strategy(Protocol):
    """Scores nodes for one demand; higher is better. Pure: no state but `view.spare` and `columns.spare`.

    The score of a node depends on its own row, the demand and the view, never on other rows: scores are cached by pod
    shape, and only changed rows are computed again. Rows that cannot take the demand, and dead rows, are asked for as
    well: their scores are ignored, but must not raise or warn. Ties are broken by node name by the caller.

    `webhook.placement.strategies.STRATEGIES` maps the names of the policy to these.
    """

    @property
    def meaning(self) -> str:
        """For `manifests/policy.yaml`: a phrase that stands behind the name."""

    @property
    def peers_first(self) -> bool:
        """Whether the caller puts nodes with fewer pods of the same owner first, before any score."""

    @property
    def spares_whole(self) -> bool:
        """Whether the caller does not break the last whole nodes only to put peers apart."""

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats: ...

    def sees(self, view: View) -> object:
        """The part of the view that scores depend on: as long as it is equal, so are they."""


class Columns:
    """One row per node. A row lives (`alive`) from the node's first event to its deletion.

    A row may exist for a node that is not (or no longer) there but has pods: it is not alive.
    """

    def __init__(self) -> None:
        self.changes = Journal()
        """The rows in which anything changed."""
        self.spare: dict[str, Any] = {}
        """Where placement keeps what it derives from the columns alone, brought up to date by `changes`."""
        self.rows = 0
        """Rows 0 to `rows` - 1 are in use or free to be used again; arrays are longer."""
        self.size = _FIRST_SIZE
        self.alive: NDArray[np.bool_] = np.zeros(self.size, bool)
        self.name: list[str] = []
        """By row; "" where the row is free."""
        self.status: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """Index into `Nodes.statuses`."""
        self.capacity: dict[str, Integers] = {}
        """Allocatable by resource: "cpu" in thousandths, "memory" and "ephemeral-storage" in bytes, "pods", and every
        resource that some node has by its full name. 0 in dead rows."""
        self.free: dict[str, Integers] = {}
        """Allocatable less what pods request that are bound to the node or have a reservation there. May be negative."""
        self.model: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """The GPU product as an index into `models`; 0 is unknown."""
        self.models: list[str] = [""]
        self.sharing: Floats = np.ones(self.size)
        """Pods that share one GPU of the node by time-slicing or MPS; 1 where each has its own."""
        self.measured: Floats = np.zeros(self.size)
        """GPUs that there are metrics of; 0 where there are none: then `idle` and `utilisation` are 0 too."""
        self.idle: Floats = np.zeros(self.size)
        """Idle ones among the measured GPUs, allocated or not."""
        self.avoid: Floats = np.zeros(self.size)
        """GPUs that are hot or sick, and not busy, as far as the policy avoids them."""
        self.busy: Floats = np.zeros(self.size)
        """GPUs that are busy, whether or not a pod was given them."""
        self.known: Floats = np.zeros(self.size)
        """GPUs of which metrics say anything."""
        self.heat: Floats = np.zeros(self.size)
        """Degrees Celsius of the hottest GPU, in steps; 0 where not known."""
        self.utilisation: Floats = np.zeros(self.size)
        """Mean utilisation of the measured GPUs, 0 to 1."""
        self.share: Floats = np.zeros(self.size)
        """Where several replicas of this program run: see `replicas.share`."""

    def add_resource(self, resource: str) -> None:
        """A new resource, of which no node has any yet."""
        self.capacity[resource] = np.zeros(self.size, np.int64)
        self.free[resource] = np.zeros(self.size, np.int64)

    def grow(self) -> None:
        """Twice as many rows."""
        self.size *= 2
        self.alive = longer(self.alive, self.size)
        self.status, self.model = longer(self.status, self.size), longer(self.model, self.size)
        self.sharing, self.share = longer(self.sharing, self.size, 1), longer(self.share, self.size)
        self.measured, self.idle = longer(self.measured, self.size), longer(self.idle, self.size)
        self.utilisation, self.heat = longer(self.utilisation, self.size), longer(self.heat, self.size)
        self.avoid, self.busy = longer(self.avoid, self.size), longer(self.busy, self.size)
        self.known = longer(self.known, self.size)
        for arrays in (self.capacity, self.free):
            for resource, array in arrays.items():
                arrays[resource] = longer(array, self.size)


def longer(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """The array with so many items, the new ones `fill`; itself where it has them."""
    more = size - len(array)
    return array if more <= 0 else np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])

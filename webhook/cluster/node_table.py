"""The node table: numpy arrays with one row per node. Also what a placement strategy implements to score nodes.

Arrays grow by doubling, and rows of deleted nodes are reused. So keep no array and no row across events: read them from
`Columns` in each call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from webhook.cluster.journal import Journal
from webhook.kube.pod_requests import Demand

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Rows = NDArray[np.intp] | slice
"""Which rows: an array of indices without duplicates, or a slice."""

LAST: Final = 1000.0
"""Subtracted from the score of a node that must rank last: more than scores differ."""
TOLD: Final = "devices/"
"""Begins the names of resources whose amounts the device table tells, in thousandths of a device: the driver follows. No pod
requests them by name."""
_INITIAL_SIZE = 64
_MAX_ANSWERS = 256
T = TypeVar("T")


class PopularDemand(NamedTuple):
    """A demand of running pods. `models`: the GPU models that it is confined to, as numbers in `Columns.model`; None: any."""

    demand: Demand
    models: tuple[int, ...] | None
    weight: float
    """Its weight among the GPU pods that run, 0 to 1."""


@dataclass(frozen=True, slots=True)
class View:
    """What strategies know besides the node table. It changes seldom: with a new `version` all scores are computed again,
    between two versions only those of changed rows."""

    version: int
    gpus: tuple[str, ...]
    """The resources that the policy calls GPUs and that some node has, sorted."""
    popular: tuple[PopularDemand, ...] = ()
    """Most frequent first; at most a few dozen."""
    cache: dict[str, Any] = field(default_factory=dict, compare=False)
    """For what strategies derive from this view, such as matrices of `popular`."""


class Strategy(Protocol):
    """Scores nodes for one demand; higher is better. Pure: it keeps no state but in `view.cache` and `columns.cache`.

    The score of a node depends on its own row, the demand and the view, never on other rows. So scores are cached by pod
    shape, and only changed rows are scored again. Rows that are dead or cannot take the demand are scored as well. Their
    scores are ignored, but computing them must not raise or warn. The caller breaks ties by node name.

    `webhook.placement.strategies.STRATEGIES` maps the names in the policy to strategies.
    """

    @property
    def meaning(self) -> str:
        """A phrase that explains the strategy in `manifests/policy.yaml`."""

    @property
    def keeps_apart(self) -> bool:
        """Whether hosts and zones with fewer pods of the same owner rank first, before the score."""

    def __call__(self, columns: Columns, rows: Rows, demand: Demand, view: View) -> Floats: ...

    def score_key(self, view: View) -> object:
        """The part of the view that scores depend on: they stay valid while it is equal."""


class Columns:
    """The columns of the node table.

    A row is `alive` from the first event of its node to the deletion. A node that is not there but has pods has a row
    too, which is not alive.
    """

    def __init__(self) -> None:
        self.changes = Journal()
        """The rows in which anything changed."""
        self.cache: dict[str, Any] = {}
        """For what placement derives from the columns alone and updates by `changes`."""
        self.rows = 0
        """Rows 0 to `rows` - 1 are in use or were released; the arrays are longer."""
        self.size = _INITIAL_SIZE
        self.alive: NDArray[np.bool_] = np.zeros(self.size, bool)
        self.name: list[str] = []
        """By row; "" if the row is not in use."""
        self.status: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """Index into `Nodes.statuses`."""
        self.capacity: dict[str, Integers] = {}
        """Allocatable by resource: "cpu" in thousandths, "memory" and "ephemeral-storage" in bytes, "pods", and each
        extended resource of some node. 0 in dead rows."""
        self.installed: dict[str, Integers] = {}
        """What nodes may offer of extended resources as they are: see `node.installed_on`. 0 in dead rows."""
        self.free: dict[str, Integers] = {}
        """Allocatable minus the requests of pods that are bound to the node or have a reservation there. May be negative."""
        self.devices: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """The state of the devices: its number in the device table; 0 if nobody tells any."""
        self.pods: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """Pods that are bound to the node or have a reservation there, private ones too."""
        self.model: NDArray[np.int32] = np.zeros(self.size, np.int32)
        """The GPU model as an index into `models`; 0 is unknown."""
        self.models: list[str] = [""]
        self.sharing: Floats = np.ones(self.size)
        """Pods that share one GPU of the node by time-slicing or MPS; 1 if GPUs are not shared."""
        self.measured: Floats = np.zeros(self.size)
        """GPUs with a known utilisation; if 0, `idle` and `utilisation` are 0 too."""
        self.idle: Floats = np.zeros(self.size)
        """Idle GPUs among the measured ones, allocated or not."""
        self.avoid: Floats = np.zeros(self.size)
        """GPUs that are hot or sick but not busy, if the policy avoids these."""
        self.busy: Floats = np.zeros(self.size)
        """Busy GPUs, allocated or not."""
        self.known: Floats = np.zeros(self.size)
        """GPUs with any metric."""
        self.heat: Floats = np.zeros(self.size)
        """Degrees Celsius of the hottest GPU, rounded down to steps; 0 if not known."""
        self.utilisation: Floats = np.zeros(self.size)
        """Mean utilisation of the measured GPUs, 0 to 1."""
        self.place: Floats = np.zeros(self.size)
        """See `replicas.place_of`."""
        self.order: Floats = np.zeros(self.size)
        """The order of nodes between the replicas of this program: see `replicas.order_of`."""

    def add_resource(self, resource: str) -> None:
        """Add a resource that no node had so far."""
        self.capacity[resource] = np.zeros(self.size, np.int64)
        self.installed[resource] = np.zeros(self.size, np.int64)
        self.free[resource] = np.zeros(self.size, np.int64)

    def grow(self) -> None:
        """Double the number of rows."""
        self.size *= 2
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                setattr(self, name, longer(array, self.size, 1 if name == "sharing" else 0))
        for arrays in (self.capacity, self.installed, self.free):
            for resource, array in arrays.items():
                arrays[resource] = longer(array, self.size)


class Answers:
    """A cache that is emptied when what it is of changes."""

    def __init__(self) -> None:
        self._version: object = None
        self._known: dict[tuple[object, ...], Any] = {}

    def get(self, version: object, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        """The cached answer to `question`, else the result of `answer()`, and what that raises."""
        if version != self._version or len(self._known) > _MAX_ANSWERS:
            self._version, self._known = version, {}
        if question not in self._known:
            self._known[question] = answer()
        cached: T = self._known[question]
        return cached


def longer(array: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """The array extended to at least `size` items; new ones are `fill`."""
    more = size - len(array)
    return array if more <= 0 else np.concatenate([array, np.full((more, *array.shape[1:]), fill, array.dtype)])

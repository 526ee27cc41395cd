"""The cluster as units see it: implements `cluster_view.Cluster` by reading the state."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from webhook.devices.claims import DeviceRequests
from webhook.devices.slices import Slices
from webhook.framework.cluster_view import Autoscaler, LimitRange, MetricsStatus, PriorityClass, RuntimeClass
from webhook.kube.claim_requests import ClaimRequest, claim_requests
from webhook.kube.gpus import DIVIDED, Gpus
from webhook.kube.pod import Pod, claims_devices
from webhook.kube.quantity import quantity_text
from webhook.kube.stores import Answers
from webhook.kube.taints import Taint, kind_of
from webhook.nodes.nodes import Nodes
from webhook.state.objects import Autoscalers, ByName, Freshness, LimitRanges, Quotas, VolumeClaim
from webhook.text import quoted

T = TypeVar("T")
_KARPENTER = "karpenter.sh/nodepool"
_MAX_PATHS = 8
"""Maximum number of attributes of an expression of which values are looked for, for a message."""


class State(Protocol):
    """The part of the cluster state that `StateView` reads."""

    nodes: Nodes
    priority_classes: ByName[PriorityClass]
    runtime_classes: ByName[RuntimeClass]
    limit_ranges: LimitRanges
    namespaces: ByName[Mapping[str, str]]
    volume_claims: ByName[VolumeClaim]
    slices: Slices
    device_requests: DeviceRequests
    node_pools: ByName[Mapping[str, str]]
    quotas: Quotas
    autoscalers: Autoscalers
    freshness: Freshness
    answers: Answers


class StateView:
    """Reads the state when it is asked. Only `fresh` and `gpu_metrics` are of the time when the view was made.

    Nothing awaits while a review is answered, so the state does not change within one review.
    """

    __slots__ = ("_state", "fresh", "gpu_metrics")

    def __init__(self, state: State, fresh: bool, gpu_metrics: MetricsStatus) -> None:
        self._state = state
        self.fresh = fresh
        self.gpu_metrics = gpu_metrics

    @property
    def priority_classes(self) -> Mapping[str, PriorityClass]:
        return self._state.priority_classes

    @property
    def knows_priority_classes(self) -> bool:
        return "priorityclasses" in self._state.freshness.listed

    def runtime_handler(self, name: str) -> str | None:
        known = self._state.runtime_classes.get(name)
        return known.handler if known else None

    def runtime_class(self, name: str) -> RuntimeClass | None:
        return self._state.runtime_classes.get(name)

    @property
    def knows_runtime_classes(self) -> bool:
        return "runtimeclasses" in self._state.freshness.listed

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        return self._state.limit_ranges.of(namespace)

    def namespace_labels(self, namespace: str) -> Mapping[str, str] | None:
        return self._state.namespaces.get(namespace)

    def quota_covering(self, namespace: str, priority_class: str, *, but: str) -> str:
        return self._state.quotas.covering(namespace, priority_class, but=but)

    def autoscaler_of(self, namespace: str, kind: str, name: str) -> Autoscaler | None:
        known = self.fresh and "horizontalpodautoscalers" in self._state.freshness.listed
        return self._state.autoscalers.scaling(namespace, kind, name) if known else None

    def narrow_access(self, namespace: str, claim: str) -> str:
        known = self._state.volume_claims.get(f"{namespace}/{claim}")
        return known.narrow_access if known else ""

    def gpu_taints(self, gpus: Gpus) -> tuple[Taint, ...]:
        def answer() -> tuple[Taint, ...]:
            nodes, among = self._state.nodes, self._state.nodes.with_gpus(gpus)
            numbers = {*nodes.columns.status[: len(among)][among].tolist()}
            return tuple(sorted({taint for number in numbers for taint in nodes.statuses[number].taints}))

        return self._cached(("taints", gpus.key), answer)

    @property
    def elastic(self) -> bool:
        return bool(self._state.nodes.dra or self._state.nodes.provided)

    @property
    def requires_preferences(self) -> bool:
        return bool(self._state.node_pools) or self._state.nodes.labels.is_anywhere(_KARPENTER)

    @property
    def dra_drivers(self) -> tuple[str, ...]:
        return self._state.slices.drivers

    def claimed(self, pod: Pod, namespace: str) -> tuple[ClaimRequest, ...]:
        return self._state.device_requests.requests(pod, namespace) if claims_devices(pod) else ()

    def asked_by(self, devices: Mapping[str, Any], path: str) -> tuple[ClaimRequest, ...]:
        return tuple(claim_requests(devices, self._state.device_requests, path))

    def class_kind(self, resource: str) -> str:
        return self._state.device_requests.kind(resource)

    def device_values(self, expression: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found = []
        for path in self._state.nodes.devices.kinds.paths(expression)[:_MAX_PATHS]:
            if path.name is not None:
                values = self._state.nodes.devices.values(path.part, f"{path.domain}/{path.name}")
                found.append((path.name, tuple(sorted({_shown(path.part, value) for value in values}))))
        return tuple(found)

    def domains(self, topology_key: str, gpus: Gpus) -> int:
        return self._cached(("domains", topology_key, gpus.key), lambda: len(self._codes(topology_key, gpus)))

    def unlabelled(self, topology_key: str, gpus: Gpus) -> bool:
        def answer() -> bool:
            nodes, lacking = self._state.nodes, self._state.nodes.with_gpus(gpus)
            if (column := nodes.labels.column(topology_key)) is not None:
                lacking &= column.padded(len(lacking))[: len(lacking)] == 0
            statuses = {*nodes.columns.status[: len(lacking)][lacking].tolist()}
            return any([all([kind_of(t) != "starting" for t in nodes.statuses[each].taints]) for each in statuses])

        return self._cached(("unlabelled", topology_key, gpus.key), answer)

    def resources(self) -> Mapping[str, int]:
        def answer() -> dict[str, int]:
            installed = self._state.nodes.columns.installed
            names = [name for name in sorted(installed) if installed[name].any()]
            return {name: int(self._devices(name).max(initial=0)) for name in names}

        return self._cached(("resources",), answer)

    def most_gpus(self, resource: str) -> int:
        if resource not in self._state.nodes.columns.capacity:
            return 0
        devices = self._devices(resource)
        return int(devices[self._state.nodes.columns.slices[: len(devices)] == 1].max(initial=0))

    def _devices(self, resource: str) -> NDArray[np.int64]:
        """Number of devices by row. Shared and sliced GPUs count once, not once per share or slice."""
        columns = self._state.nodes.columns
        capacity = columns.capacity[resource]
        return (
            capacity
            if resource not in DIVIDED
            else np.ceil(capacity / (columns.sharing * columns.slices)).astype(np.int64)
        )

    def least_per_gpu(self, resource: str, count: int) -> Mapping[str, int] | None:
        if not 0 < count <= self.resources().get(resource, 0):
            return None

        def answer() -> dict[str, int]:
            capacity = self._state.nodes.columns.capacity
            gpus = capacity[resource]
            rows = np.flatnonzero(gpus >= count)
            return {name: int((capacity[name][rows] // gpus[rows]).min()) for name in ("cpu", "memory")}

        return self._cached(("least per GPU", resource, count), answer)

    @property
    def renamed_nodes(self) -> Set[str]:
        return self._state.nodes.renamed

    def label_values(self, key: str, gpus: Gpus) -> tuple[str, ...]:
        def answer() -> tuple[str, ...]:
            column = self._state.nodes.labels.column(key)
            return () if column is None else tuple(sorted(column.values[code] for code in self._codes(key, gpus)))

        return self._cached(("values", key, gpus.key), answer)

    def _codes(self, key: str, gpus: Gpus) -> NDArray[np.int64]:
        """The codes of a label's values on nodes with GPUs, without duplicates."""
        column = self._state.nodes.labels.column(key)
        if column is None:
            return np.zeros(0, np.int64)
        mask = self._state.nodes.with_gpus(gpus)
        codes = column.padded(len(mask))[: len(mask)]
        present: NDArray[np.int64] = np.nonzero(np.bincount(codes[mask], minlength=1))[0]
        return present[present > 0]

    def _cached(self, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        version = self._state.nodes.changes.position, self._state.slices.version
        return self._state.answers.get(version, question, answer)


def _shown(part: str, value: object) -> str:
    """The value of an attribute or a capacity of a device, for a message."""
    if part == "capacity" and isinstance(value, int):
        return quantity_text("", value)
    return quoted(value) if isinstance(value, str) else quoted(str(value).lower())[1:-1]

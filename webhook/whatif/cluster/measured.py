"""The GPU metrics of one poll, and their sums for each node."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

from webhook.errors import BadInput
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import RANGES, Reading, Sample, Utilisation
from webhook.text import quoted


class Gpu(NamedTuple):
    """A GPU, or an instance of one, with its metrics."""

    name: str
    readings: dict[Reading, float]

    @property
    def percent(self) -> float | None:
        """The utilisation, 0 to 100; None if not known."""
        engine = self.readings.get(Reading.ENGINE)
        return self.readings.get(Reading.UTILISATION, None if engine is None else min(engine, 1.0) * 100)

    @property
    def memory(self) -> tuple[float, float] | None:
        """Used and total memory in MiB; None if not known."""
        used, free = (self.readings.get(each) for each in (Reading.MEMORY_USED, Reading.MEMORY_FREE))
        return None if used is None or free is None else (used, used + free)


class Measured(NamedTuple):
    """The samples of one poll. `source` is the policy's name for where they come from."""

    source: str
    samples: list[Sample]

    def document(self) -> dict[str, Any]:
        """The form in which a snapshot keeps it."""
        samples = [[node, gpu, reading.name.lower(), *others] for node, gpu, reading, *others in self.samples]
        return {"source": self.source, "samples": samples}

    @classmethod
    def read(cls, document: Any, where: str) -> Self:
        """The inverse of `document`. `where` begins the message. Raises BadInput."""
        try:
            source, samples = str(document["source"]), document["samples"]
            parsed = [
                Sample(str(n), str(g), Reading[r.upper()], float(v), str(i), str(*pod))
                for n, g, r, v, i, *pod in samples
            ]
        except (LookupError, TypeError, ValueError, AttributeError):
            wanted = "wanted source and samples as gpu-admission snapshot writes them"
            raise BadInput(f"{where}: snapshot.gpuMetrics: saw {quoted(document)}, {wanted}") from None
        return cls(source, parsed)


class Figures:
    """The GPU metrics of each node at one moment. A GPU that is idle at that moment counts as idle.

    `use` holds them as the webhook does.
    """

    def __init__(self, measured: Measured, settings: GpuMetricsSettings, taken: float = 0.0) -> None:
        self.use = Utilisation(settings.model_copy(update={"source": measured.source}))
        self.use.observe(measured.samples, taken)
        self._gpus: dict[str, dict[tuple[str, str], dict[Reading, float]]] = {}
        for node, gpu, reading, value, instance, _ in measured.samples:
            low, high = RANGES[reading]
            if low <= value <= high:
                self._gpus.setdefault(node, {}).setdefault((gpu, instance), {})[reading] = value

    def gpus(self, node: str) -> Iterator[Gpu]:
        """The GPUs of a node by name. A GPU that is split is given as its instances."""
        readings = self._gpus.get(node, {})
        split = {gpu for gpu, instance in readings if instance}
        for gpu, instance in sorted(readings):
            if instance or gpu not in split:
                yield Gpu(f"{gpu} {instance}".rstrip(), readings[gpu, instance])

    def with_pods(self, node: str, pods: Iterable[dict[str, Any]], sharing: float) -> Iterator[dict[str, Any]]:
        """The pods that `report` lists for a node. Those that labels of metrics name get the keys `measured` and `idle`, unless
        they are named for more GPUs than they have to themselves."""
        named = {each.pod: each for each in self.use.node(node).pods} if sharing <= 1 else {}
        for pod in pods:
            own = sum(pod["gpus"].values()) - sum([sum(claim.values()) for claim in pod.get("shared", {}).values()])
            use = named.get(f"{pod['namespace']}/{pod['name']}")
            yield {**pod, "measured": use.gpus, "idle": use.idle} if use and use.gpus <= own else pod

    def of(
        self, node: str, offered: float, allocated: float, sharing: float, pods: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, Any]:
        """The metrics keys that `report` adds for a node, as far as known.

        `offered`, `allocated`: how many GPUs or shares; `sharing` is how many pods share one GPU; `pods` as `with_pods`. Of the
        GPUs that no pod is named for, as few idle ones are allocated as can be.
        """
        use, document = self.use.node(node), dict[str, Any]()
        if use.measured:
            total, allocated = math.ceil(offered / sharing), math.ceil(allocated / sharing)
            unused = max(0, total - allocated)
            named, idle = (sum([pod.get(key, 0) for pod in pods]) for key in ("measured", "idle"))
            document = {
                "measured": use.measured,
                "utilisation": round(use.utilisation * 100),
                "idle": idle + min(max(0, allocated - named), max(0, use.idle - idle - unused)),
            }
        memory = [gpu.memory for gpu in self.gpus(node) if gpu.memory]
        if memory:
            document["memory"] = {"used": round(sum(m[0] for m in memory)), "total": round(sum(m[1] for m in memory))}
        if use.hottest == use.hottest:  # not NaN
            document["temperature"] = round(use.hottest)
        if use.known:
            document["sick"] = use.sick
        return document

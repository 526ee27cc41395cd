"""What GPU metrics said in one poll, and what that means for each node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.gpu_rows import RANGES
from webhook.cluster.utilisation import Reading, Sample, Utilisation
from webhook.errors import BadInput
from webhook.feeds.gpu_source import READINGS
from webhook.text import quoted

_NAMES: Final = {reading: name for name, reading in READINGS.items()}


class Gpu(NamedTuple):
    """A GPU, or an instance of one, with the numbers that are known of it."""

    name: str
    readings: dict[Reading, float]

    @property
    def percent(self) -> float | None:
        """Its utilisation; None where that is not known."""
        engine = self.readings.get(Reading.ENGINE)
        return self.readings.get(Reading.UTILISATION, None if engine is None else min(engine, 1.0) * 100)

    @property
    def memory(self) -> tuple[float, float] | None:
        """MiB used, and MiB in all."""
        used, free = (self.readings.get(each) for each in (Reading.MEMORY_USED, Reading.MEMORY_FREE))
        return None if used is None or free is None else (used, used + free)


class Measured(NamedTuple):
    """`source`: as the policy names it."""

    source: str
    samples: list[Sample]

    def document(self) -> dict[str, Any]:
        """As it stands in a snapshot."""
        samples = [
            [node, gpu, _NAMES[reading], value, instance] for node, gpu, reading, value, instance in self.samples
        ]
        return {"source": self.source, "samples": samples}

    @classmethod
    def read(cls, document: Any, where: str) -> Measured:
        """What `document` wrote. Raises BadInput."""
        try:
            source, samples = str(document["source"]), document["samples"]
            parsed = [Sample(str(n), str(g), READINGS[r], float(v), str(i)) for n, g, r, v, i in samples]
        except (LookupError, TypeError, ValueError, AttributeError):
            wanted = "wanted source and samples as gpu-admission snapshot writes them"
            raise BadInput(f"{where}: snapshot.gpuMetrics: saw {quoted(document)}, {wanted}") from None
        return cls(source, parsed)


class Figures:
    """The numbers of nodes at one moment; a GPU that is idle then counts as idle. `use`: as the webhook keeps them."""

    def __init__(self, measured: Measured, settings: GpuMetricsSettings, taken: float = 0.0) -> None:
        self.use = Utilisation(settings.model_copy(update={"source": measured.source}))
        self.use.observe(measured.samples, taken)
        self._gpus: dict[str, dict[tuple[str, str], dict[Reading, float]]] = {}
        for node, gpu, reading, value, instance in measured.samples:
            low, high = RANGES[reading]
            if low <= value <= high:
                self._gpus.setdefault(node, {}).setdefault((gpu, instance), {})[reading] = value

    def gpus(self, node: str) -> Iterator[Gpu]:
        """By name; of a GPU that is split, its instances."""
        readings = self._gpus.get(node, {})
        split = {gpu for gpu, instance in readings if instance}
        for gpu, instance in sorted(readings):
            if instance or gpu not in split:
                yield Gpu(f"{gpu} {instance}".rstrip(), readings[gpu, instance])

    def of(self, node: str, gpus: Iterable[dict[str, int]], sharing: float) -> dict[str, Any]:
        """The keys of the document that are known. `gpus`: by resource. `sharing`: how many pods share a GPU."""
        use, document = self.use.node(node), dict[str, Any]()
        if use.measured:
            amounts = list(gpus)
            total = math.ceil(sum(each["total"] for each in amounts) / sharing)
            allocated = math.ceil(sum(each["allocated"] for each in amounts) / sharing)
            unused = max(0, total - allocated)
            document = {
                "measured": use.measured,
                "utilisation": round(use.utilisation * 100),
                "idle": min(allocated, max(0, use.idle - unused)),
            }
        memory = [gpu.memory for gpu in self.gpus(node) if gpu.memory]
        if memory:
            document["memory"] = {"used": round(sum(m[0] for m in memory)), "total": round(sum(m[1] for m in memory))}
        if use.hottest == use.hottest:  # not NaN
            document["temperature"] = round(use.hottest)
        if use.known:
            document["sick"] = use.sick
        return document

"""Samples of GPUs, one round of polling after the other."""

from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import NodeUse, Reading, Sample, Utilisation

SETTINGS = GpuMetricsSettings(source="dcgm")
"""Window 300 s, stale after 180 s, idle below 30 % and 50 %, hot from 85 °C."""
NAN = float("nan")
START = 1000.0


def gpu(
    node: str = "a",
    name: str = "0",
    *,
    utilisation: float | None = 0.0,
    memory: float | None = 0.0,
    temperature: float | None = 40.0,
    sick: float | None = None,
    engine: float | None = None,
    instance: str = "",
    pod: str = "",
) -> list[Sample]:
    """The samples that a source reads of one GPU; memory in percent of 80,000 MiB."""
    readings = {
        Reading.UTILISATION: utilisation,
        Reading.ENGINE: engine,
        Reading.MEMORY_USED: None if memory is None else 800.0 * memory,
        Reading.MEMORY_FREE: None if memory is None else 800.0 * (100 - memory),
        Reading.TEMPERATURE: temperature,
        Reading.XID: sick,
    }
    return [
        Sample(node, name, reading, value, instance, pod) for reading, value in readings.items() if value is not None
    ]


def seen(*samples: list[Sample], settings: GpuMetricsSettings = SETTINGS, now: float = START) -> Utilisation:
    utilisation = Utilisation(settings)
    utilisation.observe([sample for one in samples for sample in one], now)
    return utilisation


def changes(utilisation: Utilisation) -> list[tuple[str, NodeUse]]:
    """The nodes whose metrics changed since this was asked last."""
    return [(name, use) for name in utilisation.nodes() if (use := utilisation.changed(name)) is not None]

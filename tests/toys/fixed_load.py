"""GPU metrics that are the same at each poll."""

from __future__ import annotations

from webhook.cluster.utilisation import Reading, Utilisation
from webhook.feeds.gpu_source import Wiring


class FixedLoad:
    async def poll(self, into: Utilisation) -> None:
        into.add("gpu-a-0", "GPU-0", Reading.UTILISATION, 90.0)


def source(wiring: Wiring) -> FixedLoad:
    return FixedLoad()

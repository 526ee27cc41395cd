"""GPU metrics that are the same at each poll."""

from webhook.feeds.gpu_source import Wiring
from webhook.nodes.utilisation import Reading, Utilisation


class FixedLoad:
    async def poll(self, into: Utilisation) -> dict[str, str]:
        into.add("gpu-a-0", "GPU-0", Reading.UTILISATION, 90.0)
        return {}


def source(wiring: Wiring) -> FixedLoad:
    return FixedLoad()

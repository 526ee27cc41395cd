"""How much CPU and memory a GPU needs, by class of workload. The rule and the injector `cpuPerGpu` use it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator

from webhook.framework.interface import Settings
from webhook.kube.quantity import milli, whole
from webhook.text import quoted


def _is_quantity(text: str) -> str:
    if milli(text) <= 0:
        raise ValueError(f'{quoted(text)}: wanted a quantity above 0, as "8" or "32Gi"')
    return text


Quantity = Annotated[str, AfterValidator(_is_quantity)]


class PerGpu(Settings):
    """CPU and memory for one GPU: the minimum, and the usual maximum."""

    cpu: tuple[Quantity, Quantity]
    memory: tuple[Quantity, Quantity]

    @cached_property
    def least(self) -> Mapping[str, int]:
        """The minima: `cpu` in thousandths, `memory` in bytes."""
        return {"cpu": milli(self.cpu[0]), "memory": whole(self.memory[0])}


_INFERENCE = PerGpu(cpu=("4", "8"), memory=("8Gi", "16Gi"))
CLASSES = {
    "training": PerGpu(cpu=("8", "16"), memory=("32Gi", "64Gi")),
    **dict.fromkeys(("inference-critical", "inference", "service"), _INFERENCE),
}

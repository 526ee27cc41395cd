"""A container with GPUs asks for enough CPU and memory to feed them.

The scheduler counts requests. A GPU container without CPU request lands on a node whose CPUs others have taken, and its
GPU waits for data.

Fields read:   requests of CPU and memory of spec.containers[*] and sidecars with whole GPUs; spec.resources
Allowed:       at least the lower number of `classes` per GPU
Warned about:  less, or none
Not for:       pods of a class that `classes` does not name; parts of GPUs; DRA, where the number of GPUs is in the claim
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator

from webhook.errors import QuantityError
from webhook.interface import Action, Context, Finding, Rule, Settings
from webhook.pod import Container, Pod, requests_of
from webhook.quantity import milli, whole
from webhook.text import plural, quoted

_GI = 2**30


def _is_quantity(text: str) -> str:
    if milli(text) <= 0:
        raise ValueError(f'{quoted(text)}: wanted a quantity above 0, as "8" or "32Gi"')
    return text


Quantity = Annotated[str, AfterValidator(_is_quantity)]


class PerGpu(Settings):
    """What one GPU is fed by: the least, and what is usual at most."""

    cpu: tuple[Quantity, Quantity]
    memory: tuple[Quantity, Quantity]


class CpuPerGpu(Rule):
    """Containers with GPUs request CPU and memory in proportion."""

    action: Action = "warn"
    classes: dict[str, PerGpu] = {
        "training": PerGpu(cpu=("8", "16"), memory=("32Gi", "64Gi")),
        "inference": PerGpu(cpu=("4", "8"), memory=("8Gi", "16Gi")),
    }
    """By class of workload."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        wanted = self._least.get(context.workload.name)
        if wanted is None or not context.gpu_names:
            return
        of_pod = requests_of(pod["spec"]) if pod["spec"].get("resources") else {}
        for container in context.containers(pod):
            gpus = sum(n for g, n in container.gpu_counts(context.gpus).items() if context.gpus.kind(g) == "whole")
            if gpus and (container.kind == "containers" or container.sidecar):
                requests = {**of_pod, **requests_of(container.spec)}
                if finding := self._finding(container, requests, gpus, wanted, context.workload.name):
                    yield finding

    @cached_property
    def _least(self) -> dict[str, tuple[int, int]]:
        return {name: (milli(per.cpu[0]), whole(per.memory[0])) for name, per in self.classes.items()}

    def _finding(
        self, container: Container, requests: Mapping[str, Any], gpus: int, least: tuple[int, int], workload: str
    ) -> Finding | None:
        try:
            cpu, memory = milli(requests.get("cpu", 0)), whole(requests.get("memory", 0))
        except QuantityError:
            return None
        if cpu >= least[0] * gpus and memory >= least[1] * gpus:
            return None
        per = self.classes[workload]
        need = f'cpu: "{_cores(least[0] * gpus)}" and memory: {_size(least[1] * gpus)}'
        return Finding(
            path=f"{container.field}.resources.requests",
            seen=f"{_cpus(cpu)} and {_size(memory) if memory else 'no memory'} for {plural(gpus, 'GPU')} "
            f"in container {quoted(container.name)}",
            wanted=f"{' to '.join(per.cpu)} CPUs and {' to '.join(per.memory)} per GPU for {workload}",
            fix=f"Request at least {need}",
        )


def _cores(thousandths: int) -> str:
    return f"{thousandths / 1000:g}"


def _cpus(thousandths: int) -> str:
    return "no CPU" if not thousandths else "1 CPU" if thousandths == 1000 else f"{_cores(thousandths)} CPUs"


def _size(size: int) -> str:
    return f"{size / _GI:.4g}Gi" if size >= _GI // 10 else f"{size / 2**20:.4g}Mi"

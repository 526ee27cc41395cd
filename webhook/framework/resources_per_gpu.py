"""How much CPU and memory a GPU needs, by class of workload: for the rule and the injector `cpuPerGpu`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from webhook.framework.interface import Settings
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Container, requests_of
from webhook.kube.quantity import milli, whole
from webhook.text import quoted


def _is_quantity(text: str) -> str:
    if milli(text) <= 0:
        raise ValueError(f'{quoted(text)}: wanted a quantity above 0, as "8" or "32Gi"')
    return text


Quantity = Annotated[str, AfterValidator(_is_quantity)]


class PerGpu(Settings):
    """For one GPU: the least, and what is usual at most."""

    cpu: tuple[Quantity, Quantity]
    memory: tuple[Quantity, Quantity]

    @cached_property
    def least(self) -> Mapping[str, int]:
        """`cpu` in thousandths, `memory` in bytes."""
        return {"cpu": milli(self.cpu[0]), "memory": whole(self.memory[0])}


_RESOURCES = ("cpu", "memory")
_INFERENCE = PerGpu(cpu=("4", "8"), memory=("8Gi", "16Gi"))
CLASSES = {
    "training": PerGpu(cpu=("8", "16"), memory=("32Gi", "64Gi")),
    **dict.fromkeys(("inference-critical", "inference", "service"), _INFERENCE),
}


def containers_with_whole_gpus(
    containers: Iterable[Container], gpus: Gpus
) -> Iterator[tuple[Container, dict[str, int]]]:
    """The containers that run as long as the pod does and have whole GPUs, with the names and numbers of these."""
    for container in containers:
        counts = {name: count for name, count in container.gpu_counts(gpus).items() if gpus.kind(name) == "whole"}
        if counts and (container.kind == "containers" or container.sidecar):
            yield container, counts


class Lacking(NamedTuple):
    """A container with whole GPUs, how many it has, and the requests that it lacks: of `cpu`, of `memory`."""

    container: Container
    gpus: int
    resources: tuple[str, ...]


def lacking_requests(containers: Iterable[Container], gpus: Gpus) -> list[Lacking]:
    """Those of the containers that lack a request."""
    entries = [
        Lacking(container, sum(counts.values()), tuple([r for r in _RESOURCES if r not in requests_of(container.spec)]))
        for container, counts in containers_with_whole_gpus(containers, gpus)
    ]
    return [entry for entry in entries if entry.resources]

"""The parallelism in the arguments of a container is the number of GPUs that it asks for.

People count GPUs this way. With more processes than GPUs the program fails once it has started; with fewer, GPUs stand idle.

Fields read:   command, args and env of spec.containers with whole GPUs; the owner and the replicas of the workload
Allowed:       launchers (--nproc_per_node, --num-gpus) with as many processes as GPUs, with `gpu` or `auto`; a model
               (--tensor-parallel-size) over as many GPUs as there are, alone or times pipeline and data parallelism, on one
               node of --nnodes; a variable that is not known here; several programs in one container
Warned about:  another number; WORLD_SIZE in a pod that works alone. Where several pods work together (a gang, Ray, MPI) only
               fewer than the GPUs of one pod
Not for DRA:   how many devices a claim brings is not known here. Nor for parts of GPUs.

Source: vLLM and SGLang engine arguments, TensorRT-LLM, TGI (--num-shard), torchrun, DeepSpeed, Accelerate, FastChat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import Any, ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube.pod import Container, Pod
from webhook.text import plural, quoted

_LAUNCHERS = ("nproc-per-node", "num-gpus", "num-shard", "gpus-per-node")
"""As many processes, or GPUs, as the container has."""
_MODEL = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size"}
_ALIASES = {
    **dict.fromkeys(("tensor-parallel-size", "tensor-parallel", "tp", "tp-size", "tensor-model-parallel-size"), "tp"),
    **dict.fromkeys(
        ("pipeline-parallel-size", "pipeline-parallel", "pp", "pp-size", "pipeline-model-parallel-size"), "pp"
    ),
    **dict.fromkeys(("data-parallel-size", "data-parallel-size-local", "dp", "dp-size"), "dp"),
    **{alias: alias for alias in _LAUNCHERS},
    "num-processes": "num-processes",
    "num-machines": "nnodes",
    "nnodes": "nnodes",
    "nodes": "nnodes",
}
_TOGETHER = (
    *(
        "LeaderWorkerSet",
        "RayCluster",
        "RayJob",
        "RayService",
        "JobSet",
        "PodClique",
        "PodCliqueSet",
        "MPIJob",
        "PyTorchJob",
    ),
    *("TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "TrainJob", "TrainingRuntime", "AppWrapper"),
)
_LARGEST = 32 << 10
"""Characters of all arguments of a pod that are looked at."""
_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
_LOCAL = ("", "localhost", "127.0.0.1", "::1")


class GpuParallelism(Rule):
    """The parallelism in the arguments (--tensor-parallel-size, --nproc_per_node, …) is the number of GPUs asked for."""

    not_exported: ClassVar[str] = "reads command lines"

    action: Action = "warn"

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if not context.gpu_names:
            return
        if sum([len(word) for c in context.containers(pod) for word in _words(c.spec)]) > _LARGEST:
            return
        together = _work_together(context)
        for container in context.containers(pod):
            gpus = sum(
                [n for name, n in container.gpu_counts(context.gpus).items() if context.gpus.kind(name) == "whole"]
            )
            if gpus and container.kind == "containers" and not (container.spec.get("resources") or {}).get("claims"):
                yield from self._container(container, gpus, together)

    def _container(self, container: Container, gpus: int, together: bool) -> Iterator[Finding]:
        variables = {e["name"]: str(e.get("value") or "") for e in container.spec.get("env") or () if e.get("name")}
        options = _options(container.spec, variables)
        wanted = _mismatch(options, gpus, together)
        if wanted:
            flags, number = wanted
            yield _finding(f"{container.field}.args", flags, number, gpus, container)
        elif not options and not together and variables.get("MASTER_ADDR", "") in _LOCAL:
            world = _number(variables.get("WORLD_SIZE", ""))
            if world not in (None, gpus):
                yield _finding(f"{container.field}.env", f"WORLD_SIZE={world}", world or 0, gpus, container)


def _finding(path: str, said: str, number: int, gpus: int, container: Container) -> Finding:
    more = number > gpus
    return Finding(
        path=path,
        seen=f"{said} beside {plural(gpus, 'GPU')} in container {quoted(container.name)}",
        wanted="the same number: the program would " + ("fail once it has started" if more else "leave GPUs idle"),
        fix=f"Ask for {plural(number, 'GPU')}, or write {gpus}",
    )


def _mismatch(options: Mapping[str, tuple[str, int | None]], gpus: int, together: bool) -> tuple[str, int] | None:
    """The options that disagree with the GPUs, as written, and the number of GPUs that they mean; None where none does, or
    one of their values is not known."""
    nodes = options.get("nnodes", ("", 1))[1]
    for name in _LAUNCHERS:
        if name in options:
            said, number = options[name]
            return (said, number) if number is not None and number != gpus else None
    if "num-processes" in options:
        said, number = options["num-processes"]
        if number is None or nodes is None or number in (1, gpus * nodes):  # 1: the processes are its own to start
            return None
        return None if together or number % nodes else (said, number // nodes)
    model = [options[name] for name in _MODEL if name in options]
    sizes = [size for _, size in model if size is not None]
    if not model or len(sizes) != len(model) or nodes is None or "tp" not in options:
        return None
    said, total = " ".join(text for text, _ in model), prod(sizes)
    partial = {prod(sizes[: n + 1]) for n in range(len(sizes))} | {sizes[0] * sizes[-1], max(sizes)}
    if gpus in partial or gpus * nodes in partial:
        return None
    if (together or nodes > 1) and total >= gpus:
        return None  # the rest of it is on other pods
    return said, -(-total // nodes)


def _options(spec: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, tuple[str, int | None]]:
    """The options that say a number of GPUs, by one name for all spellings: as written, and the number; None where it is not
    known, or written twice: of two programs."""
    found: dict[str, tuple[str, int | None]] = {}
    words = [each for word in _words(spec) for each in _split(word)]
    for word, following in pairwise([*words, ""]):
        option, equals, value = word.partition("=")
        name = _ALIASES.get(option.lstrip("-").replace("_", "-")) if option.startswith("-") else None
        if name is not None:
            value = _REFERENCE.sub(
                lambda m: variables.get(m[1] or m[2] or m[3], "?"), value if equals else following
            ).strip("'\"")
            said, number = f"{option[:64]}={value[:16]}" if equals else f"{option[:64]} {value[:16]}", _number(value)
            found[name] = (said, None if name in found else number)
    return found


def _words(spec: Mapping[str, Any]) -> list[str]:
    return [word for part in ("command", "args") for word in spec.get(part) or ()]


def _split(word: str) -> list[str]:
    """The words of a command line that is one argument, as of `sh -c`."""
    return [each for line in word.splitlines() for each in line.partition(" #")[0].split()]


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 6 and int(text) else None


def _work_together(context: Context) -> bool:
    """Whether the pod may be one of several that run one program."""
    if context.owner is None:
        return False
    if context.owner.kind in _TOGETHER:
        return True
    several = context.replicas != 1 if context.template else True
    return several and context.owner.kind in ("Job", "StatefulSet")

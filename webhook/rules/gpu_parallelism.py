"""The parallelism in the arguments of a container is the number of GPUs that it asks for.

With more processes than GPUs the program fails once it has started; with fewer, GPUs stand idle.

Fields read:   command, args and env of containers with whole GPUs; the owner and the replicas of the workload
Allowed:       launchers (--nproc_per_node, --num-gpus) with as many processes as GPUs, with `gpu` or `auto`; a model
               (--tensor-parallel-size) over as many GPUs as there are, alone or times pipeline and data parallelism, on one
               node of --nnodes; values that are not numbers; an option that is given twice, by two programs
Warned about:  another number; WORLD_SIZE in a pod that works alone. Where several pods work together (a gang, Ray, MPI) only
               fewer than the GPUs of one pod
Not for DRA:   how many devices a claim brings is not known here. Nor for parts of GPUs.

Source: vLLM and SGLang engine arguments, TensorRT-LLM, TGI (--num-shard), torchrun, DeepSpeed, Accelerate, FastChat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise
from math import prod
from typing import Any, ClassVar, NamedTuple

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.resources_per_gpu import containers_with_whole_gpus
from webhook.kube.pod import Pod
from webhook.text import plural, quoted

_MEANING = {
    "per container": ("nproc-per-node", "num-gpus", "num-shard", "gpus-per-node"),
    "processes": ("num-processes",),
    "tensor": ("tensor-parallel-size", "tensor-parallel", "tensor-model-parallel-size", "tp", "tp-size"),
    "pipeline": ("pipeline-parallel-size", "pipeline-parallel", "pipeline-model-parallel-size", "pp", "pp-size"),
    "data": ("data-parallel-size", "data-parallel-size-local", "dp", "dp-size"),
    "nodes": ("nnodes", "nodes", "num-machines"),
}
_MEANING_OF = {option: meaning for meaning, options in _MEANING.items() for option in options}
_GANGS = frozenset(
    (
        *("AppWrapper", "JAXJob", "JobSet", "LeaderWorkerSet", "MPIJob", "PaddleJob", "PodClique", "PodCliqueSet"),
        *("PyTorchJob", "RayCluster", "RayJob", "RayService", "TFJob", "TrainJob", "TrainingRuntime", "XGBoostJob"),
    )
)
_MAX_ARGUMENTS = 32 << 10
"""Characters of all arguments of a pod that are looked at."""
_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")


class _Option(NamedTuple):
    written: str
    number: int | None
    """None where it is not known."""


class GpuParallelism(Rule):
    """The parallelism in the arguments (--tensor-parallel-size, --nproc_per_node, …) is the number of GPUs asked for."""

    not_exported: ClassVar[str] = "reads command lines"

    action: Action = "warn"

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if not context.gpu_names:
            return
        if sum([len(each) for c in context.containers(pod) for each in _arguments(c.spec)]) > _MAX_ARGUMENTS:
            return
        alone = _works_alone(context)
        for container, counts in containers_with_whole_gpus(context.containers(pod), context.gpus):
            spec, gpus, field = container.spec, sum(counts.values()), "args"
            env = {entry.get("name"): str(entry.get("value") or "") for entry in spec.get("env") or ()}
            options = _options(spec, env)
            written, number = _for_one_container(options, gpus, alone)
            if not options and alone and env.get("MASTER_ADDR", "") in ("", "localhost", "127.0.0.1", "::1"):
                world = env.get("WORLD_SIZE", "")
                field, written, number = "env", f"WORLD_SIZE={world}", _number(world)
            if number in (None, gpus) or (spec.get("resources") or {}).get("claims"):
                continue
            yield Finding(
                path=f"{container.field}.{field}",
                seen=f"{written} beside {plural(gpus, 'GPU')} in container {quoted(container.name)}",
                wanted="the same number: the program would "
                + ("fail once it has started" if number > gpus else "leave GPUs idle"),
                fix=f"Ask for {plural(number, 'GPU')}, or write {gpus}",
            )


def _for_one_container(options: Mapping[str, _Option], gpus: int, alone: bool) -> _Option:
    """The options that count GPUs, and how many that are for one container; no number where none of them is surely wrong."""
    if "per container" in options:
        return options["per container"]
    counted = ("processes",) if "processes" in options else ("tensor", "pipeline", "data")
    sizes = [options[meaning] for meaning in counted if meaning in options]
    numbers, nodes = [size.number for size in sizes if size.number], options.get("nodes", _Option("", 1)).number
    if counted[0] not in options or len(numbers) < len(sizes) or nodes is None:
        return _Option("", None)
    right = {gpus, gpus * nodes} | ({1} if "processes" in options else set())  # 1: a process that starts the others
    products = {prod(some) for count in range(len(numbers)) for some in combinations(numbers, count + 1)}
    if right & products or (prod(numbers) >= gpus and (nodes > 1 or not alone)):  # the rest may be on other pods
        return _Option("", None)
    return _Option(" ".join([size.written for size in sizes]), -(-prod(numbers) // nodes))


def _arguments(spec: Mapping[str, Any]) -> list[str]:
    return [each for part in ("command", "args") for each in spec.get(part) or ()]


def _options(spec: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, _Option]:
    """The options that are known, by meaning. An argument may be a whole script, as of `sh -c`."""
    options: dict[str, _Option] = {}
    words = [
        word for each in _arguments(spec) for line in each.splitlines() for word in line.partition(" #")[0].split()
    ]
    for word, following in pairwise([*words, ""]):
        if not word.startswith("-"):
            continue
        option, equals, value = word.partition("=")
        meaning = _MEANING_OF.get(option.lstrip("-").replace("_", "-"))
        if meaning is not None:
            value = _REFERENCE.sub(lambda m: env.get(m[1] or m[2] or m[3], "?"), value if equals else following)
            value = value.strip("'\"")
            number = None if meaning in options else _number(value)  # given twice: by two programs
            options[meaning] = _Option(f"{option[:64]}{equals or ' '}{value[:16]}", number)
    return options


def _number(text: str) -> int | None:
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 6 else None


def _works_alone(context: Context) -> bool:
    """Whether the pod runs its program by itself, and not as one of several."""
    kind = context.owner.kind if context.owner else ""
    one = context.template and context.replicas == 1
    return kind not in _GANGS and (one or kind not in ("Job", "StatefulSet"))

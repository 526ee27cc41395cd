"""The parallelism in the arguments of a container is the number of GPUs that it asks for.

With more processes than GPUs the program fails once it has started; with fewer, GPUs stand idle.

Fields read:   command, args and env of containers with whole GPUs; the owner and the replicas of the workload
Allowed:       launchers (--nproc_per_node, --num-gpus) with as many processes as GPUs, with `gpu` or `auto`; a model
               (--tensor-parallel-size) over as many GPUs as there are, alone or times pipeline and data parallelism, on one
               node of --nnodes; values that are not numbers; an option that is given twice, by two programs
Warned about:  another number, also in a variable that stands for the option (PET_NPROC_PER_NODE, NUM_SHARD,
               TENSOR_PARALLEL_SIZE); WORLD_SIZE in a pod that works alone. Where several pods work together (a gang, Ray,
               MPI) only fewer than the GPUs of one pod
Not for DRA:   how many devices a claim brings is not known here. Nor for parts of GPUs.

Source: vLLM and SGLang engine arguments, TensorRT-LLM, TGI (--num-shard), torchrun, DeepSpeed, Accelerate, FastChat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import ClassVar

from webhook.framework.arguments import Option, arguments, number, options, variables
from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.resources_per_gpu import containers_with_whole_gpus
from webhook.kube.pod import Pod
from webhook.text import plural, quoted

_OPTIONS = {
    "per container": ("nproc-per-node", "num-gpus", "num-shard", "gpus-per-node"),
    "processes": ("num-processes", "world-size"),
    "tensor": ("tensor-parallel-size", "tensor-parallel", "tensor-model-parallel-size", "tp", "tp-size"),
    "pipeline": ("pipeline-parallel-size", "pipeline-parallel", "pipeline-model-parallel-size", "pp", "pp-size"),
    "data": ("data-parallel-size", "data-parallel-size-local", "dp", "dp-size"),
    "nodes": ("nnodes", "nodes", "num-machines"),
}
_VARIABLES = {
    **dict.fromkeys(("PET_NPROC_PER_NODE", "NPROC_PER_NODE", "NUM_SHARD"), "per container"),
    **dict.fromkeys(("TENSOR_PARALLEL_SIZE", "NIM_TENSOR_PARALLEL_SIZE"), "tensor"),
    **dict.fromkeys(("PIPELINE_PARALLEL_SIZE", "NIM_PIPELINE_PARALLEL_SIZE"), "pipeline"),
}
"""Of torchrun, TGI, NIM, and the charts and images of vLLM."""
_WITHOUT_TENSOR = (
    "--data-parallel-size",
    "--data_parallel_size",
    "--pipeline-parallel-size",
    "--pipeline_parallel_size",
)
"""These say how many GPUs there are to be where the size of a tensor is left out: that is 1 then."""
_MEANINGS = {option: meaning for meaning, spellings in _OPTIONS.items() for option in spellings}
_GANGS = (
    *("AppWrapper", "JAXJob", "JobSet", "LeaderWorkerSet", "MPIJob", "PaddleJob", "PodClique", "PodCliqueSet"),
    *("PyTorchJob", "RayCluster", "RayJob", "RayService", "TFJob", "TrainJob", "TrainingRuntime", "XGBoostJob"),
)
_MAX_ARGUMENTS = 32 << 10
"""Characters of all arguments of a pod that are looked at."""
_UNKNOWN = Option("", None)
_HERE = ("", "localhost", "127.0.0.1", "::1")


class GpuParallelism(Rule):
    """The parallelism in the arguments (--tensor-parallel-size, --nproc_per_node, …) is the number of GPUs asked for."""

    not_exported: ClassVar[str] = "reads command lines"

    action: Action = "warn"

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        every = context.containers(pod) if context.gpu_names else ()
        if sum([len(each) for container in every for each in arguments(container.spec)]) > _MAX_ARGUMENTS:
            return
        alone = _works_alone(context)
        for container, counts in containers_with_whole_gpus(every, context.gpus):
            spec, gpus, field = container.spec, sum(counts.values()), "args"
            given = options(spec, _MEANINGS)
            if not given:
                given, field = _in_variables(variables(spec), alone), "env"
            processes = _for_one_container(given, gpus, alone)
            if processes.number in (None, gpus) or (spec.get("resources") or {}).get("claims"):
                continue
            ends = "fail once it has started" if processes.number > gpus else "leave GPUs idle"
            yield Finding(
                path=f"{container.field}.{field}",
                seen=f"{processes.written} beside {plural(gpus, 'GPU')} in container {quoted(container.name)}",
                wanted=f"the same number: the program would {ends}",
                fix=f"Ask for {plural(processes.number, 'GPU')}, or write {gpus}",
            )


def _in_variables(env: Mapping[str, str], alone: bool) -> dict[str, Option]:
    """As `options`, of variables that programs read in place of them. `alone`: then WORLD_SIZE is said of this pod."""
    found = {
        _VARIABLES[name]: Option(f"{name}={value[:16]}", number(value))
        for name, value in env.items()
        if name in _VARIABLES
    }
    world = env.get("WORLD_SIZE", "")
    if not found and world and alone and env.get("MASTER_ADDR", "") in _HERE:
        found["per container"] = Option(f"WORLD_SIZE={world[:16]}", number(world))
    return found


def _for_one_container(given: Mapping[str, Option], gpus: int, alone: bool) -> Option:
    """How many GPUs the options need in one container; no number where that may be right, or is not known."""
    if "per container" in given:
        return given["per container"]
    counted = ("processes",) if "processes" in given else ("tensor", "pipeline", "data")
    every = [given[meaning] for meaning in counted if meaning in given]
    sizes, nodes = [each.number or 0 for each in every], given.get("nodes", Option("", 1)).number
    known = counted[0] in given or bool(every and every[0].written.startswith(_WITHOUT_TENSOR))
    if not known or 0 in sizes or nodes is None:
        return _UNKNOWN
    needed = {prod(sizes)}
    if counted[0] in given:
        needed |= {sizes[0] * other for other in (1, *sizes[1:])}
    starts_the_others = counted == ("processes",) and sizes == [1]
    if starts_the_others or needed & {gpus, gpus * nodes} or (prod(sizes) >= gpus and (nodes > 1 or not alone)):
        return _UNKNOWN
    return Option(" ".join([each.written for each in every]), -(-prod(sizes) // nodes))


def _works_alone(context: Context) -> bool:
    """Whether the pod runs its program by itself, and not as one of several."""
    kind = context.owner.kind if context.owner else ""
    one = context.template and context.replicas == 1
    return kind not in _GANGS and (one or kind not in ("Job", "StatefulSet"))

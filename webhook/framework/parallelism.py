"""How many GPUs the options and variables of a program tell it to use. Sources: see `webhook.rules.gpu_parallelism`."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from webhook.framework.arguments import Option, number, options, variables

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
"""Variables of torchrun, TGI, NIM, and of the charts and images of vLLM."""
_WITHOUT_TENSOR = (
    "--data-parallel-size",
    "--data_parallel_size",
    "--pipeline-parallel-size",
    "--pipeline_parallel_size",
)
"""Options that give the number of GPUs even without an option for tensor parallelism, whose default is 1."""
_MEANINGS = {option: meaning for meaning, spellings in _OPTIONS.items() for option in spellings}
_UNKNOWN = Option("", None)
_LOCAL_ADDRESSES = ("", "localhost", "127.0.0.1", "::1")


def gpus_used(spec: Mapping[str, Any], gpus: int, alone: bool) -> tuple[Option, str]:
    """The number of GPUs that the program in container `spec` is told to use, and the field that says so: "args" or "env".

    `gpus` is the number that the container has. The returned number is None if nothing is known, or if `gpus` may be right.
    `alone`: the program runs in this pod only, and not in several pods together.
    """
    parallelism = options(spec, _MEANINGS)
    if parallelism:
        return _for_one_container(parallelism, gpus, alone), "args"
    return _for_one_container(_in_variables(variables(spec), alone), gpus, alone), "env"


def _in_variables(env: Mapping[str, str], alone: bool) -> dict[str, Option]:
    """As `options`, from the variables that programs read instead. WORLD_SIZE counts only if the program runs `alone`."""
    parallelism = {
        _VARIABLES[name]: Option(f"{name}={value[:16]}", number(value))
        for name, value in env.items()
        if name in _VARIABLES
    }
    world = env.get("WORLD_SIZE", "")
    if not parallelism and world and alone and env.get("MASTER_ADDR", "") in _LOCAL_ADDRESSES:
        parallelism["per container"] = Option(f"WORLD_SIZE={world[:16]}", number(world))
    return parallelism


def _for_one_container(parallelism: Mapping[str, Option], gpus: int, alone: bool) -> Option:
    """The number of GPUs that the options need in one container; None if nothing is known, or if `gpus` may be right."""
    if "per container" in parallelism:
        return parallelism["per container"]
    meanings = ("processes",) if "processes" in parallelism else ("tensor", "pipeline", "data")
    factors = [parallelism[meaning] for meaning in meanings if meaning in parallelism]
    sizes, nodes = [option.number or 0 for option in factors], parallelism.get("nodes", Option("", 1)).number
    known = meanings[0] in parallelism or bool(factors and factors[0].written.startswith(_WITHOUT_TENSOR))
    if not known or 0 in sizes or nodes is None:
        return _UNKNOWN
    total = prod(sizes)
    possible = {total}
    if meanings[0] in parallelism:  # pipeline and data parallelism may use the same GPUs
        possible |= {sizes[0] * other for other in (1, *sizes[1:])}
    in_several_pods = total >= gpus and (nodes > 1 or not alone)
    one_process = meanings == ("processes",) and sizes == [1]  # it may start a process for each GPU itself
    if possible & {gpus, gpus * nodes} or in_several_pods or one_process:
        return _UNKNOWN
    return Option(" ".join([option.written for option in factors]), -(-total // nodes))

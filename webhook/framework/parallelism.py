"""How many GPUs the options and variables of a program tell it to use. Sources: see `webhook.rules.gpu_parallelism`.

Options are read from the command line of a container: `--tp 8` and `--tp=8`, also inside a script for `sh -c`.
"""

import re
from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

_REFERENCE = re.compile(r"\$(?:\((\w+)\)|\{(\w+)\}|(\w+))")
"""A reference to a variable: `$(N)` in Kubernetes, `${N}` and `$N` in a shell."""
_BEFORE, _AFTER = "'\"(", "'\");&|"
"""Characters of a shell script that may stand directly before and after a word."""
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
_NAMES = "|".join([name.replace("-", "[-_]") for name in sorted(_MEANINGS, key=len, reverse=True)])
_OPTION = re.compile(rf"(-(?<![^\s{_BEFORE}]-)-?({_NAMES}))(=|\s+|$)(?=(\S{{0,80}}))")
"""An option, also inside a script: as written, its name, what is between it and its value, and the beginning of the value.
What may stand before it is looked at after its first dash, so that only dashes are tried: a third of the time."""
_COMMENT = re.compile(" #.*")
_SELECTED = "_VISIBLE_DEVICES="
"""A shell gives a program some of the GPUs: there may be one for each."""
_LOCAL_ADDRESSES = ("", "localhost", "127.0.0.1", "::1")


class Option(NamedTuple):
    """One option of a command line. `number` is None if the value is unknown or is not a whole number above 0."""

    written: str
    """The option with its value, shortened: `--tp 8`."""
    number: int | None


_UNKNOWN = Option("", None)


def gpus_used(spec: Mapping[str, Any], script: str, gpus: int, alone: bool) -> tuple[Option, str]:
    """The number of GPUs that the program in container `spec` is told to use, and the field that says so: "args" or "env".

    `script`: what `script_of` says of it. `gpus` is the number that the container has. The returned number is None if nothing is
    known, or if `gpus` may be right. `alone`: the program runs in this pod only, and not in several pods together.
    """
    if _SELECTED in script:
        return _UNKNOWN, "args"
    if parallelism := _options(spec, script):
        return _for_one_container(parallelism, gpus, alone), "args"
    return _for_one_container(_in_variables(_variables(spec), alone), gpus, alone), "env"


def _in_variables(env: Mapping[str, str], alone: bool) -> dict[str, Option]:
    """As `_options`, from the variables that programs read instead. WORLD_SIZE counts only if the program runs `alone`."""
    parallelism = {
        _VARIABLES[name]: Option(f"{name}={value[:16]}", _number(value))
        for name, value in env.items()
        if name in _VARIABLES
    }
    world = env.get("WORLD_SIZE", "")
    if not parallelism and world and alone and env.get("MASTER_ADDR", "") in _LOCAL_ADDRESSES:
        parallelism["per container"] = Option(f"WORLD_SIZE={world[:16]}", _number(world))
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


def script_of(spec: Mapping[str, Any]) -> str:
    """The entries of `command` and then of `args` of a container, one a line."""
    return "\n".join([*(spec.get("command") or ()), *(spec.get("args") or ())])


def _variables(spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables of a container, with "" for a value that comes from a reference (`valueFrom`)."""
    return {entry.get("name", ""): str(entry.get("value") or "") for entry in spec.get("env") or ()}


def _options(spec: Mapping[str, Any], script: str) -> dict[str, Option]:
    """The options of a container, by meaning.

    If a meaning occurs twice, its number is None: two programs run in the container.
    """
    by_meaning: dict[str, Option] = {}
    if " #" in script:
        script = _COMMENT.sub("", script)
    env = _variables(spec) if "$" in script else {}
    for option, name, between, following in _OPTION.findall(script.replace("\\\n", " ")):
        value = _REFERENCE.sub(lambda m: env.get(m[1] or m[2] or m[3], "?"), following).lstrip(_BEFORE).rstrip(_AFTER)
        meaning, equals = _MEANINGS[name.replace("_", "-")], between.strip()
        count = None if meaning in by_meaning else _number(value)
        by_meaning[meaning] = Option(f"{option}{equals or ' '}{value[:16]}", count)
    return by_meaning


def _number(text: str) -> int | None:
    """The number that `text` stands for, if it is a whole number above 0 with at most five digits."""
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 6 else None

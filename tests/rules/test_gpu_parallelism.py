"""Parallelism in arguments compared with the number of GPUs.

Covers framework.parallelism.
"""

from typing import Any

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.framework.interface import Template
from webhook.rules.gpu_parallelism import GpuParallelism

RULE = GpuParallelism()
TP = "--tensor-parallel-size"


def running(
    *args: str, owned_by: str | None = None, gpu: Any = 8, env: dict[str, Any] | None = None, **of: Any
) -> Case:
    return case(pod(containers=[container(gpu=gpu, args=list(args), env=env)], owned_by=owned_by), **of)


def shell(script: str, gpu: int = 8) -> Case:
    return case(pod(containers=[container(gpu=gpu, command=["bash", "-c"], args=[script])]))


ALLOWED: dict[str, Case] = {
    "no arguments": case(pod()),
    "as many as GPUs": running(TP, "8"),
    "with an equals sign": running(f"{TP}=8"),
    "in a shell, with a comment": shell("exec vllm serve m --tensor-parallel-size 8 # not --tp 4\n"),
    "tensor times pipeline": running("--tp", "4", "--pp", "2"),
    "attention in parallel over the same GPUs": running("--tp", "8", "--dp", "8", "--enable-dp-attention"),
    "all three": running("-tp", "2", "-pp", "2", "-dp", "2"),
    "over several nodes": running("--tp", "16", "--nnodes", "2"),
    "a pipeline over several nodes": running(TP, "8", "--pipeline-parallel-size", "2", "--nnodes=2"),
    "a program of several pods": running(TP, "16", owned_by="LeaderWorkerSet"),
    "launched as many times as there are GPUs": running("torchrun", "--nproc_per_node=8", "train.py"),
    "launched on several nodes": running("torchrun", "--nnodes=4", "--nproc-per-node", "8", "--tp", "4", "t.py"),
    "a launcher that counts by itself": running("--nproc_per_node=gpu"),
    "a variable that is known": running(TP, "$(TP)", env={"TP": "8"}),
    "a variable that is not": running(TP, "$(TP)"),
    "a variable of a shell": shell("N=8; torchrun --nproc_per_node=$N train.py"),
    "a variable from elsewhere": running(TP, "${TP}", env={"TP": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
    "a default of the shell": shell("vllm serve m --tp ${TP:-4}"),
    "two programs in one container": shell("serve --tp 2 --port 1 & serve --tp 2 --port 2; wait", 4),
    "accelerate, over two machines": running("--num_processes", "16", "--num_machines", "2"),
    "accelerate, whose program takes a size of its own": running("--num_processes=8", "--dp", "4"),
    "accelerate, one process that starts the others": running("--num_processes=1"),
    "no GPU, as in a test": running("--nproc_per_node=2", gpu=None),
    "a part of a GPU": case(
        pod(containers=[container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"}, args=[TP, "2"])])
    ),
    "a claim beside it": case(
        pod(
            containers=[
                container(gpu=1, args=[TP, "2"])
                | {"resources": {"limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "g"}]}}
            ]
        )
    ),
    "an option that only begins like it": running("--tp-comm-overlap", "2"),
    "more over two nodes than one has": running("--tp", "5", "--nnodes", "2", gpu=2),
    "zero processes": running("--nproc_per_node=0"),
    "a number of six digits": running(TP, "800000"),
    "the size of the world beside that of a model": running(env={"WORLD_SIZE": "4", "TENSOR_PARALLEL_SIZE": "8"}),
    "text that is no number": running(TP, "many"),
    "an option without a value": running(TP),
    "the size of the world": running(env={"WORLD_SIZE": "8"}),
    "the size of a world of several pods": running(env={"WORLD_SIZE": "16", "MASTER_ADDR": "trainer-0"}),
    "the size of the world of a Job's pods": running(env={"WORLD_SIZE": "16"}, owned_by="Job"),
    "a variable beside the option itself": running(TP, "8", env={"TENSOR_PARALLEL_SIZE": "4"}),
    "a variable of torchrun that counts by itself": running(env={"PET_NPROC_PER_NODE": "auto"}, owned_by="PyTorchJob"),
    "data parallelism over several pods": running("--data-parallel-size=16", owned_by="StatefulSet"),
    "data parallelism of which a part is here": running("--data-parallel-size=16", "--data-parallel-size-local=8"),
    "another program's word": running("--dp", "2"),
    "arguments that are longer than anybody writes": running(*["x" * 1000] * 40, TP, "2"),
}


def message(seen: str, number: int, gpus: int = 8, field: str = "args") -> list[str]:
    end = "fail once it has started" if number > gpus else "leave GPUs idle"
    gpu = "GPU" if gpus == 1 else "GPUs"
    asked = "GPU" if number == 1 else "GPUs"
    return [
        f'spec.containers[0].{field}: saw {seen} beside {gpus} {gpu} in container "main", '
        f"wanted the same number: the program would {end}. Ask for {number} {asked}, or write {gpus}."
    ]


_OPTIONS = (
    *(TP, "--tp", "--tensor_parallel_size", "--tp-size", "--data-parallel-size", "--pipeline-parallel-size"),
    *("--world_size", "--nproc_per_node", "--num-gpus", "--num_gpus", "--num-shard", "--num_processes"),
)
_VARIABLES = ("PET_NPROC_PER_NODE", "NUM_SHARD", "TENSOR_PARALLEL_SIZE", "WORLD_SIZE")
_SCRIPTS = {
    "with a continued line": ("set -e\nexec python -m vllm --tp \\\n 4 --port 80", "--tp 4"),
    "with the value in quotes": ('torchrun --nproc_per_node="4" a.py', "--nproc_per_node=4"),
    "quoted as a whole": ('vllm serve m "--tensor-parallel-size=4"', f"{TP}=4"),
    "at the end of a command": ("vllm serve m --tensor-parallel-size 4; sleep 9", f"{TP} 4"),
    "in the background": ("(vllm serve m --tensor-parallel-size=4)& wait", f"{TP}=4"),
}
_HERE = {"WORLD_SIZE": "4", "MASTER_ADDR": "localhost"}
REFUSED: dict[str, tuple[Case, list[str]]] = {
    **{f"{name}, more than GPUs": (running(name, "8", gpu=4), message(f"{name} 8", 8, 4)) for name in _OPTIONS},
    **{
        f"the variable {name}": (running(env={name: "4"}, gpu=2), message(f"{name}=4", 4, 2, "env"))
        for name in _VARIABLES
    },
    **{f"in a shell, {how}": (shell(text, 2), message(seen, 4, 2)) for how, (text, seen) in _SCRIPTS.items()},
    "fewer than GPUs": (running(f"{TP}=4"), message(f"{TP}=4", 4)),
    "beside one GPU": (running("--tp", "2", gpu=1), message("--tp 2", 2, 1)),
    "launched too rarely": (running("--nproc_per_node", "1"), message("--nproc_per_node 1", 1)),
    "tensor times pipeline": (running("--tp", "4", "--pp", "4"), message("--tp 4 --pp 4", 16)),
    "data parallelism beside tensor parallelism": (running("--tp", "4", "--dp", "8"), message("--tp 4 --dp 8", 32)),
    "launched too often on each of several nodes": (
        running("--nnodes=2", "--nproc-per-node=8", gpu=4, owned_by="PyTorchJob"),
        message("--nproc-per-node=8", 8, 4),
    ),
    "a variable that is known": (running(TP, "$(SIZE_OF_IT)", env={"SIZE_OF_IT": "4"}), message(f"{TP} 4", 4)),
    "a part of each of two nodes, rounded up": (running("--tp", "3", "--nnodes", "2"), message("--tp 3", 2)),
    "several pods, each with unused GPUs": (running(TP, "4", owned_by="LeaderWorkerSet"), message(f"{TP} 4", 4)),
    "each replica of a Deployment": (running(TP, "4", gpu=2, owned_by="ReplicaSet"), message(f"{TP} 4", 4, 2)),
    "a Job of one pod": (running(TP, "4", gpu=2, owned_by="Job", template=Template(1)), message(f"{TP} 4", 4, 2)),
    "the size of the world, on this machine": (running(env=_HERE, gpu=2), message("WORLD_SIZE=4", 4, 2, "env")),
}

"""Parallelism in arguments compared with the number of GPUs.

Covers framework.parallelism.
"""

from typing import Any

import pytest

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


ALLOWED = [
    pytest.param(case(pod()), id="no arguments"),
    pytest.param(running(TP, "8"), id="as many as GPUs"),
    pytest.param(running(f"{TP}=8"), id="with an equals sign"),
    pytest.param(shell("exec vllm serve m --tensor-parallel-size 8 # not --tp 4\n"), id="in a shell, with a comment"),
    pytest.param(running("--tp", "4", "--pp", "2"), id="tensor times pipeline"),
    pytest.param(
        running("--tp", "8", "--dp", "8", "--enable-dp-attention"), id="attention in parallel over the same GPUs"
    ),
    pytest.param(running("-tp", "2", "-pp", "2", "-dp", "2"), id="all three"),
    pytest.param(running("--tp", "16", "--nnodes", "2"), id="over several nodes"),
    pytest.param(running(TP, "8", "--pipeline-parallel-size", "2", "--nnodes=2"), id="a pipeline over several nodes"),
    pytest.param(running(TP, "16", owned_by="LeaderWorkerSet"), id="a program of several pods"),
    pytest.param(running("torchrun", "--nproc_per_node=8", "train.py"), id="launched as many times as there are GPUs"),
    pytest.param(
        running("torchrun", "--nnodes=4", "--nproc-per-node", "8", "--tp", "4", "t.py"), id="launched on several nodes"
    ),
    pytest.param(running("--nproc_per_node=gpu"), id="a launcher that counts by itself"),
    pytest.param(running(TP, "$(TP)", env={"TP": "8"}), id="a variable that is known"),
    pytest.param(running(TP, "$(TP)"), id="a variable that is not"),
    pytest.param(shell("N=8; torchrun --nproc_per_node=$N train.py"), id="a variable of a shell"),
    pytest.param(
        running(TP, "${TP}", env={"TP": {"configMapKeyRef": {"name": "c", "key": "k"}}}), id="a variable from elsewhere"
    ),
    pytest.param(shell("vllm serve m --tp ${TP:-4}"), id="a default of the shell"),
    pytest.param(shell("serve --tp 2 --port 1 & serve --tp 2 --port 2; wait", 4), id="two programs in one container"),
    pytest.param(
        shell("for i in 0 1 2 3; do CUDA_VISIBLE_DEVICES=$i vllm serve m --tp 1 --port 800$i & done; wait", 4),
        id="a program for each GPU",
    ),
    pytest.param(running("--num_processes", "16", "--num_machines", "2"), id="accelerate, over two machines"),
    pytest.param(running("--num_processes=8", "--dp", "4"), id="accelerate, whose program takes a size of its own"),
    pytest.param(running("--num_processes=1"), id="accelerate, one process that starts the others"),
    pytest.param(running("--nproc_per_node=2", gpu=None), id="no GPU, as in a test"),
    pytest.param(
        case(pod(containers=[container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"}, args=[TP, "2"])])),
        id="a part of a GPU",
    ),
    pytest.param(
        case(
            pod(
                containers=[
                    container(gpu=1, args=[TP, "2"])
                    | {"resources": {"limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "g"}]}}
                ]
            )
        ),
        id="a claim beside it",
    ),
    pytest.param(running("--tp-comm-overlap", "2"), id="an option that only begins like it"),
    pytest.param(running("--tp", "5", "--nnodes", "2", gpu=2), id="more over two nodes than one has"),
    pytest.param(running("--nproc_per_node=0"), id="zero processes"),
    pytest.param(running(TP, "800000"), id="a number of six digits"),
    pytest.param(
        running(env={"WORLD_SIZE": "4", "TENSOR_PARALLEL_SIZE": "8"}), id="the size of the world beside that of a model"
    ),
    pytest.param(running(TP, "many"), id="text that is no number"),
    pytest.param(running(TP), id="an option without a value"),
    pytest.param(running(env={"WORLD_SIZE": "8"}), id="the size of the world"),
    pytest.param(
        running(env={"WORLD_SIZE": "16", "MASTER_ADDR": "trainer-0"}), id="the size of a world of several pods"
    ),
    pytest.param(running(env={"WORLD_SIZE": "16"}, owned_by="Job"), id="the size of the world of a Job's pods"),
    pytest.param(running(TP, "8", env={"TENSOR_PARALLEL_SIZE": "4"}), id="a variable beside the option itself"),
    pytest.param(
        running(env={"PET_NPROC_PER_NODE": "auto"}, owned_by="PyTorchJob"),
        id="a variable of torchrun that counts by itself",
    ),
    pytest.param(running("--data-parallel-size=16", owned_by="StatefulSet"), id="data parallelism over several pods"),
    pytest.param(
        running("--data-parallel-size=16", "--data-parallel-size-local=8"),
        id="data parallelism of which a part is here",
    ),
    pytest.param(running("--dp", "2"), id="another program's word"),
    pytest.param(running(*["x" * 1000] * 40, TP, "2"), id="arguments that are longer than anybody writes"),
]


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
REFUSED = [
    *[
        pytest.param(running(name, "8", gpu=4), message(f"{name} 8", 8, 4), id=f"{name}, more than GPUs")
        for name in _OPTIONS
    ],
    *[
        pytest.param(running(env={name: "4"}, gpu=2), message(f"{name}=4", 4, 2, "env"), id=f"the variable {name}")
        for name in _VARIABLES
    ],
    *[
        pytest.param(shell(text, 2), message(seen, 4, 2), id=f"in a shell, {how}")
        for how, (text, seen) in _SCRIPTS.items()
    ],
    pytest.param(running(f"{TP}=4"), message(f"{TP}=4", 4), id="fewer than GPUs"),
    pytest.param(running("--tp", "2", gpu=1), message("--tp 2", 2, 1), id="beside one GPU"),
    pytest.param(running("--nproc_per_node", "1"), message("--nproc_per_node 1", 1), id="launched too rarely"),
    pytest.param(running("--tp", "4", "--pp", "4"), message("--tp 4 --pp 4", 16), id="tensor times pipeline"),
    pytest.param(
        running("--tp", "4", "--dp", "8"), message("--tp 4 --dp 8", 32), id="data parallelism beside tensor parallelism"
    ),
    pytest.param(
        running("--nnodes=2", "--nproc-per-node=8", gpu=4, owned_by="PyTorchJob"),
        message("--nproc-per-node=8", 8, 4),
        id="launched too often on each of several nodes",
    ),
    pytest.param(
        running(TP, "$(SIZE_OF_IT)", env={"SIZE_OF_IT": "4"}), message(f"{TP} 4", 4), id="a variable that is known"
    ),
    pytest.param(
        running("--tp", "3", "--nnodes", "2"), message("--tp 3", 2), id="a part of each of two nodes, rounded up"
    ),
    pytest.param(
        running(TP, "4", owned_by="LeaderWorkerSet"), message(f"{TP} 4", 4), id="several pods, each with unused GPUs"
    ),
    pytest.param(
        running(TP, "4", gpu=2, owned_by="ReplicaSet"), message(f"{TP} 4", 4, 2), id="each replica of a Deployment"
    ),
    pytest.param(
        running(TP, "4", gpu=2, owned_by="Job", template=Template(1)), message(f"{TP} 4", 4, 2), id="a Job of one pod"
    ),
    pytest.param(
        running(env=_HERE, gpu=2), message("WORLD_SIZE=4", 4, 2, "env"), id="the size of the world, on this machine"
    ),
]

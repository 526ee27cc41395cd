"""Parallelism in arguments compared with the number of GPUs.

Covers framework.parallelism.
"""

from typing import Any

from tests.builders import Case, case, container, pod
from webhook.framework.interface import Template
from webhook.rules.gpu_parallelism import GpuParallelism

RULE = GpuParallelism()


def serving(*args: str, gpu: Any = 8, env: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return container(gpu=gpu, args=list(args), env=env, **fields)


def running(*args: str, owned_by: str | None = None, **more: Any) -> Case:
    return case(pod(serving(*args, **more), owned_by=owned_by))


TP = "--tensor-parallel-size"
ALLOWED: dict[str, Case] = {
    "no arguments": case(pod()),
    "as many as GPUs": running(TP, "8"),
    "with an equals sign": running(f"{TP}=8"),
    "in an array of a shell": case(
        pod(container(gpu=4, command=["sh", "-c"], args=["exec vllm serve m --tensor-parallel-size 4 # not 8\n"]))
    ),
    "tensor times pipeline": running("--tp", "4", "--pp", "2"),
    "tensor times data": running("--tp-size=4", "--dp-size=2"),
    "attention in parallel over the same GPUs": running("--tp", "8", "--dp", "8", "--enable-dp-attention"),
    "all three": running("-tp", "2", "-pp", "2", "-dp", "2"),
    "over several nodes": running("--tp", "16", "--nnodes", "2"),
    "a pipeline over several nodes": running(TP, "8", "--pipeline-parallel-size", "2", "--nnodes=2"),
    "a program of several pods": running(TP, "16", owned_by="LeaderWorkerSet"),
    "a program of Ray": running(TP, "8", "--pipeline-parallel-size=4", owned_by="RayCluster"),
    "launched as many times as there are GPUs": running("torchrun", "--nproc_per_node=8", "train.py"),
    "launched on several nodes": running("torchrun", "--nnodes=4", "--nproc-per-node", "8", "--tp", "4", "t.py"),
    "a launcher that counts by itself": running("--nproc_per_node=gpu"),
    "a launcher that counts by itself, in other words": running("--nproc-per-node", "auto"),
    "a variable that is known": running(TP, "$(TP)", env={"TP": "8"}),
    "a variable that is not": running(TP, "$(TP)"),
    "a variable of a shell": case(
        pod(container(gpu=8, command=["bash", "-c", "N=8; torchrun --nproc_per_node=$N train.py"]))
    ),
    "a variable from elsewhere": running(TP, "${TP}", env={"TP": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
    "two programs in one container": case(
        pod(container(gpu=4, command=["sh", "-c", "serve --tp 2 --port 1 & serve --tp 2 --port 2; wait"]))
    ),
    "accelerate, over two machines": running("--num_processes", "16", "--num_machines", "2"),
    "accelerate, whose program takes a size of its own": running("--num_processes=8", "--dp", "4"),
    "accelerate, one process that starts the others": running("--num_processes=1"),
    "no GPU, as in a test": running("--nproc_per_node=2", gpu=None),
    "a part of a GPU": case(pod(container(gpu=None, limits={"nvidia.com/mig-1g.10gb": "1"}, args=[TP, "2"]))),
    "a claim beside it": case(
        pod(container(gpu=1, args=[TP, "2"]) | {"resources": {"limits": {"nvidia.com/gpu": "1"}, "claims": [{"name": "g"}]}})
    ),
    "an option that only begins like it": running("--tp-comm-overlap", "2"),
    "text that is no number": running(TP, "many"),
    "an option without a value": running(TP),
    "the size of the world": running(env={"WORLD_SIZE": "8"}),
    "the size of a world of several pods": running(env={"WORLD_SIZE": "16", "MASTER_ADDR": "trainer-0"}),
    "the size of the world of a Job's pods": running(env={"WORLD_SIZE": "16"}, owned_by="Job"),
    "a variable beside the option itself": running(TP, "8", env={"TENSOR_PARALLEL_SIZE": "4"}),
    "a variable of torchrun that counts by itself": running(env={"PET_NPROC_PER_NODE": "auto"}, owned_by="PyTorchJob"),
    "a variable with as many as GPUs": running(env={"NUM_SHARD": "8"}),
    "data parallelism alone": running("--data-parallel-size", "8"),
    "data parallelism over several pods": running("--data-parallel-size=16", owned_by="StatefulSet"),
    "data parallelism of which a part is here": running("--data-parallel-size=16", "--data-parallel-size-local=8"),
    "another program's word": running("--dp", "2"),
    "a default of the shell": case(pod(container(gpu=8, command=["sh", "-c", "vllm serve m --tp ${TP:-4}"]))),
    "arguments that are longer than anybody writes": running(*["x" * 1000] * 40, TP, "2"),
}  # fmt: skip


def _message(seen: str, number: int, gpus: int = 8, field: str = "args") -> list[str]:
    end = "fail once it has started" if number > gpus else "leave GPUs idle"
    gpu = "GPU" if gpus == 1 else "GPUs"
    asked = "GPU" if number == 1 else "GPUs"
    return [
        f'spec.containers[0].{field}: saw {seen} beside {gpus} {gpu} in container "main", '
        f"wanted the same number: the program would {end}. Ask for {number} {asked}, or write {gpus}."
    ]


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "more than GPUs": (running(TP, "8", gpu=4), _message(f"{TP} 8", 8, 4)),
    "fewer than GPUs": (running(f"{TP}=4"), _message(f"{TP}=4", 4)),
    "in another spelling": (running("--tp", "2", gpu=1), _message("--tp 2", 2, 1)),
    "with underscores": (running("--tensor_parallel_size=2", gpu=1), _message("--tensor_parallel_size=2", 2, 1)),
    "of SGLang": (running("--tp-size", "8", gpu=4), _message("--tp-size 8", 8, 4)),
    "tensor times pipeline": (running("--tp", "4", "--pp", "4"), _message("--tp 4 --pp 4", 16)),
    "data parallelism that needs more than the GPUs": (running("--tp", "4", "--dp", "8"), _message("--tp 4 --dp 8", 32)),
    "in a shell": (
        case(pod(container(gpu=2, command=["/bin/bash", "-c"], args=["set -e\nexec python -m vllm --tp 4 \\\n --port 80"]))),
        _message("--tp 4", 4, 2),
    ),
    "in a shell, with the value in quotes": (
        case(pod(container(gpu=2, command=["bash", "-c", 'torchrun --nproc_per_node="4" a.py']))),
        _message("--nproc_per_node=4", 4, 2),
    ),
    "in a shell, quoted as a whole": (
        case(pod(container(gpu=2, command=["sh", "-c", 'vllm serve m "--tensor-parallel-size=4"']))),
        _message(f"{TP}=4", 4, 2),
    ),
    "in a shell, at the end of a command": (
        case(pod(container(gpu=2, command=["sh", "-c", "vllm serve m --tensor-parallel-size 4; sleep 9"]))),
        _message(f"{TP} 4", 4, 2),
    ),
    "in a shell, in the background": (
        case(pod(container(gpu=2, command=["sh", "-c", "(vllm serve m --tensor-parallel-size=4)& wait"]))),
        _message(f"{TP}=4", 4, 2),
    ),
    "in a shell, with a continued line": (
        case(pod(container(gpu=2, command=["sh", "-c", "vllm serve m --tensor-parallel-size \\\n  4 --port 1"]))),
        _message(f"{TP} 4", 4, 2),
    ),
    "data parallelism alone": (running("--data-parallel-size", "8", gpu=4), _message("--data-parallel-size 8", 8, 4)),
    "a pipeline alone": (running("--pipeline-parallel-size=2", gpu=1), _message("--pipeline-parallel-size=2", 2, 1)),
    "the size of the world, as an option": (running("--world_size=4", gpu=2), _message("--world_size=4", 4, 2)),
    "a variable of torchrun": (
        running(env={"PET_NPROC_PER_NODE": "8"}, gpu=4, owned_by="PyTorchJob"),
        _message("PET_NPROC_PER_NODE=8", 8, 4, "env"),
    ),
    "a variable of TGI": (running(env={"NUM_SHARD": "4"}, gpu=2), _message("NUM_SHARD=4", 4, 2, "env")),
    "a variable of a chart": (
        running(env={"TENSOR_PARALLEL_SIZE": "4"}, gpu=2), _message("TENSOR_PARALLEL_SIZE=4", 4, 2, "env")
    ),
    "launched too often": (running("torchrun", "--nproc_per_node=8", gpu=4), _message("--nproc_per_node=8", 8, 4)),
    "launched too often on each of several nodes": (
        running("--nnodes=2", "--nproc-per-node=8", gpu=4, owned_by="PyTorchJob"), _message("--nproc-per-node=8", 8, 4)
    ),
    "launched too rarely": (running("--nproc_per_node", "1"), _message("--nproc_per_node 1", 1)),
    "of FastChat and DeepSpeed": (running("--num-gpus", "4", gpu=1), _message("--num-gpus 4", 4, 1)),
    "of DeepSpeed": (running("deepspeed", "--num_gpus=4"), _message("--num_gpus=4", 4)),
    "of TGI": (running("--num-shard", "2", gpu=1), _message("--num-shard 2", 2, 1)),
    "accelerate": (running("--num_processes=4", gpu=8), _message("--num_processes=4", 4)),
    "a variable that is known": (running(TP, "$(TP)", env={"TP": "4"}), _message(f"{TP} 4", 4)),
    "several pods, each with unused GPUs": (
        running(TP, "4", owned_by="LeaderWorkerSet"), _message(f"{TP} 4", 4)
    ),
    "each replica of a Deployment": (running(TP, "4", gpu=2, owned_by="ReplicaSet"), _message(f"{TP} 4", 4, 2)),
    "a Job of one pod": (
        case(pod(serving(TP, "4", gpu=2), owned_by="Job"), template=Template(1)), _message(f"{TP} 4", 4, 2)
    ),
    "the size of the world": (running(env={"WORLD_SIZE": "4"}), _message("WORLD_SIZE=4", 4, 8, "env")),
    "the size of the world, on this machine": (
        running(env={"WORLD_SIZE": "4", "MASTER_ADDR": "localhost"}, gpu=2), _message("WORLD_SIZE=4", 4, 2, "env")
    ),
}  # fmt: skip

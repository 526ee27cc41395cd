"""The parallelism in the arguments of a container equals the number of GPUs that it asks for.

With more processes than GPUs the program fails; with fewer GPUs stay unused.

Fields read:   command, args and env of containers with whole GPUs; the owner and the replicas of the workload
Allowed:       a launcher (--nproc_per_node, --num-gpus) with as many processes as GPUs, or with `gpu` or `auto`; a model
               (--tensor-parallel-size) over the GPUs of the container, or of all nodes of --nnodes, alone or multiplied by
               pipeline and data parallelism; values that are not numbers; an option that occurs twice; a script that gives a
               program some of the GPUs (CUDA_VISIBLE_DEVICES=$i)
Warned about:  another number, also in a variable for the option (PET_NPROC_PER_NODE, NUM_SHARD, TENSOR_PARALLEL_SIZE) and in
               WORLD_SIZE of a pod that works alone. If several pods work together (a gang, Ray, MPI), only a number below the
               GPUs of one pod
Not for:       parts of GPUs; DRA, where the number of GPUs is in the claim

Source: vLLM and SGLang engine arguments, TensorRT-LLM, TGI (--num-shard), torchrun, DeepSpeed, Accelerate, FastChat.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.parallelism import gpus_used, script_of
from webhook.kube.asked import AskedPod
from webhook.kube.workload_kinds import WORKING_TOGETHER, workload_kind
from webhook.text import plural, quoted

_MAX_ARGUMENTS = 32 << 10
"""Characters of all arguments, one a line, of the containers with GPUs together. With more than that nothing is checked."""


class GpuParallelism(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "reads command lines"

    action: Action = "warn"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        if not pod.gpu_names:
            return
        scripts = [script_of(container.spec) for container, _ in pod.whole_gpus]
        if sum(map(len, scripts)) > _MAX_ARGUMENTS:
            return
        alone = _works_alone(pod, context)
        for (container, gpus), script in zip(pod.whole_gpus, scripts, strict=True):
            spec = container.spec
            processes, field = gpus_used(spec, script, gpus, alone)
            if processes.number in (None, gpus) or (spec.get("resources") or {}).get("claims"):
                continue
            ends = "fail once it has started" if processes.number > gpus else "leave GPUs idle"
            yield Finding(
                path=f"{container.field}.{field}",
                seen=f"{processes.written} beside {plural(gpus, 'GPU')} in container {quoted(container.name)}",
                wanted=f"the same number: the program would {ends}",
                fix=f"Ask for {plural(processes.number, 'GPU')}, or write {gpus}",
            )


def _works_alone(pod: AskedPod, context: Context) -> bool:
    """Whether the program runs in this pod only, and not in several pods together."""
    kind = workload_kind(pod.labels, pod.owner.kind if pod.owner else "")
    single = context.template is not None and context.template.replicas == 1
    return single if kind in ("Job", "StatefulSet") else kind not in WORKING_TOGETHER

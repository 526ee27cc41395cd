"""Parts of GPUs by annotation."""

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.gpu_fraction import GpuFraction

RULE = GpuFraction()


def part(*, gpu: int | None = None, scheduler: str = "kai-scheduler", **annotations: str) -> Pod:
    keys = {key.replace("_", "-"): value for key, value in annotations.items()}
    return pod(containers=[container(gpu=gpu)], annotations=keys, schedulerName=scheduler)


ALLOWED: dict[str, Case] = {
    "no such annotation": case(pod(annotations={"team": "ml"})),
    "half a GPU": case(part(gpu_fraction="0.5")),
    "half of two GPUs": case(part(gpu_fraction="0.5", gpu_fraction_num_devices="2")),
    "some memory of a GPU": case(part(gpu_memory="4096")),
    "another scheduler that reads it": case(
        part(gpu_fraction="0.5", scheduler="mine"), rule=GpuFraction(schedulers=("mine",))
    ),
}


def message(key: str, seen: str, wanted: str) -> list[str]:
    return [f"metadata.annotations[{key}]: saw {seen}, wanted {wanted}"]


_FRACTION = 'a number above 0 and below 1. Write a number such as "0.5".'
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "half a GPU beside a whole one": (
        case(part(gpu=1, gpu_fraction="0.5")),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: saw a GPU resource beside the annotation gpu-fraction="0.5", wanted one of the two. '
            "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones."
        ],
    ),
    "a fraction and an amount of memory": (
        case(part(gpu_fraction="0.5", gpu_memory="4096")),
        message(
            "gpu-fraction", '"0.5" beside gpu-memory', "one of the two. Keep gpu-fraction or gpu-memory, not both."
        ),
    ),
    **{
        f"a fraction of {text}": (case(part(gpu_fraction=text)), message("gpu-fraction", f'"{text}"', _FRACTION))
        for text in ("1", "0", "0.0", "500m")
    },
    "memory with a unit": (
        case(part(gpu_memory="4Gi")),
        message(
            "gpu-memory",
            '"4Gi"',
            'megabytes of GPU memory, as a whole number above 0. Write a number such as "4096".',
        ),
    ),
    "half a device": (
        case(part(gpu_fraction="0.5", gpu_fraction_num_devices="0.5")),
        message("gpu-fraction-num-devices", '"0.5"', 'a whole number above 0. Write a number such as "2".'),
    ),
    "a number of devices without a fraction": (
        case(part(gpu_fraction_num_devices="2")),
        message(
            "gpu-fraction-num-devices",
            '"2"',
            "gpu-fraction or gpu-memory beside it. Add gpu-fraction or gpu-memory, or remove it.",
        ),
    ),
}
_OTHER = "a scheduler that reads it: kai-scheduler, runai-scheduler. "
WARNED: dict[str, tuple[Case, list[str]]] = {
    "a word about memory beside a GPU, to a scheduler that does not read it": (
        case(part(gpu=1, gpu_memory="16Gi", scheduler="default-scheduler")),
        message(
            "gpu-memory",
            '"16Gi" for scheduler "default-scheduler"',
            f"{_OTHER}Remove it, or set spec.schedulerName: with this scheduler the pod gets whole GPUs.",
        ),
    ),
    "a scheduler that does not read it": (
        case(part(gpu_fraction="0.5", scheduler="default-scheduler")),
        message(
            "gpu-fraction",
            '"0.5" for scheduler "default-scheduler"',
            f"{_OTHER}Set spec.schedulerName, or ask for a GPU in resources: this pod gets none.",
        ),
    ),
}

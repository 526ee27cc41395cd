"""Parts of GPUs by annotation."""

from dataclasses import replace

import pytest

from tests.builders import GPU, TWO_NODES, Case, case, container
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.gpu_fraction import GpuFraction

RULE = GpuFraction()


def part(*, gpu: int | None = None, scheduler: str = "kai-scheduler", **annotations: str) -> Pod:
    keys = {key.replace("_", "-"): value for key, value in annotations.items()}
    return pod(containers=[container(gpu=gpu)], annotations=keys, schedulerName=scheduler)


OF = "nvidia.com/container."


def by_container(*, gpu: int | None = None, scheduler: str = "kai-scheduler", note: str = "", **words: str) -> Case:
    """A pod with the containers `main` and `side`. `words`: by the container and a word, the value of that annotation: see WORDS.
    `note`: other annotations, with their values."""
    notes = {
        f"{OF}{'.'.join((name.partition('_')[0], WORDS[name.partition('_')[2]]))}": value
        for name, value in words.items()
    }
    notes |= dict([each.split("=") for each in note.split(",") if note])
    containers = [container(gpu=gpu), container("side", gpu=None)]
    return case(pod(containers=containers, annotations=notes, schedulerName=scheduler), cluster=LABELLED)


WORDS = {
    "request": "gpu-memory.request",
    "limit": "gpu-memory.limit",
    "mode": "gpu-compute.mode",
    "compute": "gpu-compute.request",
}
SLICED = replace(
    TWO_NODES,
    offers={"gpu-a1": {GPU: 56}, "gpu-a2": {GPU: 4}},
    labels={"gpu-a1": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"}},
)
LABELLED = replace(TWO_NODES, labels={name: {"nvidia.com/gpu.memory": "81920"} for name in ("gpu-a1", "gpu-a2")})
ALLOWED = [
    pytest.param(case(pod(annotations={"team": "ml"})), id="no such annotation"),
    pytest.param(case(part(gpu_fraction="0.5")), id="half a GPU"),
    pytest.param(case(part(gpu_fraction="0.5", gpu_fraction_num_devices="2")), id="half of two GPUs"),
    pytest.param(case(part(gpu_memory="4096")), id="some memory of a GPU"),
    pytest.param(by_container(side_request="8Gi", note="gpu-fraction-num-devices=2"), id="memory for one container"),
    pytest.param(
        by_container(
            main_request="1G",
            main_limit="80Gi",
            main_mode="sm-sharing",
            main_compute="1",
            note="gpu-fraction-container-name=main",
        ),
        id="the same, with all that can be said",
    ),
    pytest.param(by_container(main_limit="79Gi"), id="a limit alone"),
    pytest.param(
        by_container(main_mode="time-slicing", note="gpu-fraction=0.5"), id="how the part of the pod is computed with"
    ),
    pytest.param(by_container(main_request="4Gi", note="gpu-memory=4096"), id="what KAI itself writes of megabytes"),
    pytest.param(
        by_container(main_request="4Gi", main_limit="8Gi", note="gpu-memory=4096,gpu-memory.limit=8Gi"),
        id="and of a limit of megabytes",
    ),
    pytest.param(by_container(main_request="4Gi", note="gpu-fraction=0.5"), id="memory for a container, before a part"),
    pytest.param(
        case(
            part(
                **{"gpu-fraction.limit": "0.8", "kai.scheduler/container.main.gpu-memory.portion.limit": "0.80000"},
                gpu_fraction="0.5",
            )
        ),
        id="limits of a fraction",
    ),
    pytest.param(case(part(**{"gpu-memory.limit": "4Gi"}, gpu_memory="4096")), id="a limit of megabytes"),
    pytest.param(
        case(part(**{"team.example/limit": "x", "my-gpu-memory.limit": "x"}, gpu_memory="4096")),
        id="limits that are not about GPUs",
    ),
    pytest.param(
        case(part(**{"nvidia.com/container.x.gpus.devices": "0"}, gpu_fraction="0.5")),
        id="a word of the scheduler, which deviceAnnotations refuses",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", scheduler="mine"), rule=GpuFraction(schedulers=("mine",))),
        id="another scheduler that reads it",
    ),
]


def message(key: str, seen: str, wanted: str) -> list[str]:
    return [f"metadata.annotations[{key}]: saw {seen}, wanted {wanted}"]


_FRACTION = 'a number above 0 and below 1. Write it as in "0.5".'
REFUSED = [
    pytest.param(
        case(part(gpu=1, gpu_fraction="0.5")),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: saw a GPU resource beside the annotation gpu-fraction="0.5", wanted one of the two. '
            "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones."
        ],
        id="half a GPU beside a whole one",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", gpu_memory="4096")),
        message(
            "gpu-fraction", '"0.5" beside gpu-memory', "one of the two. Keep gpu-fraction or gpu-memory, not both."
        ),
        id="a fraction and an amount of memory",
    ),
    *[
        pytest.param(
            case(part(gpu_fraction=text)), message("gpu-fraction", f'"{text}"', _FRACTION), id=f"a fraction of {text}"
        )
        for text in ("1", "0", "0.0", "500m")
    ],
    pytest.param(
        case(part(gpu_memory="4Gi")),
        message("gpu-memory", '"4Gi"', 'megabytes of GPU memory, as a whole number above 0. Write it as in "4096".'),
        id="memory with a unit",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", gpu_fraction_num_devices="0.5")),
        message("gpu-fraction-num-devices", '"0.5"', 'a whole number above 0. Write it as in "2".'),
        id="half a device",
    ),
    pytest.param(
        case(part(gpu_fraction_num_devices="2")),
        message(
            "gpu-fraction-num-devices",
            '"2"',
            "gpu-fraction or gpu-memory beside it. Add gpu-fraction or gpu-memory, or remove it.",
        ),
        id="a number of devices without a fraction",
    ),
]
SIDE, REQUEST = f"{OF}side.gpu-memory.request", f"{OF}main.gpu-memory.request"
_MEMORY = 'a quantity of GPU memory of at least 1Mi. Write it as in "8Gi".'
REFUSED += [
    pytest.param(
        by_container(main_request=text),
        message(REQUEST, f'"{text}"', _MEMORY),
        id=f"memory of {text!r} for a container",
    )
    for text in ("", "0", "-1Gi", "much", "500Ki", "nan")
]
REFUSED += [
    pytest.param(
        by_container(main_request="9" * 70), message(REQUEST, f'"{"9" * 70}"', _MEMORY), id="memory longer than any"
    ),
    pytest.param(
        by_container(main_request="8Gi", main_mode="mps"),
        message(f"{OF}main.gpu-compute.mode", '"mps"', 'time-slicing or sm-sharing. Write it as in "time-slicing".'),
        id="a mode that there is not",
    ),
    pytest.param(
        by_container(main_request="8Gi", main_compute="1.5"),
        message(f"{OF}main.gpu-compute.request", '"1.5"', 'a number above 0 and not above 1. Write it as in "0.5".'),
        id="more compute than a GPU has",
    ),
    pytest.param(
        by_container(train_request="8Gi"),
        message(
            f"{OF}train.gpu-memory.request",
            'a part of a GPU for container "train"',
            "the name of a container of the pod: main, side. Correct the name.",
        ),
        id="a container that there is not",
    ),
    pytest.param(
        by_container(main_request="8Gi", side_limit="8Gi"),
        message(
            REQUEST,
            "parts of GPUs for 2 containers: main, side",
            "one container of a pod with a part of a GPU. Leave one, and put the others into pods of their own.",
        ),
        id="two containers",
    ),
    pytest.param(
        by_container(main_request="8Gi", note="gpu-fraction-container-name=side"),
        message("gpu-fraction-container-name", '"side"', f"the same container as in {REQUEST}. Remove it."),
        id="another container by another annotation",
    ),
    pytest.param(
        by_container(main_request="8Gi", main_limit="4Gi"),
        message(
            f"{OF}main.gpu-memory.limit",
            '"4Gi"',
            'a limit of at least the request, "8Gi". Raise it, or lower the request.',
        ),
        id="a request above its limit",
    ),
    *[
        pytest.param(
            by_container(main_limit="8Gi", note=f"{of}={text}"),
            message(
                f"{OF}main.gpu-memory.limit",
                f'"8Gi" beside {of}',
                f"one of the two. Write {of}.limit in its place, or remove {of}.",
            ),
            id=f"a limit for a container beside {of}",
        )
        for of, text in (("gpu-fraction", "0.5"), ("gpu-memory", "8192"))
    ],
    pytest.param(
        by_container(main_request="8Gi", note="gpu-memory=4096"),
        message(REQUEST, '"8Gi" beside gpu-memory, "4096"', "one of the two, or the same. Remove one of them."),
        id="memory of which two annotations say another amount",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", gpu_fraction_container_name="train")),
        message(
            "gpu-fraction-container-name",
            'a part of a GPU for container "train"',
            "the name of a container of the pod: main. Correct the name.",
        ),
        id="half a GPU for a container that there is not",
    ),
    pytest.param(
        case(part(**{f"{OF}gpu-memory.request": "8Gi"})),
        message(
            f"{OF}gpu-memory.request",
            'a part of a GPU for container ""',
            "the name of a container of the pod: main. Correct the name.",
        ),
        id="a container whose name is left out",
    ),
    pytest.param(
        by_container(main_request="8Gi", gpu=1),
        [
            f'spec.containers[0].resources.limits[nvidia.com/gpu]: saw a GPU resource beside the annotation {REQUEST}="8Gi", wanted '
            "one of the two. Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones."
        ],
        id="memory for a container beside a whole GPU",
    ),
    pytest.param(
        case(part(gpu=0, gpu_fraction="0.5")),
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: saw a GPU resource beside the annotation gpu-fraction="0.5", wanted one of the two. '
            "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones."
        ],
        id="half a GPU beside a limit of 0, which KAI refuses too",
    ),
]
_PORTION = "kai.scheduler/container.side.gpu-memory.portion.limit"
_OF_FRACTION = 'a number above 0 and below 1, with at most 5 digits after the point. Write it as in "0.8".'
_OF_MEMORY = 'a quantity of GPU memory with a unit. Write it as in "8Gi".'
REFUSED += [
    *[
        pytest.param(
            case(part(**{"gpu-fraction.limit": text}, gpu_fraction="0.5")),
            message("gpu-fraction.limit", f'"{text}"', _OF_FRACTION),
            id=f"a limit of a fraction of {text}",
        )
        for text in ("1", "0.0", "0.800001", "much", "nan")
    ],
    *[
        pytest.param(
            case(part(**{"gpu-memory.limit": text}, gpu_memory="4096")),
            message("gpu-memory.limit", f'"{text}"', _OF_MEMORY),
            id=f"a limit of megabytes of {text}",
        )
        for text in ("8192", "8e3", "much", "0Gi")
    ],
    pytest.param(
        case(part(**{"gpu-fraction.limit": "0.5"}, gpu_fraction="0.5")),
        message("gpu-fraction.limit", '"0.5"', 'a limit above gpu-fraction, "0.5". Raise it, or lower the request.'),
        id="a limit of a fraction that is no more",
    ),
    pytest.param(
        case(part(**{"gpu-memory.limit": "2Gi"}, gpu_memory="4096")),
        message("gpu-memory.limit", '"2Gi"', 'a limit of at least gpu-memory, "4096". Raise it, or lower the request.'),
        id="a limit below the megabytes",
    ),
    pytest.param(
        case(part(**{"gpu-fraction.limit": "0.8"}, gpu_memory="4096")),
        message("gpu-fraction.limit", '"0.8"', "gpu-fraction beside it. Add gpu-fraction, or remove it."),
        id="a limit of what is not asked for",
    ),
    pytest.param(
        case(part(**{_PORTION: "0.8"}, gpu_fraction="0.5")),
        message(_PORTION, 'a limit for container "side"', 'one for "main", which gets the part. Correct the name.'),
        id="a limit for a container that gets no part",
    ),
]
_LARGEST = "at most 81900Mi, which is what its scheduler counts of the largest GPU. Ask for less, or wait if a node with larger GPUs is added."
_OTHER = "a scheduler that reads it: kai-scheduler, runai-scheduler. "
WARNED = [
    pytest.param(
        by_container(side_request="81Gi", side_limit="90Gi"),
        message(SIDE, '"81Gi"', _LARGEST),
        id="more memory for a container than any GPU has",
    ),
    pytest.param(
        by_container(note="gpu-memory=82000"),
        message("gpu-memory", '"82000"', _LARGEST),
        id="more megabytes than any GPU has",
    ),
    pytest.param(
        by_container(note="gpu-memory=81920"),
        message("gpu-memory", '"81920"', _LARGEST),
        id="as many megabytes as the label says, of which KAI counts hundreds",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", gpu_fraction_num_devices="5"), cluster=SLICED),
        message(
            "gpu-fraction-num-devices",
            '"5"',
            "at most 4, as many GPUs as any node has. Ask for fewer, or wait if a larger node is added.",
        ),
        id="parts of more GPUs than a node has that are not cut into slices",
    ),
    *[
        pytest.param(
            by_container(main_request="8Gi", note=f"gpu-fraction-num-devices={number}"),
            message(
                "gpu-fraction-num-devices",
                f'"{number}"',
                "at most 8, as many GPUs as any node has. Ask for fewer, or wait if a larger node is added.",
            ),
            id=f"parts of {number} GPUs",
        )
        for number in ("9", "9" * 20)
    ],
    pytest.param(
        by_container(main_request="8Gi", scheduler="default-scheduler"),
        message(
            REQUEST,
            '"8Gi" for scheduler "default-scheduler"',
            "a scheduler that reads it: kai-scheduler, runai-scheduler. Set spec.schedulerName, or ask for a GPU in resources: "
            "this pod gets none.",
        ),
        id="memory for a container, to a scheduler that does not read it",
    ),
    pytest.param(
        case(part(gpu=1, gpu_memory="16Gi", scheduler="default-scheduler")),
        message(
            "gpu-memory",
            '"16Gi" for scheduler "default-scheduler"',
            f"{_OTHER}Remove it, or set spec.schedulerName: with this scheduler the pod gets whole GPUs.",
        ),
        id="a word about memory beside a GPU, to a scheduler that does not read it",
    ),
    pytest.param(
        case(part(gpu_fraction="0.5", scheduler="default-scheduler")),
        message(
            "gpu-fraction",
            '"0.5" for scheduler "default-scheduler"',
            f"{_OTHER}Set spec.schedulerName, or ask for a GPU in resources: this pod gets none.",
        ),
        id="a scheduler that does not read it",
    ),
]

"""Annotations that ask for a part of a GPU are valid, and the pod's scheduler reads them.

The schedulers of Run:ai and KAI hand out parts of a GPU by annotation instead of resources. A pod that has a GPU limit too
takes whole GPUs. With another scheduler a pod with these annotations alone gets no GPU.

Fields read:   metadata.annotations[gpu-fraction], [gpu-memory], [gpu-fraction-num-devices]; GPU resources of all
               containers; spec.schedulerName
Allowed:       a fraction above 0 and below 1, or megabytes of GPU memory; no GPU resources beside it
Refused:       for a scheduler of `schedulers`: a fraction and megabytes together; numbers out of range; GPU resources beside them
Warned about:  such an annotation, whatever it says, for any other scheduler
Not for DRA:   claims have no fractions.

Source: kai-scheduler/KAI-Scheduler pkg/admission (ValidateGpuRequests).
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.other_gpus import KAI
from webhook.text import quoted

_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_NUMBERS = {
    _FRACTION: ("a number above 0 and below 1", "0.5"),
    _MEMORY: ("megabytes of GPU memory, as a whole number above 0", "4096"),
    _DEVICES: ("a whole number above 0", "2"),
}


class GpuFraction(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs to parse numbers that its author wrote as text"

    schedulers: tuple[str, ...] = KAI
    """The schedulers that read these annotations. With another scheduler there is a warning."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        fractions = {key: value for key, value in pod.annotations.items() if key in _NUMBERS}
        path = {key: f"metadata.annotations[{key}]" for key in fractions}
        asked = [key for key in (_FRACTION, _MEMORY) if key in fractions]
        scheduler = pod.spec.get("schedulerName") or "default-scheduler"
        if scheduler not in self.schedulers:
            for key in asked[:1]:
                wanted = f"a scheduler that reads it: {', '.join(self.schedulers)}"
                fix = "Set spec.schedulerName, or ask for a GPU in resources: this pod gets none"
                if pod.gpu_names:
                    fix = "Remove it, or set spec.schedulerName: with this scheduler the pod gets whole GPUs"
                yield Finding(
                    path[key], f"{quoted(fractions[key])} for scheduler {quoted(scheduler)}", wanted, fix, True
                )
            return
        if fractions and not asked:
            fix = f"Add {_FRACTION} or {_MEMORY}, or remove it"
            yield Finding(path[_DEVICES], quoted(fractions[_DEVICES]), f"{_FRACTION} or {_MEMORY} beside it", fix)
        if not asked:
            return
        for key, (wanted, example) in _NUMBERS.items():
            if key in fractions and not _is_right(key, fractions[key]):
                yield Finding(path[key], quoted(fractions[key]), wanted, f'Write a number such as "{example}"')
        first, seen = asked[0], quoted(fractions[asked[0]])
        if len(asked) == 2:
            fix = f"Keep {_FRACTION} or {_MEMORY}, not both"
            yield Finding(path[first], f"{seen} beside {_MEMORY}", "one of the two", fix)
        for container in pod.containers:
            for name in container.gpu_counts(context.gpus):
                field = context.field_of(container, name)
                fix = "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones"
                yield Finding(field, f"a GPU resource beside the annotation {first}={seen}", "one of the two", fix)


def _is_right(key: str, text: str) -> bool:
    whole, _, part = text.partition(".")
    if key == _FRACTION:
        return whole.strip("0") == "" and part.isascii() and part.isdigit() and part.strip("0") != ""
    return text.isascii() and text.isdigit() and text.strip("0") != ""

"""Annotations that ask for a part of a GPU agree with the resources, and somebody reads them.

Run:ai and the KAI scheduler give out parts of a GPU by annotation instead of resources. Beside a GPU limit such a pod
takes whole GPUs; without their scheduler it gets none.

Fields read:   metadata.annotations[gpu-fraction], [gpu-memory], [gpu-fraction-num-devices]; GPU resources of all
               containers; spec.schedulerName
Allowed:       a fraction above 0 and below 1, or megabytes of GPU memory; no GPU resources beside it
Refused:       both, or numbers out of range, or GPU resources beside them
Warned about:  such an annotation for a scheduler that `schedulers` does not name
Not for DRA:   claims have no fractions.

Source: kai-scheduler/KAI-Scheduler pkg/admission (ValidateGpuRequests).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.pod import Pod, annotations_of
from webhook.kube.quantity import parse_quantity
from webhook.text import bare, quoted

_FRACTION, _MEMORY, _DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"


class GpuFraction(Rule):
    """Annotations that ask for a part of a GPU (gpu-fraction, gpu-memory) agree with the resources."""

    not_exported: ClassVar[str] = "needs to parse numbers that its author wrote as text"

    schedulers: tuple[str, ...] = ("kai-scheduler", "runai-scheduler")
    """The schedulers that read these annotations; with another one the author is told."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        annotations = annotations_of(pod)
        asked = [key for key in (_FRACTION, _MEMORY) if key in annotations]
        if not asked:
            if _DEVICES in annotations:
                fix = f"Add {_FRACTION} or {_MEMORY}, or remove it"
                path = f"metadata.annotations[{_DEVICES}]"
                yield Finding(path, quoted(annotations[_DEVICES]), f"{_FRACTION} or {_MEMORY} beside it", fix)
            return
        path = f"metadata.annotations[{asked[0]}]"
        seen = quoted(annotations[asked[0]])
        yield from _numbers(annotations)
        if len(asked) == 2:
            yield Finding(
                path, f"{seen} beside {_MEMORY}", "one of the two", f"Keep {_FRACTION} or {_MEMORY}, not both"
            )
        for container in context.containers(pod):
            for name in container.gpu_counts(context.gpus):
                where = f"{container.field}.resources.limits[{bare(name)}]"
                fix = "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones"
                yield Finding(where, f"a GPU resource beside the annotation {asked[0]}={seen}", "one of the two", fix)
        scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
        if scheduler not in self.schedulers:
            wanted = f"a scheduler that reads it: {', '.join(self.schedulers)}"
            fix = "Set spec.schedulerName, or ask for a GPU in resources: this pod gets none"
            yield Finding(path, f"{seen} for scheduler {quoted(scheduler)}", wanted, fix, True)


def _numbers(annotations: Mapping[str, str]) -> Iterator[Finding]:
    """Values that are not in their range."""
    for key, wanted, example in (
        (_FRACTION, "a number above 0 and below 1", "0.5"),
        (_MEMORY, "megabytes of GPU memory, as a whole number above 0", "4096"),
        (_DEVICES, "a whole number above 0", "2"),
    ):
        if key in annotations:
            number = _plain(annotations[key])
            right = number is not None and number > 0
            right = right and (number < 1 if key == _FRACTION else isinstance(number, int)) if number else False
            if not right:
                path = f"metadata.annotations[{key}]"
                yield Finding(path, quoted(annotations[key]), wanted, f'Write a number such as "{example}"')


def _plain(text: str) -> int | Fraction | None:
    """A number without a suffix, or None."""
    if not text.isascii() or any(c.isalpha() for c in text):
        return None
    try:
        return parse_quantity(text)
    except QuantityError:
        return None

"""Annotations that ask for a part of a GPU are valid, and the pod's scheduler reads them.

Run:ai and KAI give out parts of GPUs by annotation: a fraction or megabytes for the pod, or memory for one container. Under
another scheduler the pod gets no GPU.

Fields read:   metadata.annotations[gpu-fraction], [gpu-memory], [gpu-fraction-num-devices], [gpu-fraction-container-name], and
               [nvidia.com/container.NAME.…] with gpu-memory.request, gpu-memory.limit, gpu-compute.mode or gpu-compute.request
               at the end; [gpu-fraction.limit], [gpu-memory.limit], [kai.scheduler/container.NAME.gpu-memory.portion.limit];
               names and GPU resources of all containers; spec.schedulerName; labels of nodes with GPUs
Allowed:       a fraction above 0 and below 1, megabytes, or a quantity of memory for one container; no GPU limits beside it
Refused:       for a scheduler of `schedulers`: a fraction and megabytes together; beside either of them a limit for one
               container, beside megabytes another request; numbers out of range; GPU limits, also of 0; annotations for two
               containers, or for one that is not there; a request above its limit; a limit without its request
Warned about:  any such annotation for another scheduler; more memory than any GPU has now (KAI counts hundreds of MiB), or
               more GPUs than any node has whole
Not for DRA:   claims have no fractions

Source: kai-scheduler/KAI-Scheduler pkg/common/resources (ValidateGPUFractionRequest, getFirstGPULimit, ExtractNvFractionsData),
pkg/scheduler/api/node_info (getNodeGpuMemory).
"""

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from webhook.errors import QuantityError
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.other_gpus import (
    FRACTION_CONTAINER,
    GPU_MEMORY,
    KAI,
    PartKey,
    fraction_container,
    gpu_memory,
    is_known,
    part_keys,
)
from webhook.kube.quantity import whole
from webhook.text import bare, listed, number_of, plural, quoted
from webhook.vendors.catalogue import every
from webhook.vendors.model import PartLimit, SharedGroups

_SAID = every(SharedGroups)[0]
_FRACTION, _MEMORY, _DEVICES = _SAID.fraction, _SAID.memory, _SAID.number
_REQUEST, _LIMIT, _MODE, _COMPUTE = "gpu-memory.request", "gpu-memory.limit", "gpu-compute.mode", "gpu-compute.request"
_QUANTITY = ("a quantity of GPU memory of at least 1Mi", "8Gi")
_WANTED = {
    _FRACTION: ("a number above 0 and below 1", "0.5"),
    _MEMORY: ("megabytes of GPU memory, as a whole number above 0", "4096"),
    _DEVICES: ("a whole number above 0", "2"),
    _REQUEST: _QUANTITY,
    _LIMIT: _QUANTITY,
    _MODE: ("time-slicing or sm-sharing", "time-slicing"),
    _COMPUTE: ("a number above 0 and not above 1", "0.5"),
}
"""By the annotation of a pod, or by what one about a container ends with: what is wanted, and an example."""
_MAX_LENGTH = 64
_MIB = 1 << 20
_LIMITS = every(PartLimit)
_OF_FRACTION = ("a number above 0 and below 1, with at most 5 digits after the point", "0.8")
_OF_MEMORY = ("a quantity of GPU memory with a unit", "8Gi")


class GpuFraction(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "needs to parse numbers that its author wrote as text"

    schedulers: tuple[str, ...] = KAI
    """The schedulers that read these annotations. With another scheduler there is a warning."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        notes, of_containers = pod.annotations, part_keys(pod.annotations)
        own = [key for key in (_FRACTION, _MEMORY, _DEVICES) if key in notes]
        asking = [key for key in own if key != _DEVICES]
        asking += [key for key, said in of_containers.items() if said.word in said.part.asks]
        scheduler = pod.spec.get("schedulerName") or "default-scheduler"
        if scheduler not in self.schedulers:
            for key in asking[:1]:
                wanted = f"a scheduler that reads it: {', '.join(self.schedulers)}"
                fix = "Set spec.schedulerName, or ask for a GPU in resources: this pod gets none"
                if pod.gpu_names:
                    fix = "Remove it, or set spec.schedulerName: with this scheduler the pod gets whole GPUs"
                yield Finding(_path(key), f"{quoted(notes[key])} for scheduler {quoted(scheduler)}", wanted, fix, True)
            return
        if own and not asking:
            fix = f"Add {_FRACTION} or {_MEMORY}, or remove it"
            yield Finding(_path(_DEVICES), quoted(notes[_DEVICES]), f"{_FRACTION} or {_MEMORY} beside it", fix)
        for key, word in [*zip(own, own, strict=True), *[(key, said.word) for key, said in of_containers.items()]]:
            if not _is_right(word, notes[key]):
                wanted, example = _WANTED[word]
                yield Finding(_path(key), quoted(notes[key]), wanted, f'Write it as in "{example}"')
        yield from _wrong_limits(pod)
        if not asking:
            return
        yield from _together(notes, of_containers)
        yield from _for_one_container(pod, of_containers)
        yield from _too_large(notes, of_containers, context)
        first = asking[0]
        for container in pod.containers:
            limits = (container.spec.get("resources") or {}).get("limits") or {}
            named = [_SAID.gpu] if _SAID.gpu in limits else []  # 0 too, which KAI refuses as any other
            for name in dict.fromkeys([*named, *container.gpu_counts(context.gpus)]):
                field, seen = context.field_of(container, name), f"{bare(first)}={quoted(notes[first])}"
                fix = "Remove the GPU resource to get a part of a GPU, or the annotation to get whole ones"
                yield Finding(
                    field, f"a GPU resource beside the annotation {seen}", "one of the two", fix, cause=f"GPUs {field}"
                )


def _path(key: str) -> str:
    return f"metadata.annotations[{bare(key)}]"


def _together(notes: Mapping[str, str], said: Mapping[str, PartKey]) -> Iterable[Finding]:
    """Annotations of the pod beside which others of the pod, or of a container, may not be."""
    if _FRACTION in notes and _MEMORY in notes:
        fix = f"Keep {_FRACTION} or {_MEMORY}, not both"
        yield Finding(_path(_FRACTION), f"{quoted(notes[_FRACTION])} beside {_MEMORY}", "one of the two", fix)
    for key, word in [(key, each.word) for key, each in said.items()]:
        for of in [each for each in (_FRACTION, _MEMORY) if each in notes]:
            if word == _LIMIT and f"{_MEMORY}.limit" not in notes:
                fix = f"Write {of}.limit in its place, or remove {of}"
                yield Finding(_path(key), f"{quoted(notes[key])} beside {of}", "one of the two", fix)
            elif word == _REQUEST and of == _MEMORY and number_of(notes[of]) not in (None, _mib(notes[key])):
                seen = f"{quoted(notes[key])} beside {of}, {quoted(notes[of])}"
                yield Finding(_path(key), seen, "one of the two, or the same", "Remove one of them")


def _wrong_limits(pod: AskedPod) -> Iterable[Finding]:
    """What is wrong with the limits of parts that are said for the pod, or as a part for one of its containers."""
    notes = pod.annotations
    for key in notes if "limit" in "".join(notes) else ():
        limit = next((each for each in _LIMITS if key.startswith(each.prefix) and key.endswith(each.key)), None)
        name = key.removeprefix(limit.prefix).removesuffix(f".{limit.key}") if limit else ""
        if limit is None or (not limit.prefix and key != limit.key):
            continue
        part, gets = notes.get(limit.of), fraction_container(pod.json)
        if not part:
            yield Finding(_path(key), quoted(notes[key]), f"{limit.of} beside it", f"Add {limit.of}, or remove it")
            continue
        if limit.prefix and name != gets:
            wanted = f"one for {quoted(gets)}, which gets the part"
            yield Finding(_path(key), f"a limit for container {quoted(name)}", wanted, "Correct the name")
        most, (wanted, example) = _limit(limit.of, notes[key]), _OF_FRACTION if limit.of == _FRACTION else _OF_MEMORY
        if most is None:
            yield Finding(_path(key), quoted(notes[key]), wanted, f'Write it as in "{example}"')
        elif _is_right(limit.of, part) and (most <= float(part) if limit.of == _FRACTION else most < int(part)):
            than = "above" if limit.of == _FRACTION else "of at least"
            fix = "Raise it, or lower the request"
            yield Finding(_path(key), quoted(notes[key]), f"a limit {than} {limit.of}, {quoted(part)}", fix)


def _limit(of: str, text: str) -> float | None:
    """The number in a limit of a fraction, the MiB in one of memory; None if it is none."""
    if of == _FRACTION:
        return float(text) if re.fullmatch(r"0?\.[0-9]{1,5}", text) and float(text) else None
    mib = _mib(text) if not re.fullmatch(r"[0-9.eE+-]*", text) else None
    return mib if mib and mib > 0 else None


def _for_one_container(pod: AskedPod, said: Mapping[str, PartKey]) -> Iterable[Finding]:
    """What is wrong with annotations that name a container."""
    keys: dict[str, str] = {}
    for key, each in said.items():
        keys.setdefault(each.container, key)
    named = pod.annotations.get(FRACTION_CONTAINER)
    if named is not None and not keys:
        keys[named] = FRACTION_CONTAINER
    known = {container.name: None for container in pod.containers if container.list_name != "ephemeralContainers"}
    for name in [name for name in keys if name not in known][:1]:
        wanted = f"the name of a container of the pod: {listed(known, show=bare)}"
        yield Finding(_path(keys[name]), f"a part of a GPU for container {quoted(name)}", wanted, "Correct the name")
    if len(keys) > 1:
        seen = f"parts of GPUs for {plural(len(keys), 'container')}: {listed(keys, show=bare)}"
        fix = "Leave one, and put the others into pods of their own"
        yield Finding(_path(next(iter(said))), seen, "one container of a pod with a part of a GPU", fix)
    if named is not None and named not in keys:
        wanted = f"the same container as in {bare(next(iter(said)))}"
        yield Finding(_path(FRACTION_CONTAINER), quoted(named), wanted, "Remove it")
    for key, each in said.items():
        request = f"{each.part.prefix}{each.container}.{_REQUEST}"
        if each.word == _LIMIT and request in said:
            least, most = _mib(pod.annotations[request]), _mib(pod.annotations[key])
            if least and most and least > most:
                wanted = f"a limit of at least the request, {quoted(pod.annotations[request])}"
                yield Finding(_path(key), quoted(pod.annotations[key]), wanted, "Raise it, or lower the request")


def _too_large(notes: Mapping[str, str], said: Mapping[str, PartKey], context: Context) -> Iterable[Finding]:
    """More memory than any GPU of the cluster has as KAI counts it, or more GPUs than any node. It schedules by the request."""
    most, number = context.cluster.most_gpus(_SAID.gpu), notes.get(_DEVICES, "1")
    if most and _is_right(_DEVICES, number) and (len(number) > 6 or int(number) > most):
        fix = "Ask for fewer, or wait if a larger node is added"
        yield Finding(_path(_DEVICES), quoted(number), f"at most {most}, as many GPUs as any node has", fix, True)
    values = context.cluster.label_values(GPU_MEMORY, context.gpus)
    largest = max([gpu_memory(value) for value in values if is_known(value)], default=0)
    asked = {key: _mib(notes[key]) for key, each in said.items() if each.word in each.part.asks}
    if requests := {key: amount for key, amount in asked.items() if said[key].word == _REQUEST}:
        asked = requests
    if not asked and _MEMORY in notes:
        asked = {_MEMORY: number_of(notes[_MEMORY])}
    for key, amount in asked.items():
        if largest and amount and amount > largest:
            wanted = f"at most {largest}Mi, which is what its scheduler counts of the largest GPU"
            fix = "Ask for less, or wait if a node with larger GPUs is added"
            yield Finding(_path(key), quoted(notes[key]), wanted, fix, True)


def _mib(text: str) -> int | None:
    """A quantity in MiB, rounded down; None if it is none."""
    try:
        return whole(text) // _MIB if len(text) <= _MAX_LENGTH else None
    except QuantityError:
        return None


def _is_right(word: str, text: str) -> bool:
    if word in (_REQUEST, _LIMIT):
        return (_mib(text) or 0) > 0
    if word == _MODE:
        return text in ("time-slicing", "sm-sharing")
    if word in (_FRACTION, _COMPUTE):
        number = float(text) if re.fullmatch(r"[0-9]{0,9}(\.[0-9]{1,32})?", text) and text else 0.0
        return 0 < number < 1 or (word == _COMPUTE and number == 1)
    return text.isascii() and text.isdigit() and text.strip("0") != ""

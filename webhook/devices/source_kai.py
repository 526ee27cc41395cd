"""Parts of NVIDIA GPUs by KAI (https://github.com/kai-scheduler/KAI-Scheduler).

Pods that share a GPU have its group as a label. KAI holds the GPU of a group by a reservation pod with the same label, in a
namespace of its own, and writes nothing at nodes. Only that pod defines a group, since tenants write the labels of other pods.
Which GPU of the node it is does not matter. All others are whole GPUs, as the device plugin offers them: a pod for which no
shared GPU has room is left to KAI, which then reserves one of these.

Follows KAI pkg/binder/binding/resourcereservation, pkg/common/resources/gpu_sharing.go and pkg/scheduler/api/node_info.

The GPUs that pods of a scheduler reserve, for groups of pods that have parts of them: see `source_kai`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from webhook.devices.source_vgpu import MAX_DEVICES, whole_number
from webhook.devices.table import DeviceTable
from webhook.devices.types import Device, DeviceClaim, DeviceRequest, DeviceSet, Use
from webhook.errors import QuantityError
from webhook.kube.device_tree import Facts
from webhook.kube.other_gpus import GPU_MEMORY, fraction_container, gpu_memory, part_key, part_keys
from webhook.kube.pod import Pod, annotations_of, labels_of, requests_of
from webhook.kube.quantity import whole
from webhook.kube.stores import Grouped
from webhook.vendors.catalogue import every
from webhook.vendors.model import ContainerPart, SharedGroups

_SAID: Final = every(SharedGroups)[0]
_GPU: Final = _SAID.gpu
RESERVATIONS: Final = _SAID.namespace
"""The namespace of reservation pods, from KAI 0.6 on. Any other name may be that of a tenant's namespace."""
NUMBER: Final = _SAID.number
_ASKING: Final = (_SAID.fraction, _SAID.memory, NUMBER)
RECEIVED: Final = _SAID.received
GROUP: Final = _SAID.group
_MEMORY: Final = f"{_SAID.name}/memory"
_MAX_GPUS: Final = 16
"""Maximum number of groups of a pod that count: their labels may be of a tenant."""
REQUEST, LIMIT = every(ContainerPart)[0].asks
_MAX_QUANTITY: Final = 64


class _Kai:
    name: Final = _SAID.name
    resource: Final = ""
    part_resources: Final = ()
    annotations: Final = (*_ASKING, RECEIVED)
    own_scheduler: Final = _SAID.scheduler
    whole: Final = _GPU

    def devices(self, node: Mapping[str, Any]) -> None:
        """Set by its pods: see `DeviceGroups`."""

    def uses(self, pod: Pod) -> tuple[Use, ...]:
        """As KAI counts it: also where the scheduler of the pod is another one now."""
        request = _request(pod)
        if request is None or annotations_of(pod).get(RECEIVED) != "Fraction":
            return ()
        groups = [value for key, value in labels_of(pod).items() if key == GROUP or key.startswith(f"{GROUP}/")]
        return tuple([Use(group, request.amounts) for group in sorted(groups)[: min(request.devices, _MAX_GPUS)]])

    def claim(self, pod: Pod) -> DeviceClaim | None:
        request = _request(pod) if pod["spec"].get("schedulerName") == self.own_scheduler else None
        return None if request is None else DeviceClaim(((request,),), source=self.name, published_only=True)


def asking(pod: Pod, share: float) -> Pod:
    """The pod as it asks for this part of each of its GPUs."""
    notes = {key: value for key, value in annotations_of(pod).items() if key not in _ASKING[:2] and not part_key(key)}
    return _noted(pod, {**notes, _ASKING[0]: f"{share:g}"})


def of_fewer(pod: Pod, number: int) -> Pod:
    """The pod as it asks for parts of so many GPUs."""
    return _noted(pod, {**annotations_of(pod), NUMBER: str(number)})


def _noted(pod: Pod, notes: Mapping[str, str]) -> Pod:
    return {**pod, "metadata": {**pod["metadata"], "annotations": notes}}


def reserved_group(pod: Pod) -> str:
    """The group whose GPU a pod holds; "" if it is no reservation pod."""
    if pod["metadata"].get("namespace") != RESERVATIONS:
        return ""
    asked = [whole_number(requests_of(each).get(_GPU, 0)) for each in pod["spec"].get("containers") or ()]
    return labels_of(pod).get(GROUP, "") if asked == [1] else ""


def shared_gpus(groups: Iterable[str], labels: Mapping[str, str]) -> DeviceSet:
    """The GPUs of these groups, on a node with these labels. KAI may have reserved two for a group: its pods have one of them."""
    facts = Facts(KAI.name, {}, {_MEMORY: gpu_memory(labels.get(GPU_MEMORY, ""))}, shared=True)
    every = [*groups][:MAX_DEVICES]
    names = [f"{group}#{number}" if group in every[:number] else group for number, group in enumerate(every)]
    return DeviceSet(tuple([Device(name, facts) for name in names]))


def _request(pod: Pod) -> DeviceRequest | None:
    """None if the pod asks for no part, or in a way that KAI refuses."""
    notes = annotations_of(pod)
    fraction, memory, number = (notes.get(key) for key in _ASKING)
    of_container = _memory_of_container(pod)
    if (of_container is None and (fraction is None) == (memory is None)) or any(
        [_GPU in requests_of(each) for each in pod["spec"].get("containers") or ()]
    ):
        return None
    amount: float | int = _share(fraction) if fraction else _whole(memory or "")
    amount, devices = amount if of_container is None else of_container, _whole(number or "1")
    if not amount or not devices:
        return None
    return DeviceRequest(KAI.name, min(devices, MAX_DEVICES), amounts=((_MEMORY, amount),))


def _memory_of_container(pod: Pod) -> int | None:
    """The MiB that annotations ask for one container, of which a limit stands for a request too; None if there are none, and 0
    if they are wrong. They count before those of the pod (ParsePodGPUFractionRequest)."""
    notes = annotations_of(pod)
    found = {key: said for key, said in part_keys(notes).items() if said.word in said.part.asks}
    if not found:
        return None
    by_word = {said.word: notes[key] for key, said in found.items()}
    asked = by_word.get(REQUEST, by_word.get(LIMIT, ""))
    try:
        memory = whole(asked) if len(asked) <= _MAX_QUANTITY and fraction_container(pod) else 0
    except QuantityError:
        memory = 0
    return max(0, memory >> 20)


def _share(text: str) -> float:
    """A part of a GPU, up to all of it; 0 if it is none."""
    share = float(text) if re.fullmatch(r"[0-9]?\.?[0-9]{1,32}", text) else 0.0
    return share if share <= 1 else 0.0


def _whole(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 0


KAI: Final = _Kai()


class DeviceGroups(Grouped[int | str, str, str]):
    """The groups of reservation pods, by uid and by node. Tells `table` of their GPUs. `labels_of`: the labels of a node."""

    def __init__(self, table: DeviceTable, labels_of: Callable[[str], Mapping[str, str]]) -> None:
        super().__init__()
        self._table, self._labels_of = table, labels_of

    def seen(self, uid: int | str, node: str, pod: Pod) -> bool:
        """A pod is on a node. Returns whether it is a reservation pod: its GPU counts as what its group has of it."""
        group = reserved_group(pod)
        if (self.group_of.get(uid, node), self.get(uid) or "") != (node, group):
            self.gone(uid)
            if group:
                self.put(uid, node, group)
                self.publish(node)
        return bool(group)

    def gone(self, uid: int | str) -> None:
        """A pod was deleted or finished. Does nothing if it was no reservation pod."""
        if (node := self.group_of.get(uid)) is not None:
            super().gone(uid)
            self.publish(node)

    def publish(self, node: str) -> None:
        """Tell of the GPUs of a node, which may be new or have other labels."""
        self._table.publish(node, KAI.name, shared_gpus(self.groups.get(node, {}).values(), self._labels_of(node)))

"""Memory of shared GPUs by Alibaba's GPU share scheduler extender: all GPUs of a node are equal, and a pod has a part of one.

Follows gpushare-scheduler-extender pkg/utils and pkg/cache/nodeinfo.go. Pods of the later form, with the annotation
`scheduler.framework.gpushare.allocation`, are counted by the sum of their node only.
"""

from collections.abc import Mapping
from typing import Any, Final

from webhook.devices.source_vgpu import MAX_DEVICES, whole_number
from webhook.devices.types import Device, DeviceClaim, DeviceRequest, DeviceSet, Use
from webhook.kube.device_tree import Facts
from webhook.kube.pod import Pod, annotations_of
from webhook.vendors.catalogue import every
from webhook.vendors.model import SharedMemory

_SAID: Final = every(SharedMemory)[0]
_MEMORY: Final = _SAID.memory


class _Aliyun:
    name: Final = _SAID.name
    resource: Final = _MEMORY
    part_resources: Final = ()
    annotations: Final = (_SAID.index,)
    own_scheduler: Final = ""

    def devices(self, node: Mapping[str, Any]) -> DeviceSet:
        has = (node.get("status") or {}).get("capacity") or {}
        count, memory = whole_number(has.get(_SAID.count)), whole_number(has.get(_MEMORY))
        if not count or not memory:
            return DeviceSet()
        facts = Facts(self.name, {}, {_MEMORY: memory // count}, shared=True)
        return DeviceSet(tuple(Device(str(number), facts) for number in range(min(count, MAX_DEVICES))))

    def uses(self, pod: Pod) -> tuple[Use, ...]:
        index, asked = annotations_of(pod).get(_SAID.index, ""), self._asked(pod)
        return (Use(index, ((_MEMORY, asked),)),) if asked and len(index) <= 3 and index.isdecimal() else ()

    def claim(self, pod: Pod) -> DeviceClaim | None:
        asked = self._asked(pod)
        request = DeviceRequest(self.name, amounts=((_MEMORY, asked),))
        return DeviceClaim(((request,),), source=self.name) if asked else None

    def _asked(self, pod: Pod) -> int:
        """All containers together have a part of one GPU."""
        limits = [
            (container.get("resources") or {}).get("limits") or {} for container in pod["spec"].get("containers") or ()
        ]
        return sum([whole_number(limit[_MEMORY]) or 0 for limit in limits if _MEMORY in limit])


ALIYUN: Final = _Aliyun()

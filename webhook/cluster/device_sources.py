"""All sources of devices that read nodes and pods. A new one is a file with its class, and one line here.

The devices of DRA come from objects of their own: see `slices` and `claims`.
"""

from typing import Final

from webhook.cluster.devices import DeviceClaim, DeviceSource
from webhook.cluster.source_aliyun import ALIYUN
from webhook.cluster.source_hami import HAMI
from webhook.cluster.source_volcano import VOLCANO
from webhook.kube.pod import Pod

SOURCES: Final[tuple[DeviceSource, ...]] = (
    HAMI,
    VOLCANO,
    ALIYUN,
)


def shared_claims(pod: Pod) -> tuple[DeviceClaim, ...]:
    """The parts of GPUs that a pod asks for, of sources whose scheduler weighs a preferred node."""
    claims = [source.claim(pod) for source in SOURCES if source.honours_preference]
    return tuple([claim for claim in claims if claim is not None])

"""All sources of devices that read nodes and pods. A new one is a file with its class, and one line here.

The devices of DRA come from objects of their own: see `slices` and `claims`.
"""

from collections.abc import Collection
from typing import Final

from webhook.cluster.devices import DeviceClaim, DeviceSource
from webhook.cluster.source_aliyun import ALIYUN
from webhook.cluster.source_kai import KAI
from webhook.cluster.vgpu import HAMI, VOLCANO
from webhook.kube.pod import SCHEDULER, Pod

SOURCES: Final[tuple[DeviceSource, ...]] = (
    HAMI,
    KAI,
    VOLCANO,
    ALIYUN,
)


def shared_claims(pod: Pod) -> tuple[DeviceClaim, ...]:
    """The parts of GPUs that a pod asks for."""
    claims = [source.claim(pod) for source in SOURCES]
    return tuple([claim for claim in claims if claim is not None])


def only_of_parts(claims: tuple[DeviceClaim, ...]) -> frozenset[str]:
    """The resources that nodes do not offer, and that only the scheduler of these parts counts."""
    of = {claim.source for claim in claims}
    return frozenset(
        [name for source in SOURCES if source.own_scheduler and source.name in of for name in source.part_resources]
    )


def scheduler_of(pod: Pod, others: Collection[str]) -> str:
    """The name of the scheduler that chooses the node of a pod: that of its parts of GPUs, whose webhook sets it later, else
    the one that it names. `others`: its `other_gpus`, without which it has no parts."""
    with_scheduler = [source for source in SOURCES if source.own_scheduler] if others else []
    own = [source.own_scheduler for source in with_scheduler if source.claim(pod) is not None]
    return own[0] if own else pod["spec"].get("schedulerName") or SCHEDULER

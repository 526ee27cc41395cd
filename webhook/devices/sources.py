"""All sources of devices that read nodes and pods. A new one is a file with its class, and one line here.

The devices of DRA come from objects of their own: see `slices` and `claims`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from webhook.devices.source_aliyun import ALIYUN
from webhook.devices.source_kai import KAI
from webhook.devices.source_vgpu import VGPUS
from webhook.devices.types import DeviceClaim, DeviceSet, Use
from webhook.kube.pod import SCHEDULER, Pod, annotations_of
from webhook.vendors.catalogue import resources


class DeviceSource(Protocol):
    """Reads devices from what others write at nodes and pods. Everything there may be written by a tenant or be malformed: bound
    it before reading, and leave out what cannot be read. Pure: no state, no clock.

    `SOURCES` lists all of them.
    """

    @property
    def name(self) -> str:
        """The driver name in `Facts.driver` of all its devices, as "hami.io/gpu"."""

    @property
    def resource(self) -> str:
        """The extended resource by which its scheduler counts the parts: the same GPUs by another number; "" without one."""

    @property
    def annotations(self) -> tuple[str, ...]:
        """The annotations of nodes and pods that it reads."""

    @property
    def part_resources(self) -> tuple[str, ...]:
        """Other resources that pods ask for, which nodes do not offer: only its scheduler counts them."""

    @property
    def own_scheduler(self) -> str:
        """The name of the scheduler that serves these devices, if it does not weigh preferred node affinity; "" if it does."""

    def devices(self, node: Mapping[str, Any]) -> DeviceSet | None:
        """The devices of a Node object; an empty set if it publishes none; None if nodes never do. At each event of a node."""

    def uses(self, pod: Pod) -> tuple[Use, ...]:
        """What a pod that is bound, or that its scheduler has given devices, has of the devices of its node. It must have some
        of the `annotations`."""

    def claim(self, pod: Pod) -> DeviceClaim | None:
        """What a pod asks for, by `PART_RESOURCES` or by annotations for parts; None if it asks nothing of this source."""


SOURCES: Final[tuple[DeviceSource, ...]] = (
    *VGPUS,
    KAI,
    ALIYUN,
)
ANNOTATIONS: Final = frozenset([name for source in SOURCES for name in source.annotations])
"""By which schedulers of parts of GPUs write what nodes and pods have, and pods what they ask for, but for `part_key`."""

PART_RESOURCES: Final = frozenset([name for each in SOURCES for name in (each.resource, *each.part_resources)]) - {
    each.name for each in resources("whole")
}
"""By which pods ask for parts, but for the names of whole GPUs."""


def uses_of(pod: Pod) -> list[tuple[str, tuple[Use, ...]]]:
    """What a pod has of the devices of its node, by source."""
    has = not ANNOTATIONS.isdisjoint(annotations_of(pod))  # few pods have
    return [(source.name, source.uses(pod) if has else ()) for source in SOURCES]


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

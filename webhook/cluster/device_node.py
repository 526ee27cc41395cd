"""The devices of one node, and who has them."""

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Final

from webhook.cluster.device_layout import Layout
from webhook.cluster.devices import DeviceClaim, Use

_MAX_HOLDERS: Final = 1024
"""More than a kubelet runs pods. To count these takes a millisecond at each of their events."""


class NodeDevices:
    """What the device table keeps of a node."""

    __slots__ = ("held", "layout", "slots", "unfit", "uses")

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.slots: dict[tuple[str, str], int] = {}
        """The number of each slot of the layout, by source and name of the device."""
        self.uses: dict[tuple[str, Hashable], tuple[Use, ...]] = {}
        """By source and holder."""
        self.held: list[DeviceClaim] = []
        self.unfit: list[tuple[DeviceClaim, ...]] = []
        """The claims of pods for which nothing was left. They do not count: to search again would cost others."""

    def all_placed(self) -> list[tuple[int, Use]]:
        """All uses of devices that are known; of very many holders those of the oldest: anybody can bind pods to a node."""
        holders = islice(self.uses.items(), _MAX_HOLDERS)
        return [each for (source, _), uses in holders for each in self.placed(source, uses)]

    def placed(self, source: str, uses: Iterable[Use]) -> list[tuple[int, Use]]:
        """The uses of devices that are known, each with the number of its slot."""
        return [(self.slots[source, use.device], use) for use in uses if (source, use.device) in self.slots]


def held_after(held: list[DeviceClaim], claims: tuple[DeviceClaim, ...], sign: int) -> list[DeviceClaim]:
    """What is held with more claims (1), or without claims (-1)."""
    if sign > 0:
        return [*held, *claims]
    for claim in claims:
        held.remove(claim)
    return held

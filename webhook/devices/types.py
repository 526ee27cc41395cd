"""What a device is, what is published of it, and what is asked for.

Who knows devices is a source: ResourceSlices and claims of DRA (`slices`, `claims`), or annotations of nodes and pods, as the
schedulers HAMi, KAI, Volcano and Aliyun write them (`sources`). What is left of them is in the device table (`table`).

All amounts come down to counters, numbers that may not fall below zero:

- Each device has a counter of uses: 1, or any number if it is shared.
- Each capacity of a shared device is a counter, of which each use takes a part: memory, cores.
- Shared counters are those that several devices draw on: the partitions of one GPU. A device takes its part with its first use.

Names of devices and pools are left out where nodes are compared. So equal nodes share what is kept of their devices.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from webhook.kube.device_tree import Facts
from webhook.kube.quantity import Number
from webhook.kube.taints import Tolerated

WHOLE: Final = 1000
"""What is free of a device is counted in thousandths."""
DRA: Final = ""
"""The source of the devices of DRA. What is free of its GPUs is a resource too: `types.PUBLISHED` and the driver."""
PUBLISHED: Final = "devices/"
"""Begins the names of resources whose amounts the device table knows, in thousandths of a device: the driver follows. No pod
requests them by name."""


class DeviceTaint(NamedTuple):
    """A taint that keeps claims off a device: its effect is NoSchedule or NoExecute."""

    key: str
    value: str
    effect: str


class Device(NamedTuple):
    """One device of a node, as its source publishes it. A device that nobody may get now (unhealthy, withdrawn) is left out."""

    name: str
    """Unique among the devices that this source publishes for the node; `Use.device` names it."""
    facts: Facts
    """Driver, attributes and capacity. `facts.shared`: several pods may use it at once, each a part of its capacity."""
    taints: tuple[DeviceTaint, ...] = ()
    counters: tuple[tuple[str, str, Number], ...] = ()
    """What its first use takes of counters: (counter set, counter, amount)."""
    policies: tuple[tuple[str, Any], ...] = ()
    """For capacities that are not requested in any amount: (name, CapacityRequestPolicy of DRA)."""


class DeviceSet(NamedTuple):
    """All devices that one source publishes for one node, in the order in which they are given out."""

    devices: tuple[Device, ...] = ()
    counters: tuple[tuple[str, str, Number], ...] = ()
    """All of each counter: (counter set, counter, amount)."""


class Use(NamedTuple):
    """What a pod or a claim has of one device. Uses of devices that are not known do nothing."""

    device: str
    amounts: tuple[tuple[str, Number | float], ...] = ()
    """What it takes of the capacities of a shared device; a float is a part of all of it."""


class DeviceRequest(NamedTuple):
    """A request for devices that are alike in what matters."""

    driver: str = ""
    """Only devices of this driver; "": any, the selectors say which."""
    devices: int = 1
    """Number of devices; 0: all that match, at least one."""
    selectors: tuple[str, ...] = ()
    """CEL expressions that must all be true of each device (`kube.device_selectors`)."""
    amounts: tuple[tuple[str, Number | float], ...] = ()
    """What is requested of each capacity, by qualified name; a float is a part of all of it. Of a shared device a capacity that
    is not named is taken whole."""
    tolerations: tuple[Tolerated, ...] = ()
    """Tolerations of device taints: key ("": any), value (None: any), effect ("": any)."""


class Constraint(NamedTuple):
    """What the devices of a claim must have in common, or must not."""

    attribute: str
    """Its qualified name. Each of the devices has it."""
    distinct: bool = False
    """Whether its values must differ; else they must be equal."""
    requests: frozenset[int] = frozenset()
    """The requests whose devices are compared, by their place in the claim; empty: all."""


class DeviceClaim(NamedTuple):
    """Devices that are allocated together."""

    requests: tuple[tuple[DeviceRequest, ...], ...]
    """For each request its alternatives, the most wanted first; nearly always one."""
    constraints: tuple[Constraint, ...] = ()
    name: str = ""
    """Namespace and name of a claim that several pods may share: its devices are counted once. "" if the pod has it alone."""
    source: str = ""
    """The driver whose devices it is for, if nodes of which that driver publishes nothing may take it too."""
    published_only: bool = False
    """Whether only devices that are published can be chosen for it. What else its scheduler may do is left to it."""

"""What a vendor's file says: facts, by the page or source where they were read. Data only.

`Vendor.facts` maps a source to the facts that are from there, so none is without one. Patterns of names are exact, or with a
trailing `*`, where nothing else is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

One = Literal["whole", "slice", "share", "part", "all", "none"]
"""What one of a resource is: a whole GPU; a hardware partition of one, or a core; a share of one, which others use too; a unit of
memory or time of one, which a scheduler counts; all GPUs of the node; nothing that gives a GPU."""
Says = Literal["model", "memory", "count", "present", "pool", "domain", "driver", "cuda", "hardware", "mode"]
"""What a label of a node says of it: the model of its GPUs; the MiB of each; how many it has; that it has some; its pool; its
topology domain; the version of its driver; the newest CUDA version for that driver; what its hardware is like; how it is set up."""
Gives = Literal["devices", "besideGpu", "legacy", "nothing"]
"""What a container gets by a variable or an annotation: devices; devices for use with the GPUs that it has; all devices, if it is
alone; no device, since only programs read it, or since it is known to be harmless."""


@dataclass(frozen=True, slots=True)
class Resource:
    """An extended resource. `one`: what one of it is, if the labels of its node do not say otherwise."""

    name: str
    one: One = "whole"
    of: str = ""
    """The resource that hands out the same devices whole; "" if this one does, or if no other hands them out."""
    vendor: str = ""
    """The domain of the vendor of these GPUs, if it is not that of the name."""
    counted: bool = False
    """The shipped policy counts it as a GPU."""


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass of DRA for whole GPUs, with the name of its driver. `vendor`: the domain of their resources."""

    name: str
    vendor: str


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a node. `key`: also with a trailing `*`."""

    key: str
    says: Says


@dataclass(frozen=True, slots=True)
class Divided:
    """A label of a node that says that one of `resource` there is no whole GPU.

    `value`: what the label has, with one `*` for anything. `into`: the label with the number of ones in a GPU. `only_above_one`:
    `key` is that label itself, and 1 says that GPUs are whole.
    """

    resource: str
    one: Literal["slice", "share"]
    key: str
    value: str = "*"
    into: str = ""
    only_above_one: bool = False


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """A label of a node with which it is not to be chosen: with one of these values."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a node, and the status that it has on one that is not to be chosen."""

    type: str
    sick: Literal["True", "False"] = "True"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node. `value` None: any. `says`: it keeps pods without GPUs away, or the node will soon be removed. `always`:
    pods tolerate it whether or not a node has it now."""

    key: str
    value: str | None = None
    says: Literal["gpu", "leaving"] = "gpu"
    always: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of containers. `hides`: its value for no GPU, which holds against what the image asks for."""

    name: str
    gives: Gives = "devices"
    hides: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An annotation of pods that reaches a container runtime, in lower case. `by_scheduler`: the scheduler writes it."""

    key: str
    gives: Gives = "devices"
    by_scheduler: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """An annotation of pods that asks for a part of a GPU of `vendor`."""

    key: str
    vendor: str


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path of the node. `gives`: whoever may mount it gets devices or the node; else programs of GPU pods need it."""

    path: str
    gives: Literal["node", "nothing"] = "nothing"


@dataclass(frozen=True, slots=True)
class DeviceMount:
    """The name of a folder below /var/run in a container, where a runtime takes what is mounted for names of devices."""

    name: str


@dataclass(frozen=True, slots=True)
class RuntimeClass:
    """The name of a RuntimeClass, or of its handler, under which an image alone may get GPUs."""

    name: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of the vendor's operator, whose pods need devices without asking for them."""

    name: str


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler that gives out GPUs. `parts`: also parts of them, for which pods ask by annotations."""

    name: str
    parts: bool = False


@dataclass(frozen=True, slots=True)
class Gate:
    """A scheduling gate: who takes it away, when, and which resource says why it has not. `name`: also with a trailing `*`."""

    name: str
    owner: str
    until: str
    seen: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of an exporter, by what it measures."""

    measures: Literal["utilisation", "engine", "memoryUsed", "memoryFree", "temperature", "xid"]
    name: str


Fact = (
    Resource
    | DeviceClass
    | Label
    | Divided
    | Unhealthy
    | Condition
    | Taint
    | Variable
    | Annotation
    | Part
    | HostPath
    | DeviceMount
    | RuntimeClass
    | Namespace
    | Scheduler
    | Gate
    | Metric
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """Who makes, publishes or shares GPUs. `unknown`: what of it is not known, one sentence each, for docs/vendors.md."""

    name: str
    facts: Mapping[str, tuple[Fact, ...]]
    unknown: tuple[str, ...] = ()

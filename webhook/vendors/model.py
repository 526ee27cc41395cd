"""What a vendor's file says: facts, by the page or source where they were read. Data only.

`Vendor.facts` maps a source to the facts that are from there, so none is without one. Patterns of names are exact, or with a
trailing `*`, where nothing else is said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

One = Literal["whole", "slice", "share", "part", "all", "none"]
"""What one of a resource is: a whole GPU; a hardware partition or a core of one; a share of one, which others use too; a unit of
memory or time, which a scheduler counts; all GPUs of the node; nothing that gives a GPU."""
Says = Literal["model", "memory", "count", "present", "pool", "domain", "driver", "cuda", "hardware", "mode", "spot"]
"""What a label of a node says: the model of its GPUs; the MiB of each; how many it has; that it has some; its pool; its topology
domain; the version of its driver; the newest CUDA version for that driver; what its hardware is like; how its GPUs are set up;
that it may be taken away at any time."""
Gives = Literal["devices", "besideGpu", "legacy", "own", "nothing"]
"""What a container gets by a variable or an annotation: devices; devices for use with the GPUs that it has; all devices, if it is
alone; some of its own, which are numbered from 0; no device, since only programs read it, or since it is known to be harmless."""


TaintSays = Literal["gpu", "leaving", "starting"]
"""What a taint says: it keeps pods without GPUs away; the node will soon be removed; it is not ready yet."""


@dataclass(frozen=True, slots=True)
class Resource:
    """An extended resource. `one`: what one of it is, if the labels of its node do not say otherwise. The shipped policy counts
    GPUs, slices and shares."""

    name: str
    one: One = "whole"
    of: str = ""
    """The resource that hands out the same devices whole; "" if this one does, or if no other hands them out."""
    vendor: str = ""
    """The domain of the vendor of these GPUs, if it is not that of the name."""
    alone: bool = False
    """A program uses only one of it: a second one in a container is of no use to it."""


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
    """A label of a node that says that one of `resource` there is no whole GPU, by its `value` (a pattern of `fnmatch`)."""

    resource: str
    one: Literal["slice", "share"]
    key: str
    value: str = "*"
    into: str = ""
    """The label with the number of ones in a GPU. If that is `key` itself, 1 says that GPUs are whole."""
    refused: bool = False
    """The device plugin refuses a pod that asks for two."""
    alone: bool = True
    """A program uses only one of it: a second one in a container is of no use to it."""
    host_ipc: bool = False
    """A pod uses it through the IPC namespace of the node, which it has to join."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How many slices of this size a GPU has, if all are alike. `size`: what a label says of it (a pattern of `fnmatch`)."""

    size: str
    per_gpu: int


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
    of_parts: bool = False
    """It is about parts of GPUs alone: whole ones may be used."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node. `value` None: any. `always`: pods with GPUs of its domain tolerate it, whether or not a node has it."""

    key: str
    value: str | None = None
    says: TaintSays = "gpu"
    always: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable of containers. `none`: the values with which its runtime gives no device, whatever the image asks
    for; the first one is what we write. Empty: there is no such value. None: nobody has read it anywhere. `anywhere`: with that
    first value the runtime does no more than without the variable, so that pods without GPUs may have it too."""

    name: str
    gives: Gives = "devices"
    none: tuple[str, ...] | None = None
    anywhere: bool = False


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
    """A path of the node. `gives`: whoever may mount it gets devices or the node; else programs of GPU pods need it. `label`: in
    namespaces with this label a webhook mounts it in GPU pods, itself and nothing below it."""

    path: str
    gives: Literal["node", "nothing"] = "nothing"
    label: str = ""


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
class ContainerPart:
    """Annotations of pods about the part of a GPU of `vendor` that one container gets: `prefix`, the name of the container, a dot
    and a word. `asks`: the words with which it asks for one. `harmless`: others that its author may write. The scheduler writes
    all other words, and gives devices by them."""

    prefix: str
    vendor: str
    asks: tuple[str, ...]
    harmless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartLimit:
    """An annotation of pods that says up to where a pod may use more than its part, where that is free. `of`: the annotation that
    asks for the part. With `prefix` it is about one container: its key is this, the name of the container, a dot and `key`."""

    key: str
    of: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class SharedBy:
    """Annotations of pods by which a scheduler of parts says which GPU a container gets, and which container it is."""

    config_map: str
    container: str


@dataclass(frozen=True, slots=True)
class SharedCards:
    """How a scheduler of parts of cards writes what nodes have and pods got: see `devices.source_vgpu`. `name`: how the devices
    are called. `cards`, `memory`, `percentage`, `cores`: the resources by which containers ask. `registered`: the annotation of
    a node. `assigned`: those of a pod, the newest first. `fields`: what the text says of a card after its UUID, slots and MiB.
    `choosing`: annotations by which a pod chooses its cards. `scheduler`: its name, if it weighs no preferences. `withdrawn`:
    annotations of a node: one that begins with "Deleted" when no card is offered; one that lists cards that are cordoned."""

    name: str
    cards: str
    memory: str
    percentage: str
    cores: str
    registered: str
    assigned: tuple[str, ...]
    fields: tuple[str, ...]
    choosing: tuple[str, ...]
    scheduler: str = ""
    withdrawn: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """How a scheduler of memory writes it, where the GPUs of a node are equal: see `devices.source_aliyun`. `memory`, `count`:
    resources of a node. `index`: the annotation with the number of the GPU of which a pod has a part."""

    name: str
    memory: str
    count: str
    index: str


@dataclass(frozen=True, slots=True)
class SharedGroups:
    """How a scheduler holds a GPU for a group of pods that share it: see `devices.source_kai`. By a pod in `namespace`, which
    asks for a `gpu`, and the label `group`. `fraction`, `memory`, `number`: annotations by which pods ask. `received`: the one
    with what it gave them."""

    name: str
    scheduler: str
    gpu: str
    namespace: str
    group: str
    received: str
    fraction: str
    memory: str
    number: str


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A scheduler that gives out parts of GPUs, for which pods ask by annotations."""

    name: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A scheduling gate: who takes it away, when, and which resource says why it has not. `name`: also with a trailing `*`."""

    name: str
    owner: str
    until: str
    seen: str = ""


@dataclass(frozen=True, slots=True)
class CudaImage:
    """An image whose tag tells for which CUDA it is built. `name`: how the name of its repository ends. `before`: what stands
    before the version in its part of the tag. It brings NVIDIA's cuda-compat, by which programs run on drivers of older major
    versions, but not if the tag ends in one of `but`."""

    name: str
    before: str = ""
    but: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DriverVariable:
    """A variable of containers about the driver: the CUDA that the image is made for; what must hold for the driver; that nothing
    of it is checked."""

    name: str
    says: Literal["cuda", "required", "unchecked"]


@dataclass(frozen=True, slots=True)
class ForDesktops:
    """How models of GPUs begin for which there is no cuda-compat."""

    model: str


@dataclass(frozen=True, slots=True)
class Collectives:
    """The library by which programs on several GPUs of `vendor` talk to each other, through /dev/shm within a container."""

    name: str
    vendor: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of an exporter, by what it measures."""

    measures: Literal["utilisation", "engine", "memoryUsed", "memoryFree", "temperature", "xid"]
    name: str


@dataclass(frozen=True, slots=True)
class SeriesLabel:
    """A label of the series of an exporter, and what its value is: the UUID of a GPU, or its number on the node; the number of a
    MIG instance of it; the node."""

    name: str
    says: Literal["uuid", "number", "instance", "node"]


@dataclass(frozen=True, slots=True)
class Command:
    """`line`: a program and its arguments. For each GPU of its node it prints the name (`named`: a regular expression), the
    utilisation in percent, used and whole memory in MiB, and degrees Celsius, with commas between. `unknown`, `broken`: what it
    prints of a value that it does not know, and of a GPU that has to be reset or repaired."""

    line: str
    named: str
    unknown: tuple[str, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasuringPods:
    """Pods that tell what the GPUs of their nodes do. `source`: what asks them, by its name in the policy: a module of `feeds/`,
    or the one that runs `command`; `does`: in words. `name`: what they are called. `namespace`, `app`: where they are, and their
    label of this name."""

    source: str
    does: str
    name: str
    namespace: str
    app: str
    command: Command | None = None


@dataclass(frozen=True, slots=True)
class OwnQueues:
    """A scheduler that orders pods by their PriorityClass in queues of its own, and preempts by it. `called`: in words."""

    name: str
    called: str


@dataclass(frozen=True, slots=True)
class GangKind:
    """A kind of object that says which pods start together. `kind`: what we call it; `api`: its group and version."""

    kind: str
    api: str
    plural: str


@dataclass(frozen=True, slots=True)
class UnnamedNode:
    """Nodes that no pod may name: those of this name pattern, whose cloud refuses the affinity. `whose`: in words."""

    name: str
    whose: str


Fact = (
    Resource
    | DeviceClass
    | Label
    | Divided
    | Profile
    | Unhealthy
    | Condition
    | Taint
    | Variable
    | Annotation
    | Part
    | ContainerPart
    | PartLimit
    | SharedBy
    | SharedCards
    | SharedMemory
    | SharedGroups
    | HostPath
    | DeviceMount
    | RuntimeClass
    | Namespace
    | Scheduler
    | Gate
    | CudaImage
    | DriverVariable
    | ForDesktops
    | Collectives
    | Metric
    | SeriesLabel
    | MeasuringPods
    | OwnQueues
    | GangKind
    | UnnamedNode
)


@dataclass(frozen=True, slots=True)
class Vendor:
    """Who makes, publishes or shares GPUs. `unknown`: what of it is not known, one sentence each, for docs/vendors.md."""

    name: str
    facts: Mapping[str, tuple[Fact, ...]]
    unknown: tuple[str, ...] = ()

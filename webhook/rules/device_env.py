"""No container selects its devices by an environment variable: that is for the device plugin.

Container runtimes give devices by environment variables, and the pod's variable overrides that of the device plugin:
`NVIDIA_VISIBLE_DEVICES=all` gives every GPU of the node, whatever the limits are. Any variable that ends in `_VISIBLE_DEVICES`
is refused, unless it is known that only programs in the container read it.

Fields read:   env[*].name, .value and .valueFrom of spec.containers, initContainers and ephemeralContainers
Allowed:       a value that takes no device ("", void, none; for Gaudi none alone); CUDA_VISIBLE_DEVICES and the other variables
               of `programs`; NVIDIA_DRIVER_CAPABILITIES; what the webhook of KAI or Run:ai writes for a part of a GPU
Refused:       any other value; any valueFrom, whose value is not known here; `besideGpu` in a container without a GPU
Warned about:  beside a GPU limit: a value that takes no device (the container does not see its GPU), and `besideGpu`
DRA:           a claim is no GPU limit. `void` beside a claim hides nothing, since CDI does not read the variable

Source: as in `webhook/framework/device_variables.py`.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from webhook.framework.device_variables import (
    DEVICES,
    HIDDEN,
    LEGACY,
    NO_DEVICE,
    NVIDIA,
    PART,
    PROGRAMS,
    hides_devices,
    is_part_of_gpu,
    takes_no_device,
    value_of,
)
from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.other_gpus import part_container
from webhook.text import Patterns, bare, matches_any, quoted
from webhook.vendors.catalogue import variables

_SUFFIX = "_VISIBLE_DEVICES"
_PAST = "no such variable: it hands out devices past the GPU limit"
_NODE = "no such variable: it hands out devices of the node that no limit counts"
_ALL = "no such variable: alone it stands for all GPUs of the node"
_HIDES = "no such variable: it hides that GPU from the container"
_PLUGIN = "Remove it: a container gets the GPUs that its limits ask for"


class DeviceEnv(Rule):
    everywhere: ClassVar[bool] = True

    names: tuple[str, ...] = DEVICES
    """Variables that hand out devices (name patterns, case-sensitive). Every other name that ends in _VISIBLE_DEVICES counts too,
    since every vendor has its own variable. LD_PRELOAD is not in the list: it has legitimate uses."""
    programs: tuple[str, ...] = PROGRAMS
    """Variables that end in _VISIBLE_DEVICES but hand out nothing: only programs in the container read them (name patterns)."""
    beside_gpu: tuple[str, ...] = variables("besideGpu")
    """Variables that hand out devices for use with GPUs: refused in a container without a GPU, warned about in one with a GPU."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        part = part_container(pod.json)
        for container in pod.containers:
            env = container.spec.get("env") or ()
            names = self._among([entry.get("name") or "" for entry in env])
            if not names:
                continue
            named = [(index, entry) for index, entry in enumerate(env) if entry.get("name") in names]
            with_gpu, hidden = container.has_gpu(context.gpus), hides_devices(container.spec)
            for index, entry in named:
                if container.name == part and is_part_of_gpu(entry, pod.json):
                    continue
                if violation := self._violation(entry, with_gpu, hidden):
                    besides, wanted, fix, only_warn = violation
                    seen = f"{bare(entry['name'])}={value_of(entry)} in container {quoted(container.name)}{besides}"
                    yield Finding(f"{container.field}.env[{index}]", seen, wanted, fix, only_warn)

    def _among(self, names: Iterable[str]) -> set[str]:
        """Those of these names whose variables this rule checks."""
        by_suffix = {name for name in names if name.endswith(_SUFFIX) and not matches_any(self.programs, name)}
        return by_suffix | self._patterns.among(names)

    @cached_property
    def _patterns(self) -> Patterns:
        return Patterns((*self.names, *LEGACY, *self.beside_gpu))

    def _violation(self, entry: Mapping[str, Any], with_gpu: bool, hidden: bool) -> tuple[str, str, str, bool] | None:
        """What is seen besides the variable, what is wanted, the next step, and whether it is only a warning; None: allowed."""
        name, alone = entry["name"], "" if with_gpu else ", which asks for no GPU"
        if name in LEGACY:
            fix = f"Remove it, or set {NVIDIA} to void beside it"
            return None if with_gpu or hidden else (alone, _ALL, fix, False)
        if name in self.beside_gpu:
            fix = "Remove it where the program does not need it" if with_gpu else "Remove it, or ask for a GPU"
            return None if takes_no_device(entry) else (alone, _NODE, fix, with_gpu)
        if not takes_no_device(entry):
            return "", _PAST, _PLUGIN, False
        return (", which asks for a GPU", _HIDES, _PLUGIN, True) if with_gpu else None

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        by_suffix = f'e.name.endsWith("{_SUFFIX}") && !{cel.matches("e.name", self.programs)}'
        apart = f"!(e.name in {cel.literal((*LEGACY, *self.beside_gpu))})"
        named = cel.all_of([apart, cel.any_of([cel.matches("e.name", self.names), by_suffix])])
        wanted = f"no variable such as {NVIDIA}: it hands out devices past the GPU limit"
        yield Check("container", cel.env(f"{named} && !{NO_DEVICE} && !{PART}"), wanted)
        hides = cel.all_of([cel.env(f"{named} && {NO_DEVICE}"), cel.ASKS])
        yield Check("container", hides, "no variable that hides the GPU from its container", only_warn=True)
        legacy = cel.all_of([cel.env(f"e.name in {cel.literal(LEGACY)}"), f"!{cel.ASKS}", f"!{HIDDEN}"])
        yield Check("container", legacy, f"no {' or '.join(LEGACY)} without a GPU: alone it stands for all GPUs")
        node = cel.env(f"e.name in {cel.literal(self.beside_gpu)} && !{NO_DEVICE}")
        wanted = f"no {', '.join(self.beside_gpu)}: devices of the node that no limit counts"
        yield Check("container", cel.all_of([node, f"!{cel.ASKS}"]), wanted)
        yield Check("container", cel.all_of([node, cel.ASKS]), wanted, only_warn=True)

"""No container chooses its devices by an environment variable: the device plugin does.

The vendors' container runtimes read environment variables to decide which devices a container gets. What a pod sets
comes after what the device plugin sets, and the last one wins: `NVIDIA_VISIBLE_DEVICES=all` is every GPU of the node,
whatever the limits say. Every vendor has a variable of his own, and nearly all end in `_VISIBLE_DEVICES`: one that does is
refused even if it is not known, unless it is among those that only programs in the container read.

Fields read:   env[*].name, .value and .valueFrom of spec.containers, initContainers and ephemeralContainers
Allowed:       none of these variables; or with a value that takes no device ("", void, none); CUDA_VISIBLE_DEVICES and the
               others of `programs`; NVIDIA_DRIVER_CAPABILITIES, which chooses libraries
Refused:       any other value, and any valueFrom: what it gives is not known here; `besideGpu` in a container without a GPU
Warned about:  a value that takes no device beside a GPU limit (the container does not see the GPU that it holds), and
               `besideGpu` beside one
DRA:           a claim is no GPU limit: it excuses nothing, and `void` beside it hides nothing, since CDI does not ask.

Source: as in `webhook/framework/device_variables.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from webhook.framework import device_variables
from webhook.framework.device_variables import NO_DEVICE, NVIDIA, hides_devices, takes_no_device, value_of
from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import Patterns, bare, matches_any, quoted

_SUFFIX = "_VISIBLE_DEVICES"
_LEGACY = "CUDA_VERSION"
_PAST = "no such variable: it hands out devices past the GPU limit"
_NODE = "no such variable: it hands out devices of the node that no limit counts"
_ALL = "no such variable: alone it stands for all GPUs of the node"
_HIDES = "no such variable: it hides that GPU from the container"
_PLUGIN = "Remove it: the device plugin sets it to the GPUs that the limits ask for"


class DeviceEnv(Rule):
    """No container chooses its devices by an environment variable: it would win over what the device plugin sets."""

    everywhere: ClassVar[bool] = True

    names: tuple[str, ...] = device_variables.DEVICES
    """Variables that hand out devices (name patterns, case and all). What else ends in _VISIBLE_DEVICES counts as one of them:
    every vendor has a variable of his own. LD_PRELOAD is not among them: there are good reasons for it."""
    programs: tuple[str, ...] = device_variables.PROGRAMS
    """Those that end in _VISIBLE_DEVICES and that only programs in the container read: they hand out nothing (name patterns)."""
    beside_gpu: tuple[str, ...] = ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY")
    """Variables that hand out devices which containers with GPUs need: refused in one without, warned about beside one."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        named = self._named(context.variables(pod))
        if not named:
            return
        for container in context.containers(pod):
            with_gpu, hidden = container.has_gpu(context.gpus), hides_devices(container.spec)
            for index, entry in enumerate(container.spec.get("env") or ()):
                if entry.get("name") in named and (judged := self._judged(entry, with_gpu, hidden)):
                    besides, wanted, fix, only_warn = judged
                    seen = f"{bare(entry['name'])}={value_of(entry)} in container {quoted(container.name)}{besides}"
                    yield Finding(f"{container.field}.env[{index}]", seen, wanted, fix, only_warn)

    def _named(self, names: Iterable[str]) -> set[str]:
        """Those of the names of variables that matter."""
        match, apart = self._patterns.match, {_LEGACY, *self.beside_gpu}
        by_suffix = {name for name in names if name.endswith(_SUFFIX) and not matches_any(self.programs, name)}
        return by_suffix | {name for name in names if name in apart or match(name)}

    @cached_property
    def _patterns(self) -> Patterns:
        return Patterns(self.names)

    def _judged(self, entry: Mapping[str, Any], with_gpu: bool, hidden: bool) -> tuple[str, str, str, bool] | None:
        """What is seen besides the variable, what is wanted, what to do, and whether it is only a warning."""
        name, alone = entry["name"], "" if with_gpu else ", which asks for no GPU"
        if name == _LEGACY:
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
        apart = f"!(e.name in {cel.literal((_LEGACY, *self.beside_gpu))})"
        named = cel.all_of([apart, cel.any_of([cel.matches("e.name", self.names), by_suffix])])
        wanted = f"no variable such as {NVIDIA}: it hands out devices past the GPU limit"
        yield Check("container", cel.env(f"{named} && !{NO_DEVICE}"), wanted)
        hides = cel.all_of([cel.env(f"{named} && {NO_DEVICE}"), cel.ASKS])
        yield Check("container", hides, "no variable that hides the GPU from its container", only_warn=True)
        hidden = cel.env(f"e.name == {cel.literal(NVIDIA)} && {NO_DEVICE}")
        legacy = cel.all_of([cel.env(f"e.name == {cel.literal(_LEGACY)}"), f"!{cel.ASKS}", f"!{hidden}"])
        yield Check("container", legacy, f"no {_LEGACY} without a GPU: alone it stands for all GPUs")
        node = cel.env(f"e.name in {cel.literal(self.beside_gpu)} && !{NO_DEVICE}")
        wanted = f"no {', '.join(self.beside_gpu)}: devices of the node that no limit counts"
        yield Check("container", cel.all_of([node, f"!{cel.ASKS}"]), wanted)
        yield Check("container", cel.all_of([node, cel.ASKS]), wanted, only_warn=True)

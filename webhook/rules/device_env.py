"""No container names its devices by environment: that is the device plugin's to do.

The vendors' container runtimes read environment variables to decide which devices a container gets. What a pod sets
comes after what the device plugin sets, and the last one wins: `NVIDIA_VISIBLE_DEVICES=all` is every GPU of the node,
whatever the limits say. Every vendor has a variable of his own, and nearly all end in `_VISIBLE_DEVICES`: one that does is
refused even where nobody has heard of it, unless it is among those that only programs in the container read.

Fields read:   env[*].name, .value and .valueFrom of spec.containers, initContainers and ephemeralContainers
Allowed:       none of these variables; or with a value of `harmless`, which takes no device; CUDA_VISIBLE_DEVICES and the
               others of `programs`; NVIDIA_DRIVER_CAPABILITIES, which chooses libraries
Refused:       any other value, and any valueFrom: what it gives is not known here; `besideGpu` in a container without a GPU
Warned about:  a harmless value beside a GPU limit (the container does not see the GPU that it holds), `besideGpu` beside
               one, and what switches off the check of driver against image (`advised`)
DRA:           a claim is no GPU limit: it excuses nothing, and `void` beside it hides nothing, since CDI does not ask.

Source: NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go (VisibleDevices, IsLegacy),
internal/modifier/cdi.go (gatedDevices, imexDevices); the runtimes of AMD, Habana, Ascend, MThreads, Cambricon, MetaX,
Iluvatar, Enflame, Hygon, Kunlunxin, XDXCT and AWS Neuron; the order of variables: kubelet GenerateRunContainerOptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from pydantic import Field

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import bare, matches_any, quoted

_PAST = "no such variable: it hands out devices past the GPU limit"
_PLUGIN = "Remove it: the device plugin sets it to the GPUs that the limits ask for"
_SUFFIX = "_VISIBLE_DEVICES"


class DeviceEnv(Rule):
    """No container chooses its devices by environment: it comes after what the device plugin says, and wins."""

    everywhere: ClassVar[bool] = True

    names: tuple[str, ...] = Field(
        min_length=1,
        default=(
            *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"),
            *("NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH", "DOCKER_RESOURCE_*", "AMD_VISIBLE_DEVICES"),
            *("HABANA_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ASCEND_RUNTIME_*", "ASCEND_VNPU_SPECS"),
            *("ASCEND_ALLOW_LINK", "MTHREADS_VISIBLE_DEVICES", "CAMBRICON_VISIBLE_DEVICES", "METAX_VISIBLE_DEVICES"),
            *("ILUVATAR_VISIBLE_DEVICES", "ILUVATAR_COREX_*", "ENFLAME_VISIBLE_DEVICES", "HYGON_VISIBLE_DEVICES"),
            *("DCU_VISIBLE_DEVICES", "AWS_NEURON_VISIBLE_DEVICES", "CXPU_VISIBLE_DEVICES", "XDXCT_VISIBLE_DEVICES"),
        ),
    )
    """Variables that hand out devices (name patterns, case and all). The first is NVIDIA's. What else ends in _VISIBLE_DEVICES
    counts as one of them: every vendor has a variable of his own. LD_PRELOAD is not among them: there are good reasons for it."""
    programs: tuple[str, ...] = (
        *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"),
        *("NPU_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "MLU_VISIBLE_DEVICES", "MACA_VISIBLE_DEVICES"),
        *("XPU_VISIBLE_DEVICES", "HL_VISIBLE_DEVICES", "TOPS_VISIBLE_DEVICES", "TPU_VISIBLE_DEVICES"),
        *("JAX_*", "RAY_*", "VLLM_*"),
    )
    """Those that end in _VISIBLE_DEVICES and that only programs in the container read: they hand out nothing (name patterns)."""
    harmless: tuple[str, ...] = ("", "void", "none")
    """Values that take no device."""
    legacy: tuple[str, ...] = ("CUDA_VERSION",)
    """Variables that mean «all GPUs» in a container without a GPU limit and without the first of `names`."""
    beside_gpu: tuple[str, ...] = ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY")
    """Variables that hand out devices which containers with GPUs need: refused in one without, warned about beside one."""
    advised: tuple[str, ...] = ("NVIDIA_DISABLE_REQUIRE",)
    """Variables that their author is told about: this one switches off the check of the driver."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if not any([self._matters(name or "") for name in context.variables(pod)]):
            return
        for container in context.containers(pod):
            env = container.spec.get("env") or ()
            with_gpu, closed = container.has_gpu(context.gpus), self._is_closed(env)
            for index, entry in enumerate(env):
                if self._matters(entry.get("name") or "") and (judged := self._judged(entry, with_gpu, closed)):
                    more, wanted, fix, only_warn = judged
                    seen = f"{bare(entry['name'])}={_value(entry)} in container {quoted(container.name)}{more}"
                    yield Finding(f"{container.field}.env[{index}]", seen, wanted, fix, only_warn)

    def _matters(self, name: str) -> bool:
        told = name in self.legacy or name in self.beside_gpu or name in self.advised
        return (
            told or matches_any(self.names, name) or (name.endswith(_SUFFIX) and not matches_any(self.programs, name))
        )

    def _judged(self, entry: dict[str, Any], with_gpu: bool, closed: bool) -> tuple[str, str, str, bool] | None:
        """What is seen besides the variable, what is wanted, what to do, and whether it is only a warning."""
        name, harmless = entry["name"], self._is_harmless(entry)
        alone = "" if with_gpu else ", which asks for no GPU"
        if name in self.beside_gpu:
            fix = "Remove it where the program does not need it" if with_gpu else "Remove it, or ask for a GPU"
            wanted = "no such variable: it hands out devices of the node that no limit counts"
            return None if harmless else (alone, wanted, fix, with_gpu)
        if name in self.advised:
            wanted = "no such variable: it switches off the check that the driver fits the image"
            return "", wanted, "Remove it, and choose an image for the driver of the nodes", True
        if name in self.legacy:
            wanted = "no such variable: alone it stands for all GPUs of the node"
            fix = f"Remove it, or set {self.names[0]} to void beside it"
            return None if with_gpu or closed else (alone, wanted, fix, False)
        if not harmless:
            return "", _PAST, _PLUGIN, False
        hides = "no such variable: it hides that GPU from the container"
        return (", which asks for a GPU", hides, _PLUGIN, True) if with_gpu else None

    def _is_closed(self, env: Iterable[dict[str, Any]]) -> bool:
        """Whether the container gets no NVIDIA GPU: of several values the last one wins."""
        values = [entry for entry in env if entry.get("name") == self.names[0]]
        return bool(values) and self._is_harmless(values[-1])

    def _is_harmless(self, entry: dict[str, Any]) -> bool:
        return not entry.get("valueFrom") and (entry.get("value") or "") in self.harmless

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        none = cel.harmless(self.harmless)
        others = f'e.name.endsWith("{_SUFFIX}") && !{cel.matches("e.name", self.programs)}'
        told = f"!(e.name in {cel.literal((*self.legacy, *self.beside_gpu, *self.advised))})"
        named = cel.all_of([told, cel.any_of([cel.matches("e.name", self.names), others])])
        wanted = f"no variable such as {self.names[0]}: it hands out devices past the GPU limit"
        yield Check("container", cel.env(f"{named} && !{none}"), wanted)
        hidden = cel.all_of([cel.env(f"{named} && {none}"), cel.ASKS])
        yield Check("container", hidden, "no variable that hides the GPU from its container", only_warn=True)
        closed = cel.env(f"e.name == {cel.literal(self.names[0])} && {none}")
        alone = cel.all_of([cel.env(f"e.name in {cel.literal(self.legacy)}"), f"!{cel.ASKS}", f"!{closed}"])
        yield Check("container", alone, f"no {', '.join(self.legacy)} without a GPU: alone it stands for all GPUs")
        node = cel.env(f"e.name in {cel.literal(self.beside_gpu)} && !{none}")
        wanted = f"no {', '.join(self.beside_gpu)}: devices of the node that no limit counts"
        yield Check("container", cel.all_of([node, f"!{cel.ASKS}"]), wanted)
        yield Check("container", cel.all_of([node, cel.ASKS]), wanted, only_warn=True)
        wanted = f"no {', '.join(self.advised)}: it switches off the check that the driver fits the image"
        yield Check("container", cel.env(f"e.name in {cel.literal(self.advised)}"), wanted, only_warn=True)


def _value(entry: dict[str, Any]) -> str:
    """The value as a phrase; of a reference only what kind it is, since what it leads to may be a secret."""
    source = entry.get("valueFrom")
    if source:
        return f"(from a {bare(next(iter(source), 'reference'))})" if isinstance(source, dict) else "(a reference)"
    return quoted(entry.get("value") or "")

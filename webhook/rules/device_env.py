"""No container names its devices by environment: that is the device plugin's to do.

The vendors' container runtimes read environment variables to decide which devices a container gets. What a pod sets
comes after what the device plugin sets, and the last one wins: `NVIDIA_VISIBLE_DEVICES=all` is every GPU of the node,
whatever the limits say.

Fields read:   env[*].name, .value and .valueFrom of spec.containers, initContainers and ephemeralContainers
Allowed:       none of the variables of `names`; or with a value of `harmless`, which takes no device
Refused:       any other value, and any valueFrom: what it gives is not known here
Warned about:  a harmless value beside a GPU limit (the container does not see the GPU that it holds), and what
               switches off the check of driver against image (`advised`)
DRA:           the same.

Source: NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go (VisibleDevices, IsLegacy); the order of
variables: kubelet GenerateRunContainerOptions, pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from pydantic import Field

from webhook.interface import Context, Finding, Rule
from webhook.pod import Container, Pod
from webhook.text import bare, quoted

_PLUGIN = "Remove it: the device plugin sets it to the GPUs that the limits ask for"


class DeviceEnv(Rule):
    """No container chooses its devices by environment variable."""

    names: tuple[str, ...] = Field(
        min_length=1,
        default=(
            "NVIDIA_VISIBLE_DEVICES",
            "NVIDIA_MIG_CONFIG_DEVICES",
            "NVIDIA_MIG_MONITOR_DEVICES",
            "NVIDIA_IMEX_CHANNELS",
            "AMD_VISIBLE_DEVICES",
            "HABANA_VISIBLE_DEVICES",
            "ASCEND_VISIBLE_DEVICES",
        ),
    )
    """Variables by which a container runtime hands out devices. Exact: Linux tells upper from lower case."""
    harmless: tuple[str, ...] = ("", "void", "none")
    """Values that take no device."""
    legacy: tuple[str, ...] = ("CUDA_VERSION",)
    """Variables that mean «all GPUs» where there is no GPU limit and the first of `names` is not set."""
    advised: tuple[str, ...] = ("NVIDIA_DISABLE_REQUIRE",)
    """Variables that are warned about."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if self._known.isdisjoint(context.variables(pod)):
            return
        for container in context.containers(pod):
            if container.spec.get("env"):
                yield from self._container(container, context)

    def _container(self, container: Container, context: Context) -> Iterator[Finding]:
        env = container.spec["env"]
        listed = [(index, entry) for index, entry in enumerate(env) if entry.get("name") in self._known]
        if not listed:
            return
        with_gpu = container.has_gpu(context.gpus)
        closed = with_gpu or any(e["name"] == self.names[0] and self._is_harmless(e) for _, e in listed)
        for index, entry in listed:
            name = entry["name"]
            path, seen = (
                f"{container.field}.env[{index}]",
                f"{name}={_value(entry)} in container {quoted(container.name)}",
            )
            if name in self.names:
                if not self._is_harmless(entry):
                    yield Finding(path, seen, "no such variable: it hands out devices past the GPU limit", _PLUGIN)
                elif with_gpu:
                    seen += ", which asks for a GPU"
                    yield Finding(path, seen, "no such variable: it hides that GPU from the container", _PLUGIN, True)
            elif name in self.advised:
                wanted = "no such variable: it switches off the check that the driver fits the image"
                yield Finding(path, seen, wanted, "Remove it, and choose an image for the driver of the nodes", True)
            elif not closed:
                seen += ", which asks for no GPU"
                fix = f"Remove it, or set {self.names[0]} to void beside it"
                yield Finding(path, seen, "no such variable: alone it stands for all GPUs of the node", fix)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset((*self.names, *self.legacy, *self.advised))

    def _is_harmless(self, entry: dict[str, Any]) -> bool:
        return not entry.get("valueFrom") and (entry.get("value") or "") in self.harmless


def _value(entry: dict[str, Any]) -> str:
    """The value as a phrase; of a reference only what kind it is, since what it leads to may be a secret."""
    source = entry.get("valueFrom")
    if source:
        return f"(from a {bare(next(iter(source), 'reference'))})" if isinstance(source, dict) else "(a reference)"
    return quoted(entry.get("value") or "")

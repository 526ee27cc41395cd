"""Only pods that ask for a GPU use the GPU runtime.

Under the GPU runtime the environment of an image alone decides about devices: a CUDA image asks for all of them.

Fields read:   spec.runtimeClassName; resources of all containers, spec.resourceClaims
Allowed:       the classes of `classes` in a pod that asks for a GPU or claims devices; any other class
Refused:       these classes in a pod without
DRA:           a claim counts as a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.interface import Context, Finding, Rule
from webhook.pod import Pod
from webhook.text import matches_any, quoted


class RuntimeClass(Rule):
    """The GPU runtime is for pods that ask for a GPU."""

    classes: tuple[str, ...] = ("nvidia", "nvidia-cdi", "nvidia-legacy")
    """RuntimeClasses of the GPU runtime, exact or with a trailing `*`."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        name = pod["spec"].get("runtimeClassName")
        if not name or not matches_any(self.classes, name):
            return
        if context.has_gpu(pod):
            return
        yield Finding(
            path="spec.runtimeClassName",
            seen=f"{quoted(name)} in a pod that asks for no GPU",
            wanted="a GPU limit beside it: without one the image may see every GPU of the node",
            fix="Remove it, or ask for a GPU in the limits of a container",
        )

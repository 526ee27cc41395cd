"""No container selects some of its own GPUs by a variable such as CUDA_VISIBLE_DEVICES.

In a container its own GPUs are numbered from 0. A value for a whole machine hides some of them, or names GPUs that are not
there, and then CUDA finds no device at all.

Fields read:   env of spec.containers, initContainers and ephemeralContainers; GPU limits
Warned about:  any value but the GPUs of the limit ("0,1" with two), or nothing or -1 without a GPU
Not for:       DRA, where the number of GPUs is in the claim; pods with GPUs that the policy does not name
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from webhook.framework.device_variables import value_of
from webhook.framework.interface import Action, Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import asks_for_gpu
from webhook.text import plural, quoted
from webhook.vendors.catalogue import variables

_MAX_LENGTH = 256
_NOTHING = ("", "-1", "none", "void", "NoDevFiles")


class CudaVisibleDevices(Rule):
    not_exported: ClassVar[str] = "compares a list with the number of GPUs"

    action: Action = "warn"
    names: tuple[str, ...] = variables("own")
    """Variables by which a GPU library selects among the GPUs of a container."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            if (container.spec.get("resources") or {}).get("claims"):
                continue
            gpus = sum(container.gpu_counts(context.gpus).values())
            if not gpus and (context.other_gpus or asks_for_gpu(container.spec, context.gpus)):
                continue
            names = self.names
            for index, entry in enumerate(container.spec.get("env") or ()):
                if entry.get("name") in names and not _is_right(entry, gpus):
                    value = value_of(entry)
                    yield Finding(
                        path=f"{container.field}.env[{index}]",
                        seen=f"{entry['name']}={value} in container {quoted(container.name)} with {plural(gpus, 'GPU')}",
                        wanted="no such variable: a container sees its own GPUs, numbered from 0",
                        fix="Remove it" if gpus else "Remove it, or ask for a GPU in the limits of the container",
                    )

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        named = cel.env(f"e.name in {cel.literal(self.names)}")
        yield Check("container", named, "no such variable: a container sees its own GPUs")


def _is_right(entry: dict[str, Any], gpus: int) -> bool:
    """Whether the value names exactly the GPUs of the container."""
    value = entry.get("value") or ""
    if entry.get("valueFrom") or not isinstance(value, str) or len(value) > _MAX_LENGTH:
        return False
    if not gpus:
        return value in _NOTHING
    return sorted(part.strip() for part in value.split(",")) == sorted(map(str, range(gpus)))

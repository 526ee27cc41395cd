"""No container mounts anything where a container runtime looks for device names.

The runtimes of NVIDIA and Hygon can take their list of devices from mounts: anything mounted at
`/var/run/nvidia-container-devices/all` gives every GPU of the node.

Fields read:   volumeMounts[*].mountPath of spec.containers, initContainers and ephemeralContainers, with `//` and `.` resolved
Refused:       every path that begins with /var/run/nvidia-container-devices or /var/run/hcu-container-devices, or that contains
               such a name and `..`
DRA:           the same.

Source: NVIDIA/nvidia-container-toolkit internal/config/image/cuda_image.go (requestsFromMounts); HYGON-AI/hcu-container-toolkit
internal/config/image/dtk_image.go (DevicesFromMounts).
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import clean_path
from webhook.text import quoted
from webhook.vendors.catalogue import every
from webhook.vendors.model import DeviceMount

_NAMES = tuple([mount.name for mount in every(DeviceMount)])


class DeviceMounts(Rule):
    everywhere: ClassVar[bool] = True

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            for index, mount in enumerate(container.spec.get("volumeMounts") or ()):
                path = mount.get("mountPath") or ""
                for name in [name for name in _NAMES if name in path]:
                    if ".." in path.split("/") or clean_path(path).startswith(f"/run/{name}"):
                        yield Finding(
                            path=f"{container.field}.volumeMounts[{index}].mountPath",
                            seen=f"{quoted(path)} in container {quoted(container.name)}",
                            wanted=f"no mount below /var/run/{name}: its name hands out devices past the GPU limit",
                            fix="Remove the mount: the device plugin makes it for the GPUs that the limits ask for",
                        )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        parts = 'm.mountPath.split("/").filter(p, p != "" && p != ".")'
        for name in _NAMES:
            begins = [f'{parts}.join("/").startsWith("{folder}/{name}")' for folder in ("var/run", "run")]
            below = cel.any_of([f'".." in {parts}', *begins])
            bad = f'{cel.field("c", "volumeMounts")}.exists(m, m.mountPath.contains("{name}") && {below})'
            yield Check("container", bad, f"no mount below /var/run/{name}")

"""No volume brings in the device files of the node, or the sockets that hand out devices.

Fields read:   spec.volumes[*].hostPath.path, cleaned of `//` and `..`
Refused:       a path of `paths`, everything below it, and every folder above it: `/`, `/dev`, `/run`, `/var/lib/kubelet`; the
               files of a process, since `/proc/1/root` is the whole node
Allowed:       other host paths: `/dev/shm`, `/dev/infiniband`, `/mnt/models`
Not seen:      symbolic links on the node, and volumes of class local or hostPath, which only administrators make. Pod
               Security Admission at level «baseline» refuses all host paths, and should be on in namespaces with GPUs.
DRA:           the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from webhook.interface import Context, Finding, Rule
from webhook.pod import Pod, clean_path
from webhook.text import quoted

_PROCESS = re.compile(r"/proc/(?:self|thread-self|[0-9]+)(?=/|\Z)", re.ASCII)


class HostDevices(Rule):
    """No host path leads to devices or to what hands them out."""

    paths: tuple[str, ...] = (
        "/dev/nvidia*",
        "/dev/dri",
        "/dev/kfd",
        "/dev/accel*",
        "/dev/davinci*",
        "/dev/vfio",
        "/dev/char",
        "/proc/driver/nvidia",
        "/run/nvidia",
        "/run/cdi",
        "/etc/cdi",
        "/var/lib/kubelet",
        "/run/containerd",
        "/run/crio",
        "/run/docker.sock",
        "/run/docker",
        "/run/cri-dockerd.sock",
        "/run/k3s",
        "/run/k0s",
    )
    """Files and folders of the node, exact or with a trailing `*`. `/run` stands for `/var/run` too."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for index, volume in enumerate(pod["spec"].get("volumes") or ()):
            host = volume.get("hostPath")
            if not host:
                continue
            seen = host.get("path") or ""
            if reached := self._reached(clean_path(seen)):
                inside, what = reached
                yield Finding(
                    path=f"spec.volumes[{index}].hostPath.path",
                    seen=quoted(seen),
                    wanted=f"no host path that leads to devices: {what} is {'what it names' if inside else 'below it'}",
                    fix="Remove the volume: the device plugin brings the devices that the limits ask for",
                )

    def _reached(self, path: str) -> tuple[bool, str] | None:
        """What a path leads to, and whether it names it (or something in it) rather than a folder above it."""
        if process := _PROCESS.match(path):
            return True, process[0]
        folder = path.rstrip("/") + "/"
        for pattern, beginning, is_prefix in self._known:
            if folder.startswith(beginning if is_prefix else beginning + "/"):
                return True, pattern
            if beginning.startswith(folder):
                return False, pattern
        return None

    @cached_property
    def _known(self) -> tuple[tuple[str, str, bool], ...]:
        return tuple((p, clean_path(p.removesuffix("*")), p.endswith("*")) for p in self.paths)

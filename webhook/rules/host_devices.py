"""Host paths are folders of data, and nothing else of the node.

A host path may lead to devices, to the sockets that hand them out, and to what root programs of the node read. There are more
of these than anybody can list (`/run/nri`, `/sys/bus/pci`, `/etc/containerd`, `/var/snap/microk8s`), so the rule lists what
may be mounted.

Fields read:   spec.volumes[*].hostPath.path, cleaned of `//` and `..`, with /var/run as /run; .type
Allowed:       the folders of `allowed`, and what is below them
Refused:       all others; what has a backslash, which Windows takes as a slash; a type that is a device or a socket
               (CharDevice, BlockDevice, Socket), wherever it is
Not seen:      symbolic links on the node. Who may write to an allowed folder may put one there that leads anywhere; a subPath
               cannot leave its volume. Volumes of class local or hostPath, which only administrators make. Pod Security
               Admission at level «baseline» refuses all host paths, and should be on in namespaces with GPUs.
DRA:           the same.

Source: kubernetes/kubernetes pkg/volume/hostpath, pkg/kubelet/kubelet_pods.go (subPath).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod, clean_path
from webhook.text import listed, quoted

_SPECIAL = frozenset(("CharDevice", "BlockDevice", "Socket"))
_FIX = "Use a volume claim or an emptyDir; the device plugin brings the devices that the limits ask for"


class HostDevices(Rule):
    """No host path but these, with all below them (name patterns; /run is /var/run too), and none that is a device or a
    socket. Who may write to such a folder can put a link there that leads anywhere on the node: [] admits no host path.
    Home folders of users who may become root (.ssh), and /home/kubernetes on GKE, lead to the node too: take /home out
    where you can."""

    everywhere: ClassVar[bool] = True

    allowed: tuple[str, ...] = (
        *("/mnt", "/data*", "/models", "/scratch", "/home", "/raid", "/nfs", "/lustre", "/fsx", "/checkpoints"),
        *("/workspace", "/dev/shm", "/var/log/sagemaker_checkpointing"),  # noqa: S108  of the node, no file of ours
        *("/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo"),
    )
    """Folders and files of the node that may be mounted."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for index, volume in enumerate(pod["spec"].get("volumes") or ()):
            host = volume.get("hostPath")
            if not host:
                continue
            where, seen, kind = f"spec.volumes[{index}].hostPath", host.get("path") or "", host.get("type") or ""
            if kind in _SPECIAL:
                yield Finding(f"{where}.type", quoted(kind), "a folder or a file, no device and no socket", _FIX)
            elif not self._is_allowed(seen):
                folders = f"one of the folders that may be mounted: {listed(self.allowed)}"
                yield Finding(f"{where}.path", quoted(seen), folders if self.allowed else "no host path", _FIX)

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        """`//`, `.` and /var/run are resolved here as there; `..` the API server refuses in host paths."""
        inside = cel.any_of([f"folder.startsWith({cel.literal(p)})" for p in self._beginnings])
        special = 'v.?hostPath.?type.orValue("") in ["CharDevice", "BlockDevice", "Socket"]'
        bad = cel.any_of(
            [
                f"variables.hostFolders.exists(folder, !{inside} || folder.contains({cel.literal(chr(92))}))",
                f"object.spec.?volumes.orValue([]).exists(v, {special})",
            ]
        )
        yield Check("pod", bad, "no host path but the folders of data that the policy allows")

    def _is_allowed(self, path: str) -> bool:
        return "\\" not in path and (clean_path(path) + "/").startswith(self._beginnings)

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple([clean_path(p.removesuffix("*")) + ("" if p.endswith("*") else "/") for p in self.allowed])

"""No container gets a capability that opens devices it was not given.

Fields read:   securityContext.capabilities.add of spec.containers, initContainers and ephemeralContainers
Refused:       the capabilities of `denied`, in any case and with or without CAP_ before them. SYS_ADMIN mounts, SYS_MODULE
               loads drivers, SYS_RAWIO reaches I/O ports and PCI past any device file, DAC_READ_SEARCH opens files of the
               node by handle, SYS_BOOT starts another kernel, BPF and PERFMON read and write the memory of the kernel
Allowed:       the others: IPC_LOCK for RDMA, SYS_NICE for NUMA, SYS_PTRACE for profilers (of this pod's processes: hostPID
               has a rule of its own), and MKNOD (a device file is nothing without the right to open it, which the device
               cgroup keeps; container runtimes grant it by default)
DRA:           the same.

Source: capabilities(7); containerd and CRI-O take names in any case; Pod Security Standards, baseline.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import quoted


class Capabilities(Rule):
    """No container gets one of these capabilities, written without CAP_."""

    everywhere: ClassVar[bool] = True

    denied: tuple[str, ...] = (
        *("ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT"),
        *("DAC_READ_SEARCH", "BPF", "PERFMON"),
    )
    """Refused in any case, with CAP_ before them or without."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for container in context.containers(pod):
            security = container.spec.get("securityContext")
            added = ((security.get("capabilities") or {}).get("add") or ()) if security else ()
            for index, name in enumerate(added):
                if name.upper().removeprefix("CAP_") in self.denied:
                    yield Finding(
                        path=f"{container.field}.securityContext.capabilities.add[{index}]",
                        seen=f"{quoted(name)} in container {quoted(container.name)}",
                        wanted="no capability that opens devices past the GPU limit",
                        fix="Remove it; profilers need SYS_PTRACE, RDMA needs IPC_LOCK, and GPUs need none",
                    )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        denied = cel.literal([name for capability in self.denied for name in (capability, f"CAP_{capability}")])
        bad = f"c.?securityContext.?capabilities.?add.orValue([]).exists(a, a.upperAscii() in {denied})"
        yield Check("container", bad, "no capability that opens devices past the GPU limit")

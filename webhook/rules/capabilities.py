"""No container gets a capability with which it can open devices that it was not given.

Fields read:   securityContext.capabilities.add of spec.containers, initContainers and ephemeralContainers
Allowed:       all but `denied`: for example IPC_LOCK for RDMA, SYS_NICE for NUMA, SYS_PTRACE for debuggers, and MKNOD, since the
               device cgroup decides which device files can be opened
Refused:       the capabilities of `denied`, in upper or lower case, with or without the prefix CAP_, and names with letters that
               are not ASCII (`SYS_ADMıN`). SYS_ADMIN can mount, SYS_MODULE loads drivers, SYS_RAWIO accesses PCI,
               DAC_READ_SEARCH opens files of the node by handle, SYS_BOOT starts another kernel, BPF and PERFMON access
               kernel memory
DRA:           the same.

GPU profilers (Nsight Compute, CUPTI) want SYS_ADMIN. On nodes for profiling, load the driver with
`NVreg_RestrictProfilingToAdminUsers=0` instead, which opens only the counters of the GPU.

Source: capabilities(7); containerd and CRI-O accept names in any case; Pod Security Standards, baseline.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import quoted

_FIX = (
    "Remove it: GPUs need none, RDMA needs IPC_LOCK, debuggers need SYS_PTRACE. GPU profilers read counters without any where "
    "the driver of the node has NVreg_RestrictProfilingToAdminUsers=0"
)


class Capabilities(Rule):
    everywhere: ClassVar[bool] = True

    denied: tuple[str, ...] = (
        *("ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_BOOT"),
        *("DAC_READ_SEARCH", "BPF", "PERFMON"),
    )
    """Capabilities without the prefix CAP_. A pod may not name them in any form: in upper or lower case, with CAP_ or without."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            security = container.spec.get("securityContext")
            added = ((security.get("capabilities") or {}).get("add") or ()) if security else ()
            for index, name in enumerate(added):
                if not name.isascii() or name.upper().removeprefix("CAP_") in self.denied:
                    yield Finding(
                        path=f"{container.field}.securityContext.capabilities.add[{index}]",
                        seen=f"{quoted(name)} in container {quoted(container.name)}",
                        wanted="no capability that opens devices past the GPU limit",
                        fix=_FIX,
                    )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        denied = cel.literal([name for capability in self.denied for name in (capability, f"CAP_{capability}")])
        added = "c.?securityContext.?capabilities.?add.orValue([])"
        bad = f'{added}.exists(a, a.upperAscii() in {denied} || a.matches("[^\\\\x00-\\\\x7f]"))'
        yield Check("container", bad, "no capability that opens devices past the GPU limit")

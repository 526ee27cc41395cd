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
from webhook.text import listed, quoted

_FIX = (
    "Remove it: GPUs need none, RDMA needs IPC_LOCK, debuggers need SYS_PTRACE. GPU profilers read counters without any where "
    "the driver of the node has NVreg_RestrictProfilingToAdminUsers=0"
)

_MAX_NAMES = 10


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
            bad = [
                (index, quoted(name))
                for index, name in enumerate(added)
                if not name.isascii() or name.upper().removeprefix("CAP_") in self.denied
            ]
            if bad:
                path = f"{container.field}.securityContext.capabilities.add"
                seen = f"{listed([name for _, name in bad], _MAX_NAMES)} in container {quoted(container.name)}"
                one, fix = len(bad) == 1, _FIX if len(bad) == 1 else f"Remove them{_FIX.removeprefix('Remove it')}"
                wanted = "no capability that opens devices past the GPU limit"
                yield Finding(f"{path}[{bad[0][0]}]" if one else path, seen, wanted, fix)

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        denied = cel.literal([name for capability in self.denied for name in (capability, f"CAP_{capability}")])
        added = "c.?securityContext.?capabilities.?add.orValue([])"
        bad = f'{added}.exists(a, a.upperAscii() in {denied} || a.matches("[^\\\\x00-\\\\x7f]"))'
        yield Check("container", bad, "no capability that opens devices past the GPU limit")

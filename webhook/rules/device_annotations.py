"""No annotation asks a container runtime for devices.

CDI, NRI plugins, CRI-O, crun, Kata and gVisor read devices, mounts, hooks and even the runtime from annotations. Their
annotations are in domains of their own (`devices.nri.io/container.main`, `devices.crio.io`), and new versions add more. So
within these domains only annotations that are known to give no device are allowed.

Fields read:   metadata.annotations; the keys are compared in lower case
Allowed:       keys of all other domains; those of `harmless`
Refused:       any key whose domain is one of `domains` or a subdomain of one; the keys of `keys`; those of `besideGpu` in a
               pod that asks for no GPU; those of `fromSchedulers` in a new pod, which no scheduler has seen. Later,
               manifests/71-running-pods.yaml lets only schedulers write them
Warned about:  those of `besideGpu` in a pod that asks for a GPU: they may name more devices than it asks for
DRA:           the same: claims use CDI without annotations.

Source: NVIDIA/nvidia-container-toolkit (annotation-prefixes, NRI plugin), containerd/nri plugins/*, CRI-O
pkg/annotations/v2, crun (run.oci.*), runc (org.systemd.property.*), Kata (io.katacontainers.*, before 1.9 another), gVisor
(dev.gvisor.flag.*, .internal.*, .spec.rootfs.*), hcsshim (io.microsoft.*), container-engine-accelerators nri_device_injector
(devices.gke.io), koordinator pkg/koordlet/runtimehooks/hooks/gpu (NVIDIA_VISIBLE_DEVICES by an annotation).
"""

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import Patterns, bare, matches_any, quoted
from webhook.vendors.catalogue import annotations

_FIX = "Remove it, and ask for GPUs in the limits of a container; harmless ones can be listed in deviceAnnotations.harmless"
_NEEDED = "Remove it, unless the pod needs it: for fast networking of its GPUs, or to use them in a sandbox"
_MAX_KEY = 512
"""Characters of a key that are looked at. In a stored pod it has 317 at most; in a template of a custom resource any number."""


class DeviceAnnotations(Rule):
    everywhere: ClassVar[bool] = True

    domains: tuple[str, ...] = ("cdi.k8s.io", "nri.io", "noderesource.dev", "nri.containerd.io", "crio.io", "cri-o.io")
    """Domains whose annotations container runtimes and their plugins read. Subdomains are included."""
    keys: tuple[str, ...] = (
        *("io.kubernetes.cri-o.*", "io.kubernetes.cri.*", "io.katacontainers.*", "run.oci.*"),
        *("org.systemd.property.*", "org.criu.*", "io.containers.*", "dev.gvisor.flag.*", "dev.gvisor.internal.*"),
        "dev.gvisor.spec.rootfs.*",  # a file of the node as the root file system
        *("io.microsoft.*", "com.github.containers.virtcontainers.*"),
        *annotations("devices"),
    )
    """Other annotations that container runtimes read (name patterns)."""
    harmless: tuple[str, ...] = (
        *("required-plugins.noderesource.dev*", "tolerate-missing-nri-plugins.noderesource.dev*"),
        *("io-priority.*", "ulimits.*", "closid.rdt.noderesource.dev*", "schemata.rdt.noderesource.dev*"),
        *("enablemonitoring.rdt.noderesource.dev*", "cpu-load-balancing.crio.io*", "cpu-quota.crio.io*"),
        *("cpu-c-states.crio.io*", "cpu-freq-governor.crio.io*", "cpu-shared.crio.io*"),
        *("irq-load-balancing.crio.io*", "shm-size.crio.io*", "umask.crio.io*", "userns-mode.crio.io*"),
        *("io.kubernetes.cri-o.shmsize", "io.kubernetes.cri-o.umask", "io.kubernetes.cri-o.userns-mode"),
        *("io.kubernetes.cri.rdt-class", "io.kubernetes.cri.blockio-class", "run.oci.keep_original_groups"),
        *annotations("nothing"),
    )
    """Annotations of these domains and keys that give no device (name patterns)."""
    beside_gpu: tuple[str, ...] = annotations("besideGpu")
    """Annotations for fast networking and for GPUs in a sandbox (name patterns): refused in a pod without a GPU, warned about
    in a pod with one."""

    from_schedulers: tuple[str, ...] = annotations("devices", by_scheduler=True)
    """Annotations by which a scheduler tells the container runtime which devices a pod gets (name patterns): refused in a new
    pod."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        new = context.operation == "CREATE"
        for key, value in pod.annotations.items():
            lower_key = key[:_MAX_KEY].encode().lower().decode()  # of ASCII alone, as in CEL
            named = self._named.match(lower_key) or (new and matches_any(self.from_schedulers, lower_key))
            domain = f".{lower_key.partition('/')[0]}."  # a `.` after it is CRI-O's older form
            if not (named or any([each in domain for each in self._domains])):
                continue
            beside_gpu = matches_any(self.beside_gpu, lower_key)
            if not beside_gpu and matches_any(self.harmless, lower_key):
                continue
            needed = beside_gpu and pod.asks_for_gpu
            yield Finding(
                path=f"metadata.annotations[{bare(key)}]",
                seen=quoted(value),
                wanted="no such annotation: it can hand out devices past the GPU limit",
                fix=_NEEDED if needed else _FIX,
                only_warn=needed,
            )

    @cached_property
    def _named(self) -> Patterns:
        return Patterns((*self.keys, *self.beside_gpu))

    @cached_property
    def _domains(self) -> tuple[str, ...]:
        return tuple([f".{domain}." for domain in self.domains])

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        lower_key, head = "k.lowerAscii()", '("." + k.lowerAscii().split("/")[0] + ".")'
        asks = cel.any_of(
            [
                cel.matches(lower_key, self.keys),
                cel.one_of([f".{domain}." for domain in self.domains], lambda domain: f"{head}.contains({domain})"),
            ]
        )
        beside = cel.matches(lower_key, self.beside_gpu)
        alone = f"{asks} && !{cel.matches(lower_key, self.harmless)} && !{beside}"
        wanted = "no annotation that asks the container runtime for devices"
        yield Check("annotation", alone, wanted)
        if self.from_schedulers:
            new = f'request.operation == "CREATE" && {cel.matches(lower_key, self.from_schedulers)}'
            yield Check("annotation", new, wanted)
        yield Check("annotation", f"{beside} && !variables.asksForGpu", wanted)
        yield Check("annotation", f"{beside} && variables.asksForGpu", wanted, only_warn=True)

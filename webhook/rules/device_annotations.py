"""No annotation asks a container runtime for devices.

CDI, NRI plugins, CRI-O, crun, Kata and gVisor read devices, mounts and hooks from annotations in domains of their own
(`devices.nri.io/container.main`), and new versions add more. So there only annotations that are known to give no device are
allowed.

Fields read:   metadata.annotations; the keys are compared in lower case
Refused:       within `domains` or below all keys but those of `harmless`; the keys of `keys`; those of `besideGpu` in a pod
               that asks for no GPU; in a new pod those of `fromSchedulers`, and those of `ofContainers` that do not ask for a
               part of a GPU (only schedulers may write them later: manifests/71-running-pods.yaml)
Warned about:  those of `besideGpu` in a pod that asks for a GPU: they may name more devices than it asks for
DRA:           the same.

Source: NVIDIA/nvidia-container-toolkit (annotation-prefixes, NRI plugin), containerd/nri plugins/*, CRI-O
pkg/annotations/v2, crun (run.oci.*), runc (org.systemd.property.*), Kata (io.katacontainers.*, before 1.9 another), gVisor
(dev.gvisor.flag.*, .internal.*, .spec.rootfs.*), hcsshim (io.microsoft.*), container-engine-accelerators nri_device_injector
(devices.gke.io); for NVIDIA_VISIBLE_DEVICES by an annotation, koordinator pkg/koordlet/runtimehooks/hooks/gpu and, by container,
kai-gpu-fractioning fractiond.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import Patterns, bare, matches_any, one_edit_apart, quoted
from webhook.vendors.catalogue import annotations, every
from webhook.vendors.model import ContainerPart

_FIX = "Remove it, and ask for GPUs in the limits of a container; harmless ones can be listed in deviceAnnotations.harmless"
_NEEDED = "Remove it, unless the pod needs it: for fast networking of its GPUs, or to use them in a sandbox"
_PART = "Write {} at its end if that is meant, or remove it"
_WANTED = "no annotation that asks the container runtime for devices"
_LOWER_KEY = "k.lowerAscii()"
_MAX_KEY = 512
"""Characters of a key that are looked at. In a stored pod it has 317 at most; in a template of a custom resource any number."""
_WORDS = tuple(dict.fromkeys([word for part in every(ContainerPart) for word in (*part.asks, *part.harmless)]))
_AUTHORS = tuple([f".{word}" for word in _WORDS])
"""How annotations of `ofContainers` end that the author of a pod may write."""


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
        *("io.katacontainers.config.hypervisor.default_memory", "io.katacontainers.config.hypervisor.default_vcpus"),
        "io.katacontainers.config.hypervisor.cc_init_data",
        *annotations("nothing"),
    )
    """Annotations of these domains and keys that give no device (name patterns)."""
    beside_gpu: tuple[str, ...] = annotations("besideGpu")
    """Annotations for fast networking and for GPUs in a sandbox (name patterns): refused in a pod without a GPU, warned about
    in a pod with one."""

    from_schedulers: tuple[str, ...] = annotations("devices", by_scheduler=True)
    """Annotations by which a scheduler tells the container runtime which devices a pod gets (name patterns): refused in a new
    pod."""
    of_containers: tuple[str, ...] = tuple([part.prefix for part in every(ContainerPart)])
    """How such annotations of single containers begin (`annotationPrefix` of a GpuFractioningConfig): the name of the container
    and a word follow. What the author of a pod may write is allowed: gpu-memory.request, gpu-memory.limit, gpu-compute.mode,
    gpu-compute.request."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        new, domains = context.operation == "CREATE", self._domains
        named = self._named_in_new if new else self._named
        for key, value in pod.annotations.items():
            lower_key = key[:_MAX_KEY].encode().lower().decode()  # of ASCII alone, as in CEL
            domain = f".{lower_key.partition('/')[0]}."  # a `.` after it is CRI-O's older form
            if not (
                named.match(lower_key)
                or any([each in domain for each in domains])
                or (new and lower_key.startswith(self._of_containers) and not lower_key.endswith(_AUTHORS))
            ):
                continue
            beside_gpu = matches_any(self.beside_gpu, lower_key)
            if not beside_gpu and matches_any(self.harmless, lower_key):
                continue
            needed = beside_gpu and pod.asks_for_gpu
            word = lower_key.rpartition("/")[2].split(".", 2)[-1] if lower_key.startswith(self._of_containers) else ""
            yield Finding(
                path=f"metadata.annotations[{bare(key)}]",
                seen=quoted(value),
                wanted="no such annotation: it can hand out devices past the GPU limit",
                fix=_NEEDED
                if needed
                else next((_PART.format(each) for each in _WORDS if one_edit_apart(word, each)), _FIX),
                only_warn=needed,
            )

    @cached_property
    def _of_containers(self) -> tuple[str, ...]:
        return tuple([prefix.lower() for prefix in self.of_containers])

    @cached_property
    def _named(self) -> Patterns:
        return Patterns((*self.keys, *self.beside_gpu))

    @cached_property
    def _named_in_new(self) -> Patterns:
        return Patterns((*self.keys, *self.beside_gpu, *self.from_schedulers))

    @cached_property
    def _domains(self) -> tuple[str, ...]:
        return tuple([f".{domain}." for domain in self.domains])

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        yield Check("annotation", self.asking, _WANTED)
        if self.from_schedulers or self.of_containers:
            yield Check(
                "annotation", f'request.operation == "CREATE" && {self.written_by_scheduler}', _WANTED, only_new=True
            )
        beside = cel.matches(_LOWER_KEY, self.beside_gpu)
        yield Check("annotation", f"{beside} && !variables.asksForGpu", _WANTED)
        yield Check("annotation", f"{beside} && variables.asksForGpu", _WANTED, only_warn=True)

    @property
    def asking(self) -> str:
        """Whether the annotation `k` asks for devices, in CEL, but for those of `besideGpu`."""
        head = f'("." + {_LOWER_KEY}.split("/")[0] + ".")'
        domains = cel.one_of([f".{domain}." for domain in self.domains], lambda domain: f"{head}.contains({domain})")
        asks = cel.any_of([cel.matches(_LOWER_KEY, self.keys), domains])
        return f"{asks} && !{cel.matches(_LOWER_KEY, (*self.harmless, *self.beside_gpu))}"

    @property
    def written_by_scheduler(self) -> str:
        """Whether only a scheduler may write the annotation `k`, in CEL."""
        begins = cel.one_of(self._of_containers, lambda prefix: f"{_LOWER_KEY}.startsWith({prefix})")
        ends = cel.one_of(_AUTHORS, lambda end: f"{_LOWER_KEY}.endsWith({end})")
        return cel.any_of([cel.all_of([begins, f"!{ends}"]), cel.matches(_LOWER_KEY, self.from_schedulers)])

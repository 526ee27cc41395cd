"""No annotation asks a container runtime for devices.

CDI, plugins of NRI, CRI-O, crun, Kata and gVisor take devices, mounts, hooks and whole runtimes from annotations. Each of them
has a domain of its own (`devices.nri.io/container.main`, `devices.crio.io`), and new annotations come with new versions: within
these domains only what is known to give no device is allowed.

Fields read:   metadata.annotations; the keys are compared in lower case
Allowed:       all keys of other domains; those of `harmless`
Refused:       a key whose domain is one of `domains` or lies below one, whatever follows; the keys of `keys`; those of
               `besideGpu` in a pod that asks for no GPU
Warned about:  those of `besideGpu` in a pod that does: they may name more devices than it asks for
DRA:           the same: claims use CDI without annotations.

Source: NVIDIA/nvidia-container-toolkit (annotation-prefixes, NRI plugin), containerd/nri plugins/*, CRI-O
pkg/annotations/v2, crun (run.oci.*), runc (org.systemd.property.*), Kata (io.katacontainers.*, before 1.9 another), gVisor
(dev.gvisor.flag.*, dev.gvisor.internal.*), hcsshim (io.microsoft.*), container-engine-accelerators nri_device_injector
(devices.gke.io).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod, annotations_of
from webhook.text import Patterns, bare, matches_any, quoted


class DeviceAnnotations(Rule):
    """No annotation asks a container runtime for devices. Keys are compared in lower case."""

    everywhere: ClassVar[bool] = True

    domains: tuple[str, ...] = ("cdi.k8s.io", "nri.io", "noderesource.dev", "nri.containerd.io", "crio.io", "cri-o.io")
    """Domains whose annotations container runtimes and their plugins read, with all domains below them."""
    keys: tuple[str, ...] = (
        *("io.kubernetes.cri-o.*", "io.kubernetes.cri.*", "io.katacontainers.*", "run.oci.*"),
        *("org.systemd.property.*", "org.criu.*", "io.containers.*", "dev.gvisor.flag.*", "dev.gvisor.internal.*"),
        *("io.microsoft.*", "com.github.containers.virtcontainers.*"),
    )
    """Other annotations that they read (name patterns)."""
    harmless: tuple[str, ...] = (
        *("required-plugins.noderesource.dev*", "tolerate-missing-nri-plugins.noderesource.dev*"),
        *("io-priority.*", "ulimits.*", "closid.rdt.noderesource.dev*", "schemata.rdt.noderesource.dev*"),
        *("enablemonitoring.rdt.noderesource.dev*", "cpu-load-balancing.crio.io*", "cpu-quota.crio.io*"),
        *("cpu-c-states.crio.io*", "cpu-freq-governor.crio.io*", "cpu-shared.crio.io*"),
        *("irq-load-balancing.crio.io*", "shm-size.crio.io*", "umask.crio.io*", "userns-mode.crio.io*"),
        *("io.kubernetes.cri-o.shmsize", "io.kubernetes.cri-o.umask", "io.kubernetes.cri-o.userns-mode"),
        *("io.kubernetes.cri.rdt-class", "io.kubernetes.cri.blockio-class", "run.oci.keep_original_groups"),
    )
    """Annotations of these domains that give no device (name patterns)."""
    beside_gpu: tuple[str, ...] = ("devices.gke.io*", "dev.gvisor.internal.nvproxy")
    """Refused in a pod without a GPU, warned about in one with (name patterns): for GKE's fast networking, and GPUs in gVisor."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for key, value in annotations_of(pod).items():
            lower_key = key.lower()
            only_warn = False
            if self._beside_gpu.match(lower_key):
                only_warn = context.asks_for_gpu(pod)
            elif not self._asks(lower_key):
                continue
            yield Finding(
                path=f"metadata.annotations[{bare(key)}]",
                seen=quoted(value),
                wanted="no such annotation: it hands out devices past the GPU limit",
                fix="Remove it, and ask for GPUs in the limits of a container",
                only_warn=only_warn,
            )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        lower_key, head = "k.lowerAscii()", '("." + k.lowerAscii().split("/")[0] + ".")'
        asks = cel.any_of(
            [cel.matches(lower_key, self.keys), *[f"{head}.contains({cel.literal(f'.{d}.')})" for d in self.domains]]
        )
        beside = cel.matches(lower_key, self.beside_gpu)
        alone = f"{asks} && !{cel.matches(lower_key, self.harmless)} && !{beside}"
        wanted = "no annotation that asks the container runtime for devices"
        annotations = "object.metadata.?annotations.orValue({})"
        yield Check("pod", f"{annotations}.exists(k, {alone})", wanted)
        has_annotation = f"{annotations}.exists(k, {beside})"
        yield Check("pod", cel.all_of([has_annotation, "!variables.asksForGpu"]), wanted)
        yield Check("pod", cel.all_of([has_annotation, "variables.asksForGpu"]), wanted, only_warn=True)

    def _asks(self, key: str) -> bool:
        """`key` is in lower case. A domain may be followed by `/`, by `.` (CRI-O's older form) or by nothing."""
        head = f".{key.partition('/')[0]}."
        if self._keys.match(key) or any([domain in head for domain in self._dotted]):
            return not matches_any(self.harmless, key)
        return False

    @cached_property
    def _beside_gpu(self) -> Patterns:
        return Patterns(self.beside_gpu)

    @cached_property
    def _keys(self) -> Patterns:
        return Patterns(self.keys)

    @cached_property
    def _dotted(self) -> tuple[str, ...]:
        return tuple([f".{domain}." for domain in self.domains])

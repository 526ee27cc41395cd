"""No annotation asks a container runtime for devices.

CDI, NRI plugins and CRI-O can inject devices that an annotation names.

Fields read:   metadata.annotations
Refused:       the keys of `keys`
DRA:           the same: claims use CDI without annotations.

Source: NVIDIA/nvidia-container-toolkit (annotation-prefixes), containerd/nri device-injector, CRI-O allowed_annotations.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.interface import Context, Finding, Rule
from webhook.pod import Pod, annotations_of
from webhook.text import bare, matches_any, quoted


class DeviceAnnotations(Rule):
    """No annotation asks a container runtime for devices."""

    keys: tuple[str, ...] = (
        "cdi.k8s.io/*",
        "nvidia.cdi.k8s.io/*",
        "devices.nri.io*",
        "io.kubernetes.cri-o.Devices*",
    )
    """Exact or with a trailing `*`. Not among them: `devices.gke.io/*`, by which GKE's fast networking (TCPX, TCPXO) gets
    its devices; add it where nobody uses that."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for key, value in annotations_of(pod).items():
            if matches_any(self.keys, key):
                yield Finding(
                    path=f"metadata.annotations[{bare(key)}]",
                    seen=quoted(value),
                    wanted="no such annotation: it hands out devices past the GPU limit",
                    fix="Remove it, and ask for GPUs in the limits of a container",
                )

"""No container asks for more than one share of a shared GPU, or for more than one slice.

Two shares of time-sliced GPUs may be of one GPU. With MPS, and on GKE, the device plugin refuses a second share, and the pod
fails. A CUDA program uses only one slice (MIG).

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources, spec.nodeSelector
Allowed:       one share or slice in a container; several partitions of an AMD GPU, or several cores of a chip
Refused:       more than one share, if the pod selects nodes with MPS, or with time-sharing of GKE
Warned about:  more than one share that is time-sliced or of unknown kind; more than one slice
Not for DRA:   a claim asks for a share in its own way

Source: NVIDIA/k8s-device-plugin, README (sharing.timeSlicing.renameByDefault, failRequestsGreaterThanOne); MIG user guide
(CUDA_VISIBLE_DEVICES with one instance); GKE, "About GPU sharing solutions" (UnexpectedAdmissionError). What a name stands for
on the nodes that a pod selects: webhook/vendors/.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import PARTS, one_on
from webhook.text import bare, listed, quoted


class GpuSharing(Rule):
    not_exported: ClassVar[str] = "is advice by node labels"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        if not pod.gpu_names:
            return
        selector = pod.spec.get("nodeSelector") or {}
        for container in pod.containers:
            slices = {}
            for name, count in container.gpu_counts(context.gpus).items():
                kind = context.gpus.kind(name) or "whole"
                if kind == "whole" and not selector:
                    continue
                one = one_on(name, kind, selector)
                if one.kind == "slice" and one.alone:
                    slices[name] = count
                elif one.kind == "share" and one.alone and count > 1:
                    yield Finding(
                        path=context.field_of(container, name),
                        seen=f"{count} {PARTS['share']} in container {quoted(container.name)}",
                        wanted="1: a second share is no second GPU",
                        fix="Ask for 1, or for whole GPUs",
                        only_warn=not one.refused,
                    )
            if sum(slices.values()) > 1:
                names = listed([f"{count} {bare(name)}" for name, count in slices.items()])
                yield Finding(
                    path=context.field_of(container, next(iter(slices))),
                    seen=f"{names}, which are {PARTS['slice']}, in container {quoted(container.name)}",
                    wanted="1: a program uses one slice only",
                    fix="Ask for one slice, of the size that it needs, or for whole GPUs",
                    only_warn=True,
                )

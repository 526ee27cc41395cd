"""Containers without a GPU get `NVIDIA_VISIBLE_DEVICES=void`, so that an image cannot take what the pod did not ask for.

CUDA images carry `NVIDIA_VISIBLE_DEVICES=all`. Where the NVIDIA runtime is the node's default and hands out devices by that
variable, a container without a GPU limit then sees every GPU of the node. What the image says cannot be seen here, but
the pod's own environment wins over the image's and over `envFrom`, and `void` means: none. A container that sets the
variable itself is left alone; the rule `deviceEnv` judges it.

A container with a claim gets it too: a claim may be of any device, and is served by CDI, which does not ask this variable
(NVIDIA's own CDI specifications set it to `void`). So does every container of a pod whose GPUs come by DRA alone.

Where a pod of KAI or Run:ai asks for a part of a GPU by annotation, nothing is set: their scheduler writes the variable. With
another scheduler the annotation says nothing.

`everyPod` does the same for pods without any GPU. The shipped webhook configuration does not send these to us: the component
`manifests/components/every-pod` changes that.

Fields: env of spec.containers and spec.initContainers without a GPU limit. Source: NVIDIA/nvidia-container-toolkit
internal/config/image/cuda_image.go (VisibleDevices, IsLegacy).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from pydantic import Field

from webhook.framework.interface import Context, Injector, Outcome, ProfileView
from webhook.kube import cel
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Edit
from webhook.kube.other_gpus import FRACTIONS, has_other_gpu
from webhook.kube.pod import annotations_of, containers, gpu_counts


class VoidDevices(Injector):
    """Containers without a GPU are given none by their image either: CUDA images carry NVIDIA_VISIBLE_DEVICES=all, which some
    nodes obey. A container that sets the variable itself is left alone; the rule deviceEnv judges it."""

    claims: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "added": "{} container(s) that ask for no GPU see none",
        "none": "no container had to be kept from GPUs that it did not ask for",
    }

    variable: str = Field(default="NVIDIA_VISIBLE_DEVICES", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    value: str = "void"
    all_pods: bool = Field(default=False, alias="everyPod")
    """In pods without any GPU too. Wants the component manifests/components/every-pod: without it the API server does not ask
    about these pods."""

    schedulers: tuple[str, ...] | None = None
    """null: those of gpuFraction. Where a pod asks one of them for a part of a GPU by annotation, that one sets it."""

    def completed(self, profile: ProfileView) -> Self:
        if self.schedulers is not None:
            return self
        return self.model_copy(update={"schedulers": profile.rules["gpuFraction"].schedulers})

    @property
    def every_pod(self) -> bool:
        return self.all_pods

    def inject(self, edit: Edit, context: Context) -> Outcome:
        scheduler = edit.object["spec"].get("schedulerName")
        if scheduler in (self.schedulers or ()) and not FRACTIONS.isdisjoint(annotations_of(edit.object)):
            return Outcome("none")
        count = 0
        for container in containers(edit.object):
            if container.kind == "ephemeralContainers" or gpu_counts(container.spec, context.gpus):
                continue
            if has_other_gpu(container.spec):
                continue
            if any([entry.get("name") == self.variable for entry in container.spec.get("env") or ()]):
                continue
            edit.extend((*container.path, "env"), [{"name": self.variable, "value": self.value}])
            count += 1
        return Outcome("added", count) if count else Outcome("none")

    def exported(self, gpus: Gpus) -> Iterable[str]:
        for kind in cel.LISTS:
            exists = f"{cel.field('c', 'env')}.exists(e, e.name == {cel.literal(self.variable)})"
            path = f'"/spec/{kind}/" + string(i) + "/env"'
            entry = f"Object.spec.{kind}.env{{name: {cel.literal(self.variable)}, value: {cel.literal(self.value)}}}"
            patch = (
                f'(has(c.env) ? [] : [JSONPatch{{op: "add", path: {path}, value: []}}]) + '
                f'[JSONPatch{{op: "add", path: {path} + "/-", value: {entry}}}]'
            )
            yield cel.for_each(kind, f"!{cel.ASKS} && !{exists}", patch)

"""Sets `NVIDIA_VISIBLE_DEVICES=void` in containers without a GPU, so that their image cannot take GPUs.

CUDA images set `NVIDIA_VISIBLE_DEVICES=all`. If the NVIDIA runtime is the default of the node and hands out devices by that
variable, a container without a GPU limit sees every GPU of the node. The image is not known here, but the container's `env`
overrides both the image and `envFrom`, and `void` stands for no GPU. A container that sets the variable itself is left alone;
the rule `deviceEnv` checks it.

A container with a claim gets the variable too. A claim may be for any device, and CDI, which serves it, does not read this
variable (NVIDIA's own CDI specifications set it to `void`). So every container of a pod whose GPUs come by DRA alone gets it.

Where a pod of KAI or Run:ai asks for a part of a GPU by annotation, one container gets it, and their scheduler sets the variable
there. The others get `void`. With another scheduler the annotation has no meaning.

`everyPod` does the same for pods without any GPU. The shipped webhook configuration does not send these pods to us; the
component `manifests/components/every-pod` changes that.

Fields: env of spec.containers and spec.initContainers without a GPU limit. Source: NVIDIA/nvidia-container-toolkit
internal/config/image/cuda_image.go (VisibleDevices, IsLegacy).
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

from pydantic import Field

from webhook.framework.device_variables import NVIDIA, VOID
from webhook.framework.interface import Context, Edit, Gpus, Injector, Outcome, Pod, ProfileView
from webhook.kube import cel
from webhook.kube.other_gpus import asks_for_part, fraction_container, has_other_gpu
from webhook.kube.pod import Container
from webhook.kube.record import outcome_of, record_of


class VoidDevices(Injector):
    handles_claims: ClassVar[bool] = True
    protects: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "added": "the GPUs of the node are hidden from containers without a GPU: {}",
        "none": "no container without a GPU had to be changed",
    }

    variable: str = Field(default=NVIDIA, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    value: str = VOID
    all_pods: bool = Field(default=False, alias="everyPod")
    """true: pods without any GPU too. This needs the component manifests/components/every-pod: without it the API server does not
    send us these pods."""

    schedulers: tuple[str, ...] | None = None
    """Schedulers that set the variable themselves if a pod asks for a part of a GPU by annotation. null: those of gpuFraction."""

    def completed(self, profile: ProfileView) -> Self:
        if self.schedulers is not None:
            return self
        return self.model_copy(update={"schedulers": profile.rules["gpuFraction"].schedulers})

    @property
    def every_pod(self) -> bool:
        return self.all_pods

    def inject(self, edit: Edit, context: Context) -> Outcome:
        pod, part = context.pod, None
        if pod.spec.get("schedulerName") in (self.schedulers or ()) and asks_for_part(pod.annotations):
            part = fraction_container(pod.json)
        entry = {"name": self.variable, "value": self.value}
        kept: list[str] = []
        added: list[str] = []
        given: list[Container] = []
        earlier = _earlier(pod.json)
        for container in pod.containers:
            if container.list_name == "ephemeralContainers":
                continue
            env = container.spec.get("env") or ()
            if container.has_gpu(context.gpus) or has_other_gpu(container.spec) or container.name == part:
                given.append(container)
            elif not any([each.get("name") == self.variable for each in env]):
                edit.extend((*container.path, "env"), [entry])
                added.append(container.name)
            elif container.name in earlier and entry in env:
                earlier.remove(container.name)
                kept.append(container.name)
        for container in given if earlier else ():
            env = container.spec.get("env") or ()
            if container.name in earlier and entry in env:  # it got the GPU from another webhook after an earlier call
                earlier.remove(container.name)
                edit.put((*container.path, "env"), [each for each in env if each != entry])
        return Outcome("added", [*kept, *added]) if added else Outcome("none")

    def exported(self, gpus: Gpus) -> Iterable[str]:
        scheduler = f'object.spec.?schedulerName.orValue("") in {cel.literal(self.schedulers or ())}'
        part = cel.all_of([scheduler, cel.FRACTION, cel.GETS_FRACTION])
        for kind in cel.LISTS:
            exists = f"{cel.field('c', 'env')}.exists(e, e.name == {cel.literal(self.variable)})"
            path = f'"/spec/{kind}/" + string(i) + "/env"'
            entry = f"Object.spec.{kind}.env{{name: {cel.literal(self.variable)}, value: {cel.literal(self.value)}}}"
            patch = (
                f'(has(c.env) ? [] : [JSONPatch{{op: "add", path: {path}, value: []}}]) + '
                f'[JSONPatch{{op: "add", path: {path} + "/-", value: {entry}}}]'
            )
            yield cel.for_each(kind, f"!{cel.ASKS} && !{cel.has_other_gpu('c')} && !{exists} && !{part}", patch)


def _earlier(pod: Pod) -> list[str]:
    """The names of the containers in which an earlier call set the variable."""
    match outcome_of(record_of(pod), "voidDevices"):
        case ["added", list(names)]:
            return [name for name in names if isinstance(name, str)]
    return []

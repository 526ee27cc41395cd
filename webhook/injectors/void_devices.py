"""Sets variables such as `NVIDIA_VISIBLE_DEVICES=void` in containers without a GPU, so that their image cannot take GPUs.

CUDA images set `NVIDIA_VISIBLE_DEVICES=all`. If the NVIDIA runtime is the default of the node and hands out devices by that
variable, a container without a GPU limit sees every GPU of the node. The image is not known here, but the container's `env`
overrides both the image and `envFrom`, and `void` stands for no GPU. A container that sets the variable itself is left alone;
the rule `deviceEnv` checks it.

In a pod that asks for GPUs of another vendor, that vendor's variable is set too (`ofVendors`): the pod goes to a node where that
vendor's runtime may be the default. Not in a container with a claim: what a driver of DRA sets there is not known.

A container with a claim gets NVIDIA's variable too. A claim may be for any device, and CDI, which serves it, does not read this
variable (NVIDIA's own CDI specifications set it to `void`). So every container of a pod whose GPUs come by DRA alone gets it.

Where a pod of KAI or Run:ai asks for a part of a GPU by annotation, one container gets it, and their scheduler sets the variable
there. The others get `void`. With another scheduler the annotation has no meaning.

`everyPod` does the same for pods without any GPU. These may go to nodes of any vendor, so they also get variables of others
(`inEveryPod`): that of Iluvatar, whose runtime gives all devices to a container without it, and that of Ascend. Those of AMD and
Gaudi are not among them, since they make their runtimes ask a tracker or run a hook, which may fail. The shipped webhook
configuration does not send these pods to us; the component `manifests/components/every-pod` changes that.

Fields: env of spec.containers and spec.initContainers without a GPU limit. Source: NVIDIA/nvidia-container-toolkit
internal/config/image/cuda_image.go (VisibleDevices, IsLegacy); of other vendors, docs/vendors.md.

Read by:
    kube-scheduler: nothing
    cluster-autoscaler: nothing
    Karpenter: nothing
    Kueue, KAI, Volcano, YuniKorn: nothing
    descheduler: nothing
    quotas and others: the node's GPU runtime reads the variable, and gives the container no device
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field

from webhook.framework.device_variables import NVIDIA, VOID
from webhook.framework.interface import Context, Edit, Gpus, Injector, Outcome, ProfileView
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.gpus import vendor
from webhook.kube.other_gpus import asks_for_part, fraction_container, has_other_gpu
from webhook.kube.pod import Container, requests_of
from webhook.kube.record import outcome_of
from webhook.vendors.catalogue import hiding, hiding_anywhere

_NAME: Final = "[A-Za-z_][A-Za-z0-9_]*"
_ANYWHERE: Final = "*"


class VoidDevices(Injector):
    handles_claims: ClassVar[bool] = True
    protects: ClassVar[bool] = True
    differs: ClassVar[str] = "tells the vendor of a pod's GPUs by its resources alone, not by its claims"
    sentences: ClassVar[Mapping[str, str]] = {
        "added": "the GPUs of the node are hidden from containers without a GPU: {}",
        "none": "no container without a GPU had to be changed",
    }

    variable: str = Field(default=NVIDIA, pattern=f"^{_NAME}$")
    value: str = VOID
    of_vendors: dict[str, Annotated[str, Field(pattern=f"^{_NAME}=")]] = hiding()
    """In pods that ask for GPUs of other vendors: by the domain of their resources, the variable that hides these, and its
    value."""
    in_every_pod: tuple[Annotated[str, Field(pattern=f"^{_NAME}=")], ...] = hiding_anywhere()
    """With `everyPod`, in pods that ask for no GPU: more variables, and their values."""
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
        entries = [{"name": self.variable, "value": self.value}, *self._of_vendors(context)]
        getting: list[Container] = []
        without: list[Container] = []
        for container in [each for each in pod.containers if each.list_name != "ephemeralContainers"]:
            gets = container.has_gpu(context.gpus) or has_other_gpu(container.spec) or container.name == part
            (getting if gets else without).append(container)
        kept = self._take_back(edit, pod, getting, without, entries)
        added: list[str] = []
        for container in without:
            named = {each.get("name") for each in container.spec.get("env") or ()}
            claims = bool((container.spec.get("resources") or {}).get("claims"))
            if missing := [each for each in (entries[:1] if claims else entries) if each["name"] not in named]:
                edit.extend((*container.path, "env"), missing)
                added.append(container.name)
        return Outcome("added", [*kept, *added]) if added else Outcome("none")

    def _of_vendors(self, context: Context) -> list[dict[str, str]]:
        asked = {vendor(name) for each in context.pod.containers for name in requests_of(each.spec)}
        asked |= context.other_gpus
        pairs = [pair for domain, pair in self.of_vendors.items() if domain in asked]
        containers = context.pod.containers
        if self.all_pods and not any([c.has_gpu(context.gpus) or has_other_gpu(c.spec) for c in containers]):
            pairs += self.in_every_pod
        found = dict(pair.split("=", 1) for pair in pairs)
        return [{"name": name, "value": value} for name, value in found.items() if name != self.variable]

    @staticmethod
    def _take_back(
        edit: Edit, pod: AskedPod, getting: list[Container], without: list[Container], entries: list[dict[str, str]]
    ) -> list[str]:
        """Takes what an earlier call wrote from containers that got a GPU from another webhook after it, and no more than that
        call wrote: their author may have written the same. Returns the names of those that keep it."""
        if not (earlier := _earlier(pod.record)):
            return []
        kept: list[str] = []
        for container in without:
            if container.name in earlier and any([_has(container, each) for each in entries]):
                earlier.remove(container.name)
                kept.append(container.name)
        for container in getting:
            if container.name in earlier and any([_has(container, each) for each in entries]):
                earlier.remove(container.name)
                env = container.spec["env"]
                edit.put((*container.path, "env"), [each for each in env if not any(_is(each, of) for of in entries)])
        return kept

    def variables(self) -> Iterable[tuple[str, str]]:
        """`hidden`: domain with a slash, variable and value, of those that are for the pod."""
        pairs = [("", f"{self.variable}={self.value}"), *[(f"{of}/", pair) for of, pair in self.of_vendors.items()]]
        pairs += [(_ANYWHERE, pair) for pair in self.in_every_pod if self.all_pods]
        rows = [[of, *pair.split("=", 1)] for of, pair in pairs]
        asks = " || ".join(f"{asked('c')}.exists(k, k.startsWith(h[0]))" for asked in (cel.limits, cel.requests))
        listed = f"[{', '.join(map(cel.literal, rows))}]"
        none = f"variables.gpuContainers.size() == 0 && !variables.containers.exists(c, {cel.has_other_gpu('c')})"
        anywhere = f'h[0] == "{_ANYWHERE}" && {none}'
        yield "hidden", f'{listed}.filter(h, h[0] == "" || {anywhere} || variables.containers.exists(c, {asks}))'

    def exported(self, gpus: Gpus) -> Iterable[str]:
        scheduler = f'object.spec.?schedulerName.orValue("") in {cel.literal(self.schedulers or ())}'
        part = cel.all_of([scheduler, cel.FRACTION, cel.GETS_FRACTION])
        named = f"{cel.field('c', 'env')}.exists(e, e.name == h[1])"
        claims = "c.?resources.?claims.orValue([]).size() > 0"
        missing = f'variables.hidden.filter(h, !{named} && (h[0] == "" || !({claims})))'
        for kind in cel.LISTS:
            path = f'"/spec/{kind}/" + string(i) + "/env"'
            entry = f"Object.spec.{kind}.env{{name: h[1], value: h[2]}}"
            patch = (
                f'(has(c.env) ? [] : [JSONPatch{{op: "add", path: {path}, value: []}}]) + '
                f'{missing}.map(h, JSONPatch{{op: "add", path: {path} + "/-", value: {entry}}})'
            )
            condition = f"!{cel.ASKS} && !{cel.has_other_gpu('c')} && {missing}.size() > 0 && !{part}"
            yield cel.for_each(kind, condition, patch)


def _is(entry: Mapping[str, Any], of: Mapping[str, str]) -> bool:
    """Whether a variable is this one. The API server leaves out a value that is empty."""
    return entry.get("name") == of["name"] and (entry.get("value") or "") == of["value"] and not entry.get("valueFrom")


def _has(container: Container, of: Mapping[str, str]) -> bool:
    return any([_is(each, of) for each in container.spec.get("env") or ()])


def _earlier(record: Mapping[str, Any]) -> list[str]:
    """The names of the containers in which an earlier call set variables."""
    match outcome_of(record, "voidDevices"):
        case ["added", list(names)]:
            return [name for name in names if isinstance(name, str)]
    return []

"""What the cases of pending pods are made of."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.programs import MISSES_ANTI_AFFINITY

GPU = "nvidia.com/gpu"
HOSTNAME, ZONE, PRODUCT = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "nvidia.com/gpu.product"
CASE = "example.com/case"
"""The label of the nodes of a case, which its pods select: all cases are played in one cluster."""
_OWN = re.compile(r"\b(?:p|pv|s|zone|class)-(?!c[0-9]{3}-)(?=[a-z])|(?<=[a-z]\.)(?=example\.com)")


def named(obj: Any, tag: str) -> Any:
    """With names that no other case has: `p-a` is `p-c012-a`, and `gpu.example.com` is `gpu.c012-example.com`."""
    return json.loads(_OWN.sub(lambda match: f"{match[0]}{tag}-", json.dumps(obj)))


def kept(obj: Json, tag: str) -> Json:
    """A pod, or a workload, whose pods select the nodes of their case; any other object as it is."""
    spec = obj.get("spec") or {}
    if spec := spec if obj["kind"] == "Pod" else (spec.get("template") or {}).get("spec"):
        spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), CASE: tag}
    return obj


@dataclass
class Kit:
    """What a fix may use: the names in it are those of the table."""

    api: Api
    tag: str
    namespace: str
    pod: Json
    """As it was created."""

    async def again(self, **change: Any) -> None:
        """Delete the pod and create it with these changes of its spec; None removes a field. It gets another name: the node may
        have got the pod just before, and its kubelet (kwok) ends by name what it sees being deleted."""
        name = self.pod["metadata"]["name"]
        await self.api.delete("Pod", name, self.namespace, grace=0, missing_ok=True)

        async def gone() -> bool:
            return not [p for p in await self.api.pods(self.namespace) if p["metadata"]["name"] == name]

        await wait_until(gone, 120, "the pod gone")
        changed = {**self.pod["spec"], **named(change, self.tag)}
        spec = {name: value for name, value in changed.items() if value is not None}
        self.pod = {**self.pod, "metadata": {**self.pod["metadata"], "name": f"{name}-again"}}
        await self.api.create(kept({**self.pod, "spec": spec}, self.tag), self.namespace)

    async def make(self, *objects: Json) -> None:
        """Create objects; in the namespace, if their kind has one."""
        for each in objects:
            obj = kept(named(each, self.tag), self.tag)
            if obj["kind"] == "Event":
                obj["involvedObject"]["namespace"] = self.namespace
            await self.api.create(obj, None if obj["kind"] in EVERYWHERE else self.namespace)
            if obj["kind"] == "ResourceQuota":
                await self._counting(list(obj["spec"]["hard"]))

    async def _counting(self, resources: list[str]) -> None:
        """Until a new quota counts what is created from now on: while its status is unknown, admission refuses all. What was
        created before it would count only once the controller has seen that, at worst after five minutes."""
        probe = asking({name.removeprefix("requests."): "0" for name in resources if name != "pods"})
        probe["resources"]["requests"] = dict(probe["resources"]["limits"])

        async def counting() -> bool:
            try:
                await self.api.create(pod("probe", 0, containers=[probe]), self.namespace, dryRun="All")
            except ApiError as error:
                return "status unknown for quota" not in str(error)
            return bool((await self.api.list("ResourceQuota", self.namespace))[0].get("status"))

        await wait_until(counting, 120, f"the quota of {self.namespace} to count")

    async def patch(self, kind: str, name: str, change: Any, **more: Any) -> None:
        where = None if kind in EVERYWHERE else self.namespace
        await self.api.patch(kind, named(name, self.tag), named(change, self.tag), where, **more)

    async def delete(self, kind: str, *names: str) -> None:
        for name in names:
            where = None if kind in EVERYWHERE else self.namespace
            await self.api.delete(kind, named(name, self.tag), where, grace=0)

    async def end(self, *names: str) -> None:
        await self.delete("Pod", *names)

    async def end_who_keeps_away(self, name: str) -> None:
        await self.end(name)
        if MISSES_ANTI_AFFINITY:
            await self.again()


EVERYWHERE = (
    *("Node", "PersistentVolume", "StorageClass", "DeviceClass", "ResourceSlice", "PriorityClass", "RuntimeClass"),
    *(
        "CSIDriver",
        "CSINode",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingWebhookConfiguration",
    ),
)
"""Kinds that have no namespace."""
Fix = Callable[[Kit], Awaitable[Any]]


@dataclass
class Case:
    """`first`: the word of the first cause, `text`: how it begins. `says`: a part of what the scheduler says; "" where it says
    nothing."""

    id: str
    first: str
    text: str
    nodes: Iterable[Json]
    pod: Json
    says: str = ""
    fix: Fix | None = None
    """The first fix, as a person applies it; None: the test reads it from the answer."""
    before: list[Json] = field(default_factory=list)
    """Created first; the pods among them are bound before the pod comes."""
    about: str = ""
    """The name that the answer has, where it is not the pod's."""
    advises: str = ""
    """How the first fix begins."""
    notes: str = ""
    """A part of what is said in addition."""
    happens: Fix | None = None
    """What is done after that, before the pod comes."""
    labels: Mapping[str, str] | None = None
    """Those of its namespace."""


def asking(limits: Json, **fields: Any) -> Json:
    resources = {"limits": limits, "requests": limits}
    return {"name": "main", "image": "registry.example/app:1", "resources": resources, **fields}


def one(**same: Any) -> list[Json]:
    return [node("p-a", **same)]


def two(**same: Any) -> list[Json]:
    return [node("p-a", zone="zone-a", **same), node("p-b", zone="zone-b", **same)]


def waits(gpus: int = 1, **spec: Any) -> Json:
    return pod("waits", gpus, **spec)


def wants(limits: Json, name: str = "waits", **spec: Any) -> Json:
    """A pod that asks for these resources."""
    return {**pod(name, 0), "spec": {"containers": [asking(limits)], **spec}}


def held(name: str, gpus: int, on: str = "p-a", **spec: Any) -> Json:
    """A pod that holds GPUs of a node already."""
    return pod(name, gpus, nodeSelector={HOSTNAME: on}, **spec)


def priority(name: str, value: int, policy: str) -> Json:
    return made("PriorityClass", name, value=value, preemptionPolicy=policy)


def event(reason: str, message: str, reporter: str) -> Json:
    """An Event about the pod that waits."""
    about = {"apiVersion": "v1", "kind": "Pod", "name": "waits"}
    time = "2026-11-25T00:00:00Z"
    fields = {"reason": reason, "message": message, "source": {"component": reporter}, "type": "Normal"}
    return made("Event", "waits.1", involvedObject=about, lastTimestamp=time, firstTimestamp=time, **fields)


A100, L4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
HOLD = {"finalizers": ["example.com/hold"]}

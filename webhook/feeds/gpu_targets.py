"""The pods that GPU metrics are asked of, kept by a watch of their own: DCGM exporters, or pods that hold a GPU."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.feeds.api import Object
from webhook.kube.gpus import Gpus


class Target(NamedTuple):
    node: str
    namespace: str
    name: str
    uid: str
    address: str = ""
    """Of the pod; "" where it has none yet."""
    container: str = ""
    """The container that holds GPUs."""
    gpus: int = 0
    """How many it holds."""


Choose = Callable[[Object], Target | None]


class Targets:
    """A sink of `watch.Feed`."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._by_uid: dict[str, Target] = {}
        self.listed = asyncio.Event()
        """There was a full list."""

    def __iter__(self) -> Iterator[Target]:
        return iter(list(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)

    def listing(self) -> _Pages:
        return _Pages(self)

    def seen(self, pod: Object) -> None:
        target = self._choose(pod)
        if target is None:
            self.gone(pod)
        else:
            self._by_uid[target.uid] = target

    def gone(self, pod: Object) -> None:
        self._by_uid.pop((pod.get("metadata") or {}).get("uid") or "", None)

    def heard(self) -> None:
        """The watch is alive: of no use here, a target that is gone does not answer."""

    def keep(self, pods: set[str]) -> None:
        """A full list is there: forget all but the pods with these uids."""
        self.listed.set()
        self._by_uid = {uid: target for uid, target in self._by_uid.items() if uid in pods}

    def nodes(self) -> dict[str, str]:
        """Nodes by the address and by the name of their pod."""
        found = {target.name: target.node for target in self._by_uid.values()}
        found.update((target.address, target.node) for target in self._by_uid.values() if target.address)
        return found


class _Pages:
    """A full list: what is on no page is gone."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._uids: set[str] = set()

    def add(self, objects: Iterable[Object]) -> None:
        for pod in objects:
            self._uids.add((pod.get("metadata") or {}).get("uid") or "")
            self._targets.seen(pod)

    def done(self) -> None:
        self._targets.keep(self._uids)


class Pods(NamedTuple):
    """The pods that a source wants to know."""

    path: str
    labels: str
    fields: str
    choose: Choose
    awaited: bool = True
    """Whether there is nothing to ask before they are listed."""


def exporters(settings: GpuMetricsSettings) -> Pods:
    """The running DCGM exporters."""
    at = settings.dcgm
    labels = ",".join(f"{key}={value}" for key, value in sorted(at.selector.items()))
    return Pods(f"/api/v1/namespaces/{at.namespace}/pods", labels, "", exporter(settings))


def gpu_pods(settings: GpuMetricsSettings, gpus: Gpus) -> Pods:
    """The running pods that hold whole GPUs."""
    namespaces = settings.nvidia_smi.namespaces
    within = f"namespaces/{namespaces[0]}/" if len(namespaces) == 1 and namespaces[0] != "*" else ""
    return Pods(f"/api/v1/{within}pods", "", "status.phase=Running", gpu_pod(settings, gpus))


def exporter(settings: GpuMetricsSettings) -> Choose:
    """Chooses the running DCGM exporters."""
    at = settings.dcgm

    def choose(pod: Object) -> Target | None:
        target = _running(pod)
        labels = (pod.get("metadata") or {}).get("labels") or {}
        if target is None or target.namespace != at.namespace or not target.address:
            return None
        return target if all(labels.get(key) == value for key, value in at.selector.items()) else None

    return choose


def gpu_pod(settings: GpuMetricsSettings, gpus: Gpus) -> Choose:
    """Chooses the running pods that hold whole GPUs: one container each, which is asked for all that it sees."""
    namespaces = settings.nvidia_smi.namespaces

    def choose(pod: Object) -> Target | None:
        target = _running(pod)
        if target is None or ("*" not in namespaces and target.namespace not in namespaces):
            return None
        running = {
            status.get("name")
            for status in (pod.get("status") or {}).get("containerStatuses") or ()
            if "running" in (status.get("state") or {})
        }
        for container in (pod.get("spec") or {}).get("containers") or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            held = sum(_whole(limits[name]) for name in gpus.among(limits) if gpus.kind(name) == "whole")
            if held and container.get("name") in running:
                return target._replace(container=container["name"], gpus=held)
        return None

    return choose


def _whole(amount: Any) -> int:
    """GPUs are asked for in whole numbers; the API server sees to that."""
    return int(amount) if str(amount).isdecimal() else 0


def _running(pod: Object) -> Target | None:
    metadata, spec, status = (pod.get(key) or {} for key in ("metadata", "spec", "status"))
    node, uid = spec.get("nodeName"), metadata.get("uid")
    if not node or not uid or status.get("phase") != "Running" or metadata.get("deletionTimestamp"):
        return None
    return Target(node, metadata.get("namespace", ""), metadata.get("name", ""), uid, _address(status.get("podIP")))


def _address(text: Any) -> str:
    """A pod's address; "" for none, and for link-local ones, where clouds keep their metadata services."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return ""
    return "" if address.is_link_local or address.is_multicast or address.is_unspecified else str(address)

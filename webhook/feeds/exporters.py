"""Tracks the pods that tell about the GPUs of their nodes, by a watch: DCGM exporters, or the pods that have nvidia-smi.

All other sources ask them. For the source `prometheus` they tell the node that an address belongs to.
"""

import asyncio
import ipaddress
from collections.abc import Hashable, Iterator, Set
from typing import Any, NamedTuple

from webhook.feeds.api import Object
from webhook.feeds.watch import Sink
from webhook.nodes.gpu_metrics import Pods


class Exporter(NamedTuple):
    """A running pod: its node, name and address, and its first container."""

    node: str
    name: str
    address: str
    container: str


class Exporters(Sink):
    """The running exporters. Iteration gives each `Exporter`."""

    def __init__(self, settings: Pods) -> None:
        self._settings = settings
        self._by_uid: dict[Hashable, Exporter] = {}
        self.path = f"/api/v1/namespaces/{settings.namespace}/pods"
        self.labels = ",".join(f"{key}={value}" for key, value in sorted(settings.selector.items()))
        self.listed = asyncio.Event()
        """Set after the first full list."""

    def __iter__(self) -> Iterator[Exporter]:
        return iter(list(self._by_uid.values()))

    def seen(self, pod: Object, *, listed: bool = False) -> None:
        if exporter := self._exporter(pod):
            self._by_uid[self.key(pod)] = exporter
        else:
            self.gone(pod)

    def complete(self, keys: Set[Any]) -> None:
        self._by_uid = {key: exporter for key, exporter in self._by_uid.items() if key in keys}
        self.listed.set()

    def gone(self, pod: Object) -> None:
        self._by_uid.pop(self.key(pod), None)

    def nodes(self) -> dict[str, str]:
        """The nodes, by the address and by the pod name of their exporter."""
        return {key: exporter.node for exporter in self._by_uid.values() for key in (exporter.name, exporter.address)}

    def _exporter(self, pod: Object) -> Exporter | None:
        """The exporter in a pod; None if the pod is no exporter or does not run."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        labels, address = metadata.get("labels") or {}, _address(status.get("podIP"))
        runs = status.get("phase") == "Running" and not metadata.get("deletionTimestamp")
        chosen = metadata.get("namespace") == self._settings.namespace and all(
            labels.get(key) == value for key, value in self._settings.selector.items()
        )
        if not (runs and chosen and address and spec.get("nodeName")):
            return None
        return Exporter(spec["nodeName"], metadata["name"], address, spec["containers"][0]["name"])


def _address(text: Any) -> str:
    """The address of a pod, or "". Link-local addresses are refused: clouds have their metadata services there."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return ""
    return "" if address.is_link_local or address.is_multicast or address.is_unspecified else str(address)

"""Which replicas of this program run: their own pods say it, in the one namespace where no tenant can write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from webhook.kube.pod import Pod, labels_of

LABEL: Final = ("app.kubernetes.io/name", "gpu-admission")
"""What the Service, the budget and this module know a replica by: `manifests/60-deployment.yaml`."""


class Replicas:
    """Kept by the watch of pods. A replica counts while the Service sends reviews to it: ready, and not terminating.

    `name`: this replica's, which always counts; "" where it has none: then no other counts. `changed` is called with all
    names, sorted, when they change.
    """

    def __init__(self, name: str, namespace: str, changed: Callable[[tuple[str, ...]], None]) -> None:
        self.namespace = namespace if name else None
        """Where they are; None: nowhere."""
        self.names: tuple[str, ...] = (name,)
        self._name = name
        self._changed = changed
        self._named: dict[int | str, str] = {}

    def __iter__(self) -> Iterator[int | str]:
        """The uids of their pods, as `pods.pod_id` gives them."""
        return iter(self._named)

    def seen(self, uid: int | str, pod: Pod) -> None:
        """A pod of the namespace was added or changed."""
        if labels_of(pod).get(LABEL[0]) == LABEL[1] and _serves(pod):
            self._named[uid] = str(pod["metadata"].get("name", ""))
            self._count()
        else:
            self.gone(uid)

    def gone(self, uid: int | str) -> None:
        """The pod is deleted. Nothing happens if it was no replica."""
        if self._named.pop(uid, None) is not None:
            self._count()

    def _count(self) -> None:
        names = tuple(sorted({self._name, *self._named.values()}))
        if names != self.names:
            self.names = names
            self._changed(names)


def _serves(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")

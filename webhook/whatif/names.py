"""Finds the pods that a name means: of a pod, or of a workload above it at any height, as kubectl writes names and as commands
print them."""

from collections.abc import Iterator
from typing import Final

from webhook.errors import BadInput
from webhook.kube.pod import Pod, controller_reference, labels_of
from webhook.text import listed, no_such, plural, quoted
from webhook.whatif.cluster.report import workload_name
from webhook.whatif.cluster.snapshot import Object, Snapshot

_SHORT: Final = {
    "po": "pod",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "cj": "cronjob",
    "rc": "replicationcontroller",
    "lws": "leaderworkerset",
}
_HIGHEST: Final = 8
"""So many owners above each other are followed."""
_LISTED: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "Pod")
"""Kinds of owners that snapshots have, with their own owners."""
_GROUP: Final = "leaderworkerset.sigs.k8s.io/name"


class Names:
    """The names of the pods and workloads of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def of(self, obj: Object) -> Iterator[str]:
        """`kind/name` of an object, as `pod/chat-1`, and of the workloads above it, the lowest first."""
        namespace = obj["metadata"].get("namespace") or ""
        yield f"{str(obj.get('kind') or 'Pod').lower()}/{obj['metadata']['name']}"
        for _ in range(_HIGHEST):
            if (above := controller_reference(obj)) is None:
                return
            kind, name = str(above.get("kind")), str(above.get("name"))
            yield f"{kind.lower()}/{name}"
            higher = self._snapshot.named(kind).get((namespace, name)) if kind in _LISTED else None
            if higher is None:
                return
            obj = higher

    def top(self, pod: Pod) -> str:
        """The highest workload of a pod: `leaderworkerset/vllm in team`."""
        if group := labels_of(pod).get(_GROUP):
            return f"leaderworkerset/{group} in {pod['metadata']['namespace']}"
        *_, highest = self.of(pod)
        of = workload_name(pod)
        return f"{of if of.startswith('deployment/') else highest} in {pod['metadata']['namespace']}"

    def means(self, name: str, obj: Object) -> bool:
        """Whether `name` is that of an object or of a workload above it."""
        kind, _, last = name.rpartition("/")
        kind = _kind(kind)
        known = [*self.of(obj), *([workload_name(obj)] if obj.get("kind", "Pod") == "Pod" else [])]
        return any(each.partition("/")[2] == last and kind in ("", each.partition("/")[0]) for each in known)

    def pods(self, namespace: str | None, name: str) -> list[Pod]:
        """The pods that a name means: the pod of that name, or all of a workload. None if there is neither. Raises BadInput if
        they are in several namespaces."""
        here = [pod for pod in self._snapshot.of("Pod") if namespace in (None, pod["metadata"]["namespace"])]
        kind, _, last = name.rpartition("/")
        found = [pod for pod in here if pod["metadata"]["name"] == last and _kind(kind) in ("", "pod")]
        found = found or [pod for pod in here if self.means(name, pod)]
        there = sorted({pod["metadata"]["namespace"] for pod in found})
        if len(there) > 1:
            raise BadInput(f"{quoted(name)} is in {plural(len(there), 'namespace')}: {listed(there)}. Give one: -n")
        return found

    def unknown(self, namespace: str | None, name: str) -> BadInput:
        """The error for a name that means nothing, with the nearest."""
        where = f" in namespace {namespace}" if namespace else ""
        known: set[str] = set()
        for pod in self._snapshot.of("Pod"):
            if namespace in (None, pod["metadata"]["namespace"]):
                known.update((pod["metadata"]["name"], *self.of(pod), workload_name(pod)))
        return no_such("pod or workload", name, sorted(known), where)


def _kind(text: str) -> str:
    """A kind as kubectl takes it, `deploy`, `jobs`, `pytorchjob.kubeflow.org`, as a lower-case singular; "" for none."""
    word = text.lower().partition(".")[0]
    return _SHORT.get(word) or (word.removesuffix("s") if not word.endswith("ss") else word)

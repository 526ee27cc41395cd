"""Finds the pods that a name means: of a pod, or of a workload above it at any height, as kubectl writes names and as commands
print them."""

from typing import Final

from webhook.errors import BadInput
from webhook.kube.owners import BETWEEN, Find, controllers
from webhook.kube.pod import Pod
from webhook.kube.suspended import FIELDS
from webhook.text import bare, listed, no_such, plural, quoted
from webhook.whatif.cluster.report import workload_name
from webhook.whatif.cluster.snapshot import Object, Snapshot

_WORKLOADS: Final = tuple([kind for kind in dict.fromkeys((*BETWEEN, *FIELDS, "DaemonSet")) if kind != "Pod"])
_SHORT: Final = {
    "po": "pod",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "cj": "cronjob",
    "rc": "replicationcontroller",
    "lws": "leaderworkerset",
    "vcjob": "job",
    "vj": "job",
}


class Names:
    """The names of the pods and workloads of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.tried: dict[str, str] = {}
        """By the uid of a pod that is tried, the workload of its file: `jobset/fit`. Its own controller is made up."""

    def find(self, namespace: str) -> Find:
        """Finds an object of this namespace by its kind and name."""
        kinds = self._snapshot.objects
        return lambda kind, name: self._snapshot.named(kind).get((namespace, name)) if kind in kinds else None

    def object(self, namespace: str, name: str) -> Object | None:
        """The object of this `kind/name`; None if it is not known."""
        kind, _, last = name.partition("/")
        kinds = [each for each in self._snapshot.objects if each.lower() == kind]
        return next((obj for each in kinds if (obj := self._snapshot.named(each).get((namespace, last)))), None)

    def of(self, obj: Object) -> list[str]:
        """`kind/name` of an object, as `pod/chat-1`, and of the workloads above it, the lowest first."""
        metadata, kind = obj["metadata"], str(obj.get("kind") or "Pod")
        above = controllers(obj, self.find(metadata.get("namespace") or ""))
        names = [f"{kind.lower()}/{metadata['name']}", *[f"{each.kind.lower()}/{each.name}" for each in above]]
        workload = workload_name(obj) if kind == "Pod" else names[0]  # of a ReplicaSet that is not known too
        return names if workload in names else [*names, workload]

    def top(self, pod: Pod) -> str:
        """The highest workload of a pod: `leaderworkerset/vllm in team`."""
        workload = self.tried.get(pod["metadata"].get("uid", "")) or self.of(pod)[-1]
        return f"{workload} in {pod['metadata']['namespace']}"

    def means(self, name: str, obj: Object) -> bool:
        """Whether `name` is that of an object or of a workload above it."""
        kind, _, last = name.rpartition("/")
        kind = _kind(kind)
        known = [each.partition("/") for each in self.of(obj)]
        return any(each == last and kind in ("", of) for of, _, each in known)

    def pods(self, namespace: str | None, name: str) -> list[Pod]:
        """The pods that a name means: the pod of that name, or all of a workload. None if there is neither. Raises BadInput if
        they are in several namespaces."""
        kind, _, last = name.rpartition("/")
        if _kind(kind) in ("", "pod") and (pod := self._snapshot.named("Pod").get((namespace or "", last))):
            return [pod]
        here = [pod for pod in self._snapshot.of("Pod") if namespace in (None, pod["metadata"]["namespace"])]
        found = [pod for pod in here if pod["metadata"]["name"] == last and _kind(kind) in ("", "pod")]
        found = found or [pod for pod in here if self.means(name, pod)]
        there = sorted({pod["metadata"]["namespace"] for pod in found})
        if len(there) > 1:
            raise BadInput(f"{quoted(name)} is in {plural(len(there), 'namespace')}: {listed(there)}. Give one: -n")
        return found

    def workloads(self, namespace: str | None, name: str) -> list[Object]:
        """The workloads of this name, as a person writes it."""
        kind, _, last = name.rpartition("/")
        kinds = [each for each in _WORKLOADS if _kind(kind) in ("", each.lower())]
        found = [self._snapshot.named(each).items() for each in kinds]
        return [obj for of in found for (here, known), obj in of if known == last and namespace in (None, here)]

    def unknown(self, namespace: str | None, name: str) -> BadInput:
        """The error for a name that means no pod, with the nearest, or with what is known of a workload of this name."""
        kind, _, last = name.rpartition("/")
        for obj in self.workloads(namespace, name):
            of, here = bare(f"{obj['kind'].lower()}/{last}"), obj["metadata"]["namespace"]
            return BadInput(f"{of} has no pods, and nothing says why. See kubectl describe {of} -n {here}")
        if last in self._snapshot.nodes and _kind(kind) in ("", "node", "no"):
            shows = f"`top nodes {bare(last)} -o wide` names its pods, `drain {bare(last)}` says where they could go"
            return BadInput(f"{quoted(last)} is a node. {shows}")
        why = next((why for of, why in self._snapshot.missing.items() if _kind(kind) == of.lower()), "")
        where = f"{f' in namespace {namespace}' if namespace else ''}{f' ({why})' if why else ''}"
        names, others = set[str](), {obj["metadata"]["namespace"] for obj in self.workloads(None, name)}
        for pod in self._snapshot.of("Pod"):
            if namespace in (None, here := pod["metadata"]["namespace"]):
                names.update((pod["metadata"]["name"], *self.of(pod)))
            elif here not in others and self.means(name, pod):
                others.add(here)
        if same := sorted([each for each in names if each.endswith(f"/{last}")]):  # of another kind
            return BadInput(f"no pod or workload {quoted(name)}{where}; did you mean {bare(same[0])}?")
        if others:
            has = (
                f"namespace {listed(sorted(others))} has one"
                if len(others) == 1
                else f"there are some in {listed(sorted(others))}"
            )
            return BadInput(f"no pod or workload {quoted(name)}{where}; {has}")
        return no_such("pod or workload", name, sorted(names), where)


def _kind(text: str) -> str:
    """A kind as kubectl takes it, `deploy`, `jobs`, `pytorchjob.kubeflow.org`, as a lower-case singular; "" for none."""
    word = text.lower().partition(".")[0]
    return _SHORT.get(word) or (word.removesuffix("s") if not word.endswith("ss") else word)

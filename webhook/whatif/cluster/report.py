"""Reports the GPUs, health and pods of each node: the document of `gpu-admission top -o json` in docs/documents.md."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np

from webhook.kube.gpus import GPU_KINDS, GPU_LABELS, NO_GPUS, Gpus
from webhook.kube.other_gpus import other_gpus
from webhook.kube.pod import MIRROR, Pod, annotations_of, claims_devices, labels_of, owner
from webhook.kube.pod_requests import counted_requests
from webhook.kube.record import record_of
from webhook.kube.taints import node_taints
from webhook.nodes.nodes import installed_on
from webhook.nodes.rejections import reason_of
from webhook.placement.feasible import for_any_pod
from webhook.placement.settings import Health
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.state.gpu_amounts import GpuAmounts, gpu_number, models_of
from webhook.vendors.catalogue import labels
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.measured import Figures
from webhook.whatif.cluster.snapshot import Object, Snapshot, created, seconds

_POOL_LABELS: Final = ("node-pool", "nodepool", *labels("pool"), "pool")
"""Labels that name the pool of a node; the first that a node has counts."""
_MAX_NAME: Final = 253
"""Maximum characters of a name of Kubernetes. An owner reference may have a longer one."""
PARTS: Final = ("allocated", "promised", "free", "unusable")
"""Each GPU is one of these. Unusable: free on a node that takes no pods, sick, or not offered."""
AMOUNTS: Final = ("total", *PARTS)
UNKNOWN: Final = "unknown"
"""The part of the GPUs of which it is not known whether somebody has them, for those who may not list all pods."""
UNKNOWN_HEALTH: Final = "unknown"
"""The health of a node that may not be read."""


def report(snapshot: Snapshot, policy: Policy, names: list[str]) -> list[dict[str, Any]]:
    """The document of each of these nodes, in this order."""
    health = healths(snapshot, policy, names)
    state = snapshot.state
    state.view(snapshot.taken)  # ends expired reservations
    columns = state.nodes.columns
    figures = Figures(snapshot.measured, policy.file.gpu_metrics) if snapshot.measured else None
    devices, rejected, models = PodGpus(snapshot, policy), _rejected(snapshot), models_of(state)
    known = "Pod" not in snapshot.missing
    result = []
    for name in names:
        node, row = snapshot.nodes[name], state.nodes.row_of[name]
        one, sharing = GPU_KINDS[columns.one[row]], float(columns.sharing[row])
        pods = list(_gpu_pods(snapshot.pods_on.get(name, ()), policy, devices))
        if figures:
            pods = list(figures.with_pods(name, pods, sharing))
        amounts = {name: each for name, each in devices.amounts.items() if each.installed[row] or each.allocated[row]}
        withdrawn = sum(float(each.installed[row] - each.offered[row]) for each in devices.amounts.values())
        offered = sum(float(each.offered[row]) for each in amounts.values())
        has = sum(float(each.allocated[row]) for each in amounts.values())
        measured = figures.of(name, offered, has, sharing, pods) if figures else {}
        away = math.inf if health[name] != "healthy" else measured.get("sick", 0) if len(amounts) == 1 else 0
        gpus = {resource: counted(of, row, away, known=known) for resource, of in amounts.items()}
        host = {
            name: {"total": int(columns.capacity[name][row]), "free": max(0, int(columns.free[name][row]))}
            for name in ("cpu", "memory")
            if name in columns.capacity
        }
        result.append(
            {
                "name": name,
                "pool": pool_of(node),
                "model": models.names[models.number[row]],
                "ready": health[name] != "notReady",
                "health": health[name],
                "taints": [taint.text for taint in node_taints(node)],
                "gpus": gpus,
                "pods": pods,
                **({"host": host} if known else {}),
                **({"one": one} if one != "whole" else {}),
                **({"sharing": gpu_number(sharing)} if sharing > 1 else {}),
                **({"withdrawn": gpu_number(withdrawn)} if withdrawn else {}),
                **({"rejected": rejected[name]} if rejected[name] else {}),
                **measured,
            }
        )
    return result


def counted(of: GpuAmounts, row: int, away: float, *, known: bool) -> dict[str, int | float]:
    """The GPUs of a node, each counted once. `away`: so many of them are sick, or take no pods: perhaps those that a pod has.
    `known`: whether all pods are."""
    allocated, promised, left = (float(each[row]) for each in (of.allocated, of.promised, of.free))
    held = allocated + promised
    total, free = max(float(of.installed[row]), held + left), max(0.0, left - max(0.0, away - held))
    parts = {"allocated": allocated, "promised": promised, "free": free, "unusable": total - held - free}
    if not known:
        parts = {**dict.fromkeys(PARTS, 0.0), "allocated": allocated, UNKNOWN: max(0.0, total - allocated)}
    return {part: gpu_number(amount) for part, amount in {"total": total, **parts}.items()}


def report_of_pods(snapshot: Snapshot, policy: Policy) -> list[dict[str, Any]]:
    """For those who may not list nodes: a document for each node on which a pod has GPUs, with what the pods have. All else is
    not known."""
    devices, found = PodGpus(snapshot, policy), []
    for name, pods in sorted(snapshot.pods_on.items()):
        if shown := list(_gpu_pods(pods, policy, devices)):
            sums = Counter[str]()
            for pod in shown:
                sums.update(pod["gpus"])
            gpus = {
                name: dict.fromkeys(AMOUNTS, 0) | {"total": count, "allocated": count} for name, count in sums.items()
            }
            unknown = {"pool": "", "model": "", "health": UNKNOWN_HEALTH, "taints": []}
            found.append({"name": name, **unknown, "gpus": gpus, "pods": shown})
    return found


def _rejected(snapshot: Snapshot) -> Counter[str]:
    """The pods that their node rejected and that nobody has deleted, by node."""
    return Counter(
        [
            str(pod["spec"].get("nodeName"))
            for pod in snapshot.of("Pod")
            if pod["status"].get("phase") == "Failed" and reason_of(str(pod["status"].get("reason")))
        ]
    )


def by_model(nodes: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """`together` of each model, then of all nodes (the model is None) if there are several."""
    names = sorted({node["model"] for node in nodes})
    for name in [*names, None] if len(names) > 1 else names:
        yield {"model": name, **together([node for node in nodes if name in (None, node["model"])])}


def together(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The "gpus" of these nodes by resource, with the number of "nodes", and the metrics keys of `Figures.of` as far as known."""
    gpus = {}
    for resource in sorted({resource for node in nodes for resource in node["gpus"]}):
        of = [node["gpus"][resource] for node in nodes if resource in node["gpus"]]
        gpus[resource] = {"nodes": len(of), **{key: gpu_number(sum(each[key] for each in of)) for key in of[0]}}
    return {"gpus": gpus, **_metrics_together(nodes)}


def holder(pod: Mapping[str, Any], by: str) -> str:
    """The namespace, class or owner of a pod of `report`."""
    return f"{pod['namespace']}/{pod['workload']}" if by == "workload" else str(pod[by])


def holders(nodes: Iterable[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """Who has the GPUs of these nodes: for each namespace, class or owner its number of pods and nodes, the start of its oldest
    pod, and its GPUs by resource. Most GPUs first. Where GPUs are measured also how many are idle. Where the
    labels of metrics do not say which pod has which GPU, an idle one counts for the holder who has it even if all GPUs of the
    others on the node are among the idle ones."""
    pods, on, gpus, since = Counter[str](), dict[str, Counter[str]](), dict[str, dict[str, float]](), dict[str, int]()
    idle: Counter[str] | None = None
    for node in nodes:
        here, named, seen = dict[str, float](), Counter[str](), set[tuple[str, str]]()
        for pod in node["pods"]:
            name = holder(pod, by)
            pods[name] += 1
            since[name] = min(since.get(name, pod["since"]), pod["since"])
            has = _counted_once(pod, {claim for of, claim in seen if of == name})
            seen.update([(name, claim) for claim in pod.get("shared", ())])
            on.setdefault(name, Counter())[node["name"]] += sum(has.values())  # type: ignore[assignment]
            of = gpus.setdefault(name, {})
            for resource, amount in has.items():
                of[resource] = of.get(resource, 0) + amount
            here[name] = here.get(name, 0) + sum(has.values()) - pod.get("measured", 0)
            named[name] += pod.get("idle", 0)
        if "idle" in node:
            rest = node["idle"] - named.total() - sum(here.values())
            surely = {name: max(0, math.floor(rest + own)) for name, own in here.items()}
            idle = (idle or Counter()) + named + Counter(surely)
    names = sorted(pods, key=lambda name: (-sum(gpus[name].values()), name))
    return [
        {by: name, "pods": pods[name], "nodes": len(on[name]), "since": since[name]}
        | {"gpus": {resource: gpu_number(amount) for resource, amount in sorted(gpus[name].items())}}
        | ({} if idle is None else {"idle": idle[name]})
        | ({"on": {node: gpu_number(amount) for node, amount in sorted(on[name].items())}} if by == "workload" else {})
        for name in names
    ]


def _counted_once(pod: Mapping[str, Any], claims: Set[str]) -> dict[str, float]:
    """The GPUs of a pod without those of these claims, which another pod of the same holder has too."""
    has: dict[str, float] = dict(pod["gpus"])
    for claim in claims & pod.get("shared", {}).keys():
        for driver, amount in pod["shared"][claim].items():
            has[driver] -= amount
    return has


def _metrics_together(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics keys of several nodes together, as far as known."""
    known = {key: [node[key] for node in nodes if key in node] for key in ("idle", "memory", "temperature", "sick")}
    result = {key: sum(known[key]) for key in ("idle", "sick") if known[key]}
    if measured := sum(node.get("measured", 0) for node in nodes):
        total = sum(node["utilisation"] * node["measured"] for node in nodes if "measured" in node)
        result["utilisation"] = round(total / measured)
    if known["temperature"]:
        result["temperature"] = max(known["temperature"])
    memory = {key: sum(each[key] for each in known["memory"]) for key in ("used", "total")}
    return result | ({"memory": memory} if known["memory"] else {})


def gpu_nodes(snapshot: Snapshot, policy: Policy) -> list[str]:
    """The names of all nodes that offer GPUs, or have some that they do not offer, sorted."""
    offering = _offering(snapshot, policy)
    return sorted([name for name, node in snapshot.nodes.items() if name in offering or has_gpus(node, policy.gpus)])


def healths(snapshot: Snapshot, policy: Policy, names: list[str]) -> dict[str, str]:
    """The health of each of these nodes: a word that docs/documents.md describes. If several apply, the worst."""
    nodes, offering = snapshot.state.nodes, _offering(snapshot, policy)
    judged, rows = for_any_pod(health_of(policy)), slice(0, nodes.columns.rows)
    words = {
        "notReady": judged.down(nodes, rows),
        "unhealthy": judged.sick(nodes, rows),
        "cordoned": judged.cordoned(nodes, rows),
    }

    def health(name: str) -> str:
        row, without = nodes.row_of[name], name not in offering and has_gpus(snapshot.nodes[name], policy.gpus)
        found = next((word for word, mask in words.items() if mask[row]), "")
        return found or ("offersNoGpus" if without else "healthy")

    return {name: health(name) for name in names}


def _offering(snapshot: Snapshot, policy: Policy) -> set[str]:
    """The names of the nodes that offer GPUs, by a device plugin or one by one."""
    nodes = snapshot.state.nodes
    return {nodes.columns.name[row] for row in np.flatnonzero(nodes.with_gpus(policy.gpus)).tolist()}


def health_of(policy: Policy) -> Health:
    return policy.profile(DEFAULT_PROFILE)[1].placement.health


def has_gpus(node: Object, gpus: Gpus) -> bool:
    """Whether a node has GPUs by its labels, or lists a resource of GPUs that it may offer again: see `nodes.installed_on`."""
    has = labels_of(node)
    by_label = any(has.get(key, "") not in NO_GPUS for key in GPU_LABELS)
    return by_label or any(amount for name, amount in installed_on(node).items() if gpus.knows(name))


def pool_of(node: Object) -> str:
    """The name of the node's pool; "" if no label says."""
    has = labels_of(node)
    return next((has[key] for key in _POOL_LABELS if key in has), "")


def gpus_of(pod: Pod, policy: Policy) -> dict[str, int]:
    """How many GPUs of each resource of a device plugin the pod requests."""
    return {name: amount for name, amount in counted_requests(pod).requests if policy.gpus.kind(name) is not None}


def asks_for_gpus(pod: Pod, policy: Policy) -> bool:
    """Whether the webhook decides about the pod as one with GPUs: it asks for some, or claims devices, or has parts of GPUs."""
    return bool(gpus_of(pod, policy) or claims_devices(pod) or other_gpus(pod))


def _gpu_pods(pods: Iterable[Pod], policy: Policy, devices: PodGpus) -> Iterator[dict[str, Any]]:
    for pod in pods:
        if gpus := devices.of(pod):
            since, shared = int(seconds(pod["status"].get("startTime")) or created(pod)), devices.shared(pod)
            yield {**named(pod, policy), "since": since, "gpus": gpus, **({"shared": shared} if shared else {})}


def named(pod: Pod, policy: Policy) -> dict[str, Any]:
    """The pod's names, workload and class."""
    metadata = pod["metadata"]
    recorded = record_of(pod).get("class") or policy.classify(pod, owner(pod), metadata["namespace"]).name
    names = {"namespace": metadata["namespace"], "name": metadata["name"]}
    return {**names, "workload": workload_name(pod), "class": recorded}


def workload_name(pod: Pod) -> str:
    """The workload of the pod, as kubectl names it: job/train, deployment/chat, pod/one. A static pod has none."""
    controller, labels = owner(pod), labels_of(pod)
    if controller is None or controller.kind == "Node":
        return f"pod/{pod['metadata']['name']}"
    suffix = labels.get("pod-template-hash")
    if controller.kind == "ReplicaSet" and suffix and controller.name.endswith(f"-{suffix}"):
        return f"deployment/{controller.name.removesuffix(f'-{suffix}')}"
    return f"{controller.kind.lower()[:_MAX_NAME]}/{controller.name[:_MAX_NAME]}"


def stays(pod: Pod) -> bool:
    """Whether the pod is one of its node, and of no other: a static pod, or of a DaemonSet."""
    controller = owner(pod)
    return MIRROR in annotations_of(pod) or (controller is not None and controller.kind in ("DaemonSet", "Node"))

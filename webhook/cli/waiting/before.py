"""What a pod waits for before the scheduler looks at any node: gates, queues, a scheduler, its group, its victims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from webhook.cli.waiting.cause import Cause
from webhook.cli.waiting.situation import Case
from webhook.cluster.pods import KUEUE, SCHEDULER
from webhook.kube.pod import labels_of
from webhook.text import bare, listed, nearest, plural, quoted

_GROUP_LABELS: Final = (
    *("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"),
    *("scheduling.k8s.io/group-name", "kai.scheduler/pod-group"),
)
_KUEUE_GATE: Final = "kueue.x-k8s.io/admission"


def before(case: Case) -> Iterator[Cause]:
    spec, s = case.pod["spec"], case.situation
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    queue = labels_of(case.pod).get(KUEUE)
    if _KUEUE_GATE in gates:
        text = f"Kueue has not admitted it from queue {quoted(queue or '?')}"
        yield Cause("queued", text, f"see what its Workload waits for: kubectl describe workloads -n {case.namespace}")
        gates.remove(_KUEUE_GATE)
    if gates:
        text = f"scheduling gates {listed(map(bare, gates))}: no scheduler looks at it until they are gone"
        yield Cause(
            "schedulingGate",
            text,
            "let the controller that set the gate remove it, or remove it from spec.schedulingGates",
        )
        return
    name = spec.get("schedulerName") or SCHEDULER
    known = s.snapshot.schedulers
    if name not in known:
        near = nearest(name, sorted(known)) or SCHEDULER
        text = f"no scheduler {quoted(name)} was ever seen to do anything here; there are {listed(sorted(known))}"
        yield Cause(
            "unknownScheduler", text, f"set spec.schedulerName to {bare(near)} in its template, or install {bare(name)}"
        )
        return
    yield from _group(case)
    if (node := case.pod["status"].get("nominatedNodeName")) and node in s.snapshot.nodes:
        leaving = [pod for pod in s.pods_on.get(node, ()) if pod["metadata"].get("deletionTimestamp")]
        if leaving:
            names = listed([f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in leaving], 3)
            text = f"it preempts {plural(len(leaving), 'pod')} on {node} ({names}), which have not ended yet"
            yield Cause(
                "preempting", text, "wait: they have the time of their terminationGracePeriodSeconds", (node,), 1
            )


def _group(case: Case) -> Iterator[Cause]:
    """Gangs: the API's own PodGroups, and the labels that other gang schedulers know."""
    s, labels = case.situation, labels_of(case.pod)
    name = (case.pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    label = next((key for key in _GROUP_LABELS if key in labels), None)
    if name is not None:
        pod_group = s.snapshot.named("PodGroup").get((case.namespace, name))
        if pod_group is None:
            if "PodGroup" not in s.snapshot.missing:
                yield Cause(
                    "podGroupMissing",
                    f"PodGroup {quoted(name)} does not exist in {case.namespace}",
                    "create the PodGroup",
                )
            return
        gang = (pod_group["spec"].get("schedulingPolicy") or {}).get("gang") or {}
        wanted = int(gang.get("minCount") or 0)
        members = [
            p for p in s.snapshot.of("Pod") if (p["spec"].get("schedulingGroup") or {}).get("podGroupName") == name
        ]
    elif label is not None:
        name = labels[label]
        members = [p for p in s.snapshot.of("Pod") if labels_of(p).get(label) == name]
        size = labels.get("pod-group.scheduling.sigs.k8s.io/min-available") or ""
        wanted = int(size) if size.isascii() and size.isdigit() else 0
    else:
        return
    members = [pod for pod in members if pod["metadata"]["namespace"] == case.namespace]
    if len(members) < wanted:
        text = f"gang {quoted(name)} wants {wanted} pods, and {plural(len(members), 'pod')} of it exist"
        yield Cause("gangIncomplete", text, f"create the other {wanted - len(members)}, or lower the group's minimum")

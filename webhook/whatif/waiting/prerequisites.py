"""Finds what a pod waits for before the scheduler looks at nodes: gates, a queue, its scheduler, its gang, preemption."""

from collections.abc import Iterator

from webhook.kube.gates import KUEUE_ADMISSION, gate_of
from webhook.kube.other_gpus import KAI, asks_for_part
from webhook.kube.pod import SCHEDULER, annotations_of
from webhook.kube.stores import full_name
from webhook.text import bare, listed, nearest, plural, quoted
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix
from webhook.whatif.waiting.gangs import lacking
from webhook.whatif.waiting.situation import UNREAD, Case, queued, with_spec
from webhook.whatif.waiting.started import is_late


def prerequisites(case: Case) -> Iterator[Cause]:
    """Everything but claims and volumes that keeps the scheduler from looking at nodes."""
    spec, s = case.pod["spec"], case.situation
    if case.constraints is UNREAD:
        text = "it states more about nodes than this program looks at"
        yield Cause.of("schedulerOther", text, "simplify its affinity and tolerations")
    gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
    if KUEUE_ADMISSION in gates:
        yield queued(s, case.pod, "create it again without that gate")
        gates = [name for name in gates if (gate := gate_of(name)) is None or gate.owner != "Kueue"]
    if gates:
        yield from [_gate(name, case.namespace) for name in gates]
        return
    name = spec.get("schedulerName") or SCHEDULER
    known = s.snapshot.schedulers
    if name not in known:
        parts = asks_for_part(annotations_of(case.pod))  # by another scheduler the pod would run without a GPU
        near = nearest(name, sorted(known.intersection(KAI) if parts else known)) or ("" if parts else SCHEDULER)
        text = f"no scheduler {quoted(name)} was ever seen to do anything here; there are {listed(map(bare, sorted(known)))}"
        other = Fix(
            f"set spec.schedulerName to {bare(near)} in its template", pod=with_spec(case.pod, schedulerName=near)
        )
        yield Cause.of("unknownScheduler", text, *([other] if near else []), f"install {bare(name)}")
        return
    yield from lacking(case)
    if (node := case.pod["status"].get("nominatedNodeName")) and node in s.snapshot.nodes:
        leaving = [pod for pod in s.pods_on.get(node, ()) if pod["metadata"].get("deletionTimestamp")]
        if leaving:
            names = listed(map(full_name, leaving), 3)
            text = f"it preempts {plural(len(leaving), 'pod')} on {node}, not ended yet: {names}"
            fix = Fix("wait: pods have the time of their terminationGracePeriodSeconds", ends=tuple(leaving))
            if late := next((pod for pod in leaving if is_late(s.snapshot, pod)), None):
                look = kubectl("describe", "pod", late["metadata"]["name"], namespace=late["metadata"]["namespace"])
                fix = Fix(f"see why {full_name(late)} does not end, whose grace period is over", look)
            yield Cause.of("preempting", text, fix, nodes=(node,), alone=1)


def _gate(name: str, namespace: str) -> Cause:
    """The cause for a scheduling gate: who takes it away, and when."""
    text, gate = f"scheduling gate {bare(name)}: ", gate_of(name)
    if gate is None:
        text, wait = f"{text}no scheduler looks at it until it is gone", "let the controller that set it remove it"
        return Cause.of("schedulingGate", text, wait, "remove it from spec.schedulingGates")
    fix = Fix("see why it has not", kubectl("describe", gate.seen, namespace=namespace))
    if not gate.seen:
        fix = Fix(f"ask who runs {gate.owner} why it has not")
    return Cause.of("schedulingGate", f"{text}{gate.owner} takes it away when {gate.until}", fix)

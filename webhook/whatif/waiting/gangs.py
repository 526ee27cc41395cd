"""Pods that start together or not at all: what their gang lacks, and whether there is room for all of them at once."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from webhook.kube.gangs import gang_name, pod_group
from webhook.kube.kinds import GROUPS
from webhook.kube.pod import Pod, labels_of
from webhook.placement.constraints import Mask
from webhook.text import number_of, plural, quoted
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.situation import Case

_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"


class _Gang(NamedTuple):
    name: str
    members: list[Pod]
    """The pods of it that there are, bound or not."""
    wanted: int
    """So many of them start together at least; 0: it is not known."""


def _gang(case: Case) -> _Gang | None:
    """A PodGroup of Kubernetes (KEP-4671), of Volcano, coscheduling or KAI, or a gang by labels alone; None if none is known."""
    s, name = case.situation, gang_name(case.pod)
    if name is None:
        return None
    of = next((found for kind in GROUPS if (found := s.snapshot.named(kind).get((case.namespace, name)))), None)
    if of is None and pod_group(case.pod):
        return None
    spec = of["spec"] if of else {}
    wanted = ((spec.get("schedulingPolicy") or {}).get("gang") or {}).get("minCount") or spec.get("minMember")
    stated = number_of(labels_of(case.pod).get(_MINIMUM))
    minimum = wanted if isinstance(wanted, int) else stated or 0
    return _Gang(name, s.gangs[case.namespace, name], minimum)


def lacking(case: Case) -> Iterator[Cause]:
    """What the gang of the pod lacks before the scheduler looks at nodes."""
    name, gang = pod_group(case.pod), _gang(case)
    if gang is None and name is not None:
        yield from case.absent("podGroupMissing", "PodGroup", name)
    elif gang is not None and len(gang.members) < gang.wanted:
        text = f"gang {quoted(gang.name)} wants {gang.wanted} pods, and {plural(len(gang.members), 'pod')} of it exist"
        other = f"create the other {gang.wanted - len(gang.members)}"
        yield Cause.of("gangIncomplete", text, other, "lower the group's minimum")


def together(case: Case, left: Mask) -> Iterator[Cause]:
    """That the nodes `left`, each of which could take the pod, have no room for all pods of its gang that must start with it.
    These are taken to ask for as much as this one."""
    s, gang = case.situation, _gang(case)
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in gang.members) if gang else 0
    if gang is None or gang.wanted - bound < 2:
        return
    amounts = [(s.free[name], amount) for name, amount in case.pod_requests.requests if amount and name in s.free]
    each = (
        np.min([np.maximum(free[left], 0) // amount for free, amount in amounts], axis=0)
        if amounts
        else np.zeros(0, np.int64)
    )
    if amounts and (room := int(each.sum())) < gang.wanted - bound:
        wants = f"gang {quoted(gang.name)} starts {gang.wanted - bound} pods at once"
        text = f"{wants}, and there is room for {room}: {s.where(left)}"
        fixes = "ask for less in each pod", "lower the group's minimum", "add nodes"
        yield s.cause("gangIncomplete", text, left, left, *fixes)

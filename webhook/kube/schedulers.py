"""Schedulers with queues of their own, which decide who goes first and who is preempted."""

from typing import Final

from webhook.kube.other_gpus import KAI
from webhook.kube.pod import Pod
from webhook.vendors.catalogue import every
from webhook.vendors.model import OwnQueues

ORDERED_BY_OTHERS: Final = {each.name: each.called for each in every(OwnQueues)}
"""Those that order pods by their PriorityClass. So does Kueue, which a label of the pod names: it takes the priority of a
workload from its template, which has no guess. KAI and Run:ai have priorities of their own."""


def queueing(pod: Pod) -> str:
    """The name of its scheduler, if that is one of them; "" if not."""
    name = str(pod["spec"].get("schedulerName") or "")
    return name if name in ORDERED_BY_OTHERS or name in KAI else ""

"""Follows the controllers of an object up to what its author created: Pod, Job, JobSet, TrainJob.

A controller of a controller is known only from the object between them, so kinds in between have to be read: `BETWEEN`. The
worker of a LeaderWorkerSet has the longest way: its StatefulSet is controlled by the leader, which is a pod of a StatefulSet that
the LeaderWorkerSet controls (lws/pkg/controllers/pod_controller.go).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.kube.pod import KUEUE, Pod, controller_reference, labels_of

_MAX_STEPS: Final = 8
"""Anybody can write owner references, in a circle too. The longest way that is known has five steps."""
BETWEEN: Final = (
    *("Pod", "ReplicaSet", "Deployment", "StatefulSet", "Job"),
    *("JobSet", "RayCluster", "PodClique", "PodCliqueScalingGroup"),
)
"""Kinds that stand between pods and what their author created. What stands at the top need not be read."""
Object = Mapping[str, Any]
Find = Callable[[str, str], Object | None]
"""The object of a kind and a name in the namespace of the pod; None if it is not there, or not known."""


class Controller(NamedTuple):
    """A controller in the way of an object to the top."""

    kind: str
    name: str
    json: Object | None
    """The object itself; None if it is not known."""


def controllers(obj: Object, find: Find) -> Iterator[Controller]:
    """The controllers of an object: its own first, that of its author's object last. An object of the same name that is another
    one, by its uid, counts as not known."""
    for _ in range(_MAX_STEPS):
        reference = controller_reference(dict(obj))
        if reference is None:
            return
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        found = find(kind, name)
        if found is not None and found["metadata"].get("uid") != reference.get("uid"):
            found = None
        yield Controller(kind, name, found)
        if found is None:
            return
        obj = found


def is_of(pod: Pod, kind: str, name: str, find: Find) -> bool:
    """Whether an object of this kind, in upper or lower case, and name made the pod, itself or through others."""
    wanted = (kind.casefold(), name)
    return any((each.kind.casefold(), each.name) == wanted for each in controllers(pod, find))


def queue_of(obj: Object, find: Find) -> str:
    """The queue of Kueue that an object or one of its controllers is in; "" if none is. Kueue suspends and starts the topmost of
    those that have a queue: who is below is started by its controller."""
    way = [obj, *[each.json for each in controllers(obj, find) if each.json is not None]]
    return next((queue for each in reversed(way) if (queue := labels_of(dict(each)).get(KUEUE, ""))), "")

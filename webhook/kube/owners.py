"""Follows the controllers of an object up to what its author created: Pod, Job, JobSet, TrainJob.

A controller of a controller is known only from the object between them, so kinds in between have to be read: `BETWEEN`. The
worker of a LeaderWorkerSet has the longest way: its StatefulSet is controlled by the leader, which is a pod of a StatefulSet that
the LeaderWorkerSet controls (lws/pkg/controllers/pod_controller.go). Where one of these is not known, labels say who is above it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.kube.leader_worker_set import SET
from webhook.kube.pod import KUEUE, controller_reference, labels_of

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
_JOBSET, _OF_TRAINJOB = "jobset.sigs.k8s.io/jobset-name", "trainer.kubeflow.org/trainjob-ancestor-step"
_RAY_NAME, _RAY_KIND = "ray.io/originated-from-cr-name", "ray.io/originated-from-crd"


class Controller(NamedTuple):
    """A controller in the way of an object to the top."""

    kind: str
    name: str
    json: Object | None
    """The object itself; None if it is not known."""


def controllers(obj: Object, find: Find) -> Iterator[Controller]:
    """The controllers of an object: its own first, that of its author's object last. An object of the same name that is another
    one, by its uid, counts as not known. Above what is not known are those that labels of the last known object name."""
    last = ""
    for each in _by_references(obj, find):
        yield each
        last, obj = each.kind, each.json or obj
    named = [*_by_labels(labels_of(dict(obj)))]
    kinds = [kind for kind, _ in named]
    for kind, name in named[kinds.index(last) + 1 if last in kinds else 0 :]:
        yield Controller(kind, name, find(kind, name))


def _by_references(obj: Object, find: Find) -> Iterator[Controller]:
    for _ in range(_MAX_STEPS):
        reference = controller_reference(dict(obj))
        if reference is None:
            return
        kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
        found = find(kind, name)
        uid = None if found is None else found["metadata"].get("uid")  # files may have none
        if uid not in (None, reference.get("uid")):
            found = None
        yield Controller(kind, name, found)
        if found is None:
            return
        obj = found


def _by_labels(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Kinds and names that labels have of controllers, the lowest first. A JobSet has the name of its TrainJob (trainer
    pkg/runtime/framework/plugins/jobset); KubeRay labels what a RayJob or a RayService made (ray-operator utils/constant.go)."""
    if name := labels.get(_JOBSET):
        yield "JobSet", name
        if _OF_TRAINJOB in labels:
            yield "TrainJob", name
    if name := labels.get(SET):
        yield "LeaderWorkerSet", name
    if (name := labels.get(_RAY_NAME)) and (kind := labels.get(_RAY_KIND)):
        yield kind, name


def queue_of(obj: Object, find: Find) -> str:
    """The queue of Kueue that an object or one of its controllers is in; "" if none is. Kueue suspends and starts the topmost of
    those that have a queue: who is below is started by its controller."""
    way = [obj, *[each.json for each in controllers(obj, find) if each.json is not None]]
    return next((queue for each in reversed(way) if (queue := labels_of(dict(each)).get(KUEUE, ""))), "")

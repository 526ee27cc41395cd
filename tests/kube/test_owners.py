"""The way from a pod to what its author created."""

from typing import Any

from tests.tables import table
from webhook.kube.owners import Object, controllers, queue_of
from webhook.kube.pod import KUEUE

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
Way = dict[tuple[str, str], dict[str, Any]]


def of(
    kind: str, name: str, by: tuple[str, str] | None = None, **labels: str
) -> tuple[tuple[str, str], dict[str, Any]]:
    metadata: dict[str, Any] = {"name": name, "uid": f"{kind}/{name}", "labels": labels}
    if by:
        metadata["ownerReferences"] = [{"kind": by[0], "name": by[1], "uid": "/".join(by), "controller": True}]
    return (kind, name), {"kind": kind, "metadata": metadata}


JOBSET: Way = dict(
    [
        of("Pod", "train-0-0", ("Job", "train-0")),
        of("Job", "train-0", ("JobSet", "train")),
        of("JobSet", "train", ("TrainJob", "train"), **{KUEUE: "gpus"}),
    ]
)
WORKER: Way = dict(
    [
        of("Pod", "llama-0-1", ("StatefulSet", "llama-0")),
        of("StatefulSet", "llama-0", ("Pod", "llama-0")),
        of("Pod", "llama-0", ("StatefulSet", "llama")),
        of("StatefulSet", "llama", ("LeaderWorkerSet", "llama")),
    ]
)
RAY: Way = dict(
    [of("Pod", "w", ("RayCluster", "fit-x7k2p")), of("RayCluster", "fit-x7k2p", ("RayJob", "fit"))],
)
CIRCLE: Way = dict([of("Pod", "a", ("Job", "b")), of("Job", "b", ("JobSet", "c")), of("JobSet", "c", ("Job", "b"))])
ALONE: Way = dict([of("Pod", "a")])
UNREAD: Way = dict([of("Pod", "a", ("Job", "b"))])
LABELLED: Way = dict(
    [of("Pod", "a", ("Job", "b"), **{JOBSET_LABEL: "train", "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})]
)
READ_IN_PART: Way = dict(
    [of("Pod", "a", ("Job", "b")), of("Job", "b", ("JobSet", "train"), **{JOBSET_LABEL: "train"})],
)
LEADER: Way = dict([of("Pod", "llama-0", ("StatefulSet", "llama"), **{"leaderworkerset.sigs.k8s.io/name": "llama"})])
SUBMITTER: Way = dict(
    [
        of(
            "Pod",
            "s",
            ("Job", "fit"),
            **{"ray.io/originated-from-cr-name": "fit", "ray.io/originated-from-crd": "RayJob"},
        )
    ]
)


def pod_of(way: Way) -> Object:
    return next(iter(way.values()))


@table(
    ("way", "kinds"),
    {
        "a TrainJob": (JOBSET, ["Job", "JobSet", "TrainJob"]),
        "the worker of a LeaderWorkerSet": (WORKER, ["StatefulSet", "Pod", "StatefulSet", "LeaderWorkerSet"]),
        "a RayJob": (RAY, ["RayCluster", "RayJob"]),
        "nobody": (ALONE, []),
        "a Job that is not known": (UNREAD, ["Job"]),
        "labels where the Job is not known": (LABELLED, ["Job", "JobSet", "TrainJob"]),
        "a reference and a label that say the same": (READ_IN_PART, ["Job", "JobSet"]),
        "the label of a leader": (LEADER, ["StatefulSet", "LeaderWorkerSet"]),
        "who submits a RayJob": (SUBMITTER, ["Job", "RayJob"]),
        "a circle ends": (CIRCLE, ["Job", "JobSet"] * 4),
    },
)
def test_the_way_to_the_top(way: Way, kinds: list[str]) -> None:
    found = [*controllers(pod_of(way), lambda kind, name: way.get((kind, name)))]
    assert [each.kind for each in found] == kinds


def test_another_object_of_that_name_is_not_the_controller() -> None:
    again = {**JOBSET, ("Job", "train-0"): {**JOBSET["Job", "train-0"], "metadata": {"name": "train-0", "uid": "new"}}}
    assert [each.kind for each in controllers(pod_of(again), lambda *key: again.get(key))] == ["Job"]


@table(
    ("way", "queue"),
    {"of its controller's controller": (JOBSET, "gpus"), "none": (WORKER, ""), "not known": (UNREAD, "")},
)
def test_the_queue_of_a_pod_is_that_of_what_its_author_created(way: Way, queue: str) -> None:
    assert queue_of(pod_of(way), lambda *key: way.get(key)) == queue

"""The way from a pod to what its author created."""

from typing import Any

import pytest

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
RAY: Way = dict([of("Pod", "w", ("RayCluster", "fit-x7k2p")), of("RayCluster", "fit-x7k2p", ("RayJob", "fit"))])
CIRCLE: Way = dict([of("Pod", "a", ("Job", "b")), of("Job", "b", ("JobSet", "c")), of("JobSet", "c", ("Job", "b"))])
ALONE: Way = dict([of("Pod", "a")])
UNREAD: Way = dict([of("Pod", "a", ("Job", "b"))])
LABELLED: Way = dict(
    [of("Pod", "a", ("Job", "b"), **{JOBSET_LABEL: "train", "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"})]
)
READ_IN_PART: Way = dict([of("Pod", "a", ("Job", "b")), of("Job", "b", ("JobSet", "train"), **{JOBSET_LABEL: "train"})])
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


@pytest.mark.parametrize(
    ("way", "kinds"),
    [
        pytest.param(JOBSET, ["Job", "JobSet", "TrainJob"], id="a TrainJob"),
        pytest.param(
            WORKER, ["StatefulSet", "Pod", "StatefulSet", "LeaderWorkerSet"], id="the worker of a LeaderWorkerSet"
        ),
        pytest.param(RAY, ["RayCluster", "RayJob"], id="a RayJob"),
        pytest.param(ALONE, [], id="nobody"),
        pytest.param(UNREAD, ["Job"], id="a Job that is not known"),
        pytest.param(LABELLED, ["Job", "JobSet", "TrainJob"], id="labels where the Job is not known"),
        pytest.param(READ_IN_PART, ["Job", "JobSet"], id="a reference and a label that say the same"),
        pytest.param(LEADER, ["StatefulSet", "LeaderWorkerSet"], id="the label of a leader"),
        pytest.param(SUBMITTER, ["Job", "RayJob"], id="who submits a RayJob"),
        pytest.param(CIRCLE, ["Job", "JobSet"] * 4, id="a circle ends"),
    ],
)
def test_the_way_to_the_top(way: Way, kinds: list[str]) -> None:
    found = [*controllers(pod_of(way), lambda kind, name: way.get((kind, name)))]
    assert [each.kind for each in found] == kinds


def test_another_object_of_that_name_is_not_the_controller() -> None:
    again = {**JOBSET, ("Job", "train-0"): {**JOBSET["Job", "train-0"], "metadata": {"name": "train-0", "uid": "new"}}}
    assert [each.kind for each in controllers(pod_of(again), lambda *key: again.get(key))] == ["Job"]


@pytest.mark.parametrize(
    ("way", "queue"),
    [
        pytest.param(JOBSET, "gpus", id="of its controller's controller"),
        pytest.param(WORKER, "", id="none"),
        pytest.param(UNREAD, "", id="not known"),
    ],
)
def test_the_queue_of_a_pod_is_that_of_what_its_author_created(way: Way, queue: str) -> None:
    assert queue_of(pod_of(way), lambda *key: way.get(key)) == queue

"""Groups and subgroups, as LeaderWorkerSet's webhook names them (`tests/e2e/others/test_lws.py` has the real one)."""

import hashlib

import pytest

from webhook.kube.leader_worker_set import GROUP, SIZE, SUBGROUP, SUBGROUP_SIZE, group_labels

_OURS = "leaderworkerset.sigs.k8s.io"
LEADER = {f"{_OURS}/worker-index": "0"}
WORKER = {GROUP: "of its leader"}
EXCLUDED = {f"{_OURS}/subgroup-policy-type": "LeaderExcluded"}


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def of_size(size: object, subgroup: object) -> dict[str, str]:
    return {SIZE: str(size), SUBGROUP_SIZE: str(subgroup), f"{_OURS}/leader-name": "llama-3"}


@pytest.mark.parametrize(
    ("name", "labels", "annotations", "found"),
    [
        pytest.param("llama-3-1", {}, {}, {}, id="a pod that is neither leader nor labelled"),
        pytest.param("", LEADER, of_size(4, 2), {}, id="a leader without a name"),
        pytest.param("llama-3-x", WORKER, of_size(4, 2), WORKER, id="a worker without a number"),
        pytest.param("llama-3-1", WORKER, of_size(4, 0), WORKER, id="subgroups of no pod"),
        pytest.param("llama-3-1", WORKER, of_size("many", "x"), WORKER, id="annotations without numbers"),
        pytest.param("llama-3", LEADER, {}, {GROUP: sha1("team/llama-3")}, id="a leader"),
        pytest.param("llama-3", LEADER | {GROUP: "k"}, {}, {GROUP: "k"}, id="a leader that has its label"),
        pytest.param(
            "llama-3",
            LEADER,
            of_size(4, 2),
            {GROUP: sha1("team/llama-3"), SUBGROUP: sha1("llama-3/0")},
            id="a leader in the first subgroup",
        ),
        pytest.param(
            "llama-3", LEADER, of_size(5, 2) | EXCLUDED, {GROUP: sha1("team/llama-3")}, id="a leader in no subgroup"
        ),
        pytest.param(
            "llama-3-2", WORKER, of_size(4, 2), WORKER | {SUBGROUP: sha1("llama-3/1")}, id="the leader is one of two"
        ),
        pytest.param(
            "llama-3-2", WORKER, of_size(5, 2), WORKER | {SUBGROUP: sha1("llama-3/0")}, id="the leader is one more"
        ),
    ],
)
def test_labels(name: str, labels: dict[str, str], annotations: dict[str, str], found: dict[str, str]) -> None:
    assert group_labels("team", name, labels, annotations) == found

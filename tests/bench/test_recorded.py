"""Replicas made from recorded reviews are what an API server would send; and the benchmark of reviews runs on them."""

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from bench import recorded
from bench.samples import cluster
from tests.controlplane.programs import KUBERNETES
from webhook.cli.offline import load_state
from webhook.kube.review import parse_review
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers

HOOKS = ("mutate", "validate")


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(cluster(4, 8)))
    return file


def test_recordings_are_of_supported_kubernetes() -> None:
    assert set(recorded.VERSIONS) == set(KUBERNETES)


@pytest.mark.parametrize("version", recorded.VERSIONS)
@pytest.mark.parametrize("creator", recorded.CREATORS)
def test_a_recording_is_of_a_new_pod_without_secrets(creator: str, version: str) -> None:
    for hook in HOOKS:
        body = recorded.recorded(hook, creator, version)
        request = parse_review(body)
        assert (request.operation, request.kind, request.namespace) == ("CREATE", "Pod", recorded.NAMESPACE)
        for secret in (b"Bearer", b"BEGIN ", b"eyJ"):  # a token, a key, a ServiceAccount's token
            assert secret not in body
    obj = parse_review(recorded.recorded("validate", creator, version)).object or {}
    assert obj["metadata"]["uid"], "the validating hook is asked of a pod that is nearly stored"
    assert "gpu-admission.io/decision" in obj["metadata"]["annotations"]


def _template(body: bytes) -> bytes:
    """The pod without what differs between replicas."""
    request = orjson.loads(body)["request"]
    kept, spec = request["object"]["metadata"], request["object"]["spec"]
    for key in ("uid", "creationTimestamp", "managedFields"):
        kept.pop(key, None)
    token = next(volume["name"] for volume in spec["volumes"] if volume["name"].startswith("kube-api-access-"))
    return orjson.dumps([kept, spec]).replace(token.encode(), b"token")


@pytest.mark.parametrize("creator", ["replicaset", "job"])
def test_replicas_differ_in_their_bodies_and_ask_the_same(creator: str) -> None:
    bodies = recorded.burst(creator, 3, workload=7)
    assert len(set(bodies)) == 3
    assert {len(body) for body in bodies} == {len(recorded.recorded("mutate", creator))}
    assert len({_template(body) for body in bodies}) == 1


def test_pods_of_which_no_two_are_alike_are_not() -> None:
    bodies = recorded.unlike(40, start=100)
    assert len({_template(body) for body in bodies}) == 40


def test_a_stored_replica_has_a_name_and_a_uid_of_its_own() -> None:
    pods = [orjson.loads(body)["request"]["object"] for body in recorded.burst("replicaset", 3, 7, "validate")]
    for field in ("name", "uid"):
        assert len({pod["metadata"][field] for pod in pods}) == 3
    assert {pod["metadata"]["generateName"] for pod in pods} == {pods[0]["metadata"]["name"][:-5]}


@pytest.mark.parametrize(("variable", "allowed"), [(recorded.HARMLESS, True), (recorded.THEFT, False)])
def test_a_pod_is_admitted_or_refused_for_one_variable(cluster_file: Path, variable: str, allowed: bool) -> None:
    mutate, validate = (
        [recorded.with_variable(body, variable) for body in recorded.of_workloads(2, 2, hook)] for hook in HOOKS
    )
    state, silent = load_state(cluster_file), recorded.Silent()
    handlers = Handlers(silent, state, Placer(state), silent, lambda: 0.0)
    for body in recorded.decided(cluster_file, mutate, validate):
        assert orjson.loads(handlers.validate(body)[1])["response"]["allowed"] is allowed


def test_the_benchmark_of_reviews_has_a_row_for_each_kind() -> None:
    command = [sys.executable, "-m", "bench.reviews", "--nodes", "20", "--rounds", "1", "--count", "20"]
    # Its exit status says whether a review costs too much, which a busy machine decides.
    found = subprocess.run([*command, "--replicas", "40"], capture_output=True, text=True, check=False).stdout
    lines = [line.split("│") for line in found.splitlines() if "mutate:" in line or "validate:" in line]
    titles = {line[1].strip(): line[-2].strip() for line in lines}
    assert set(titles) == {
        "mutate: 500 workloads",
        "mutate: a Deployment of 40",
        "mutate: a Job of 256",
        "mutate: the cluster is full",
        "mutate: no two alike",
        "validate: admitted",
        "validate: refused",
    }
    assert set(titles.values()) == {"0"}, "no review failed"

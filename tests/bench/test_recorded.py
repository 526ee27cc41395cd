"""Replicas made from recorded reviews are what an API server would send; and the benchmark of reviews runs on them."""

import subprocess
import sys

import pytest

from bench import recorded
from tests.controlplane.programs import KUBERNETES
from webhook.kube.review import parse_review

HOOKS = ("mutate", "validate")


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


def test_the_benchmark_of_reviews_has_a_row_for_each_kind() -> None:
    # As on a machine with one core: the client sleeps while it waits.
    run = "import os; os.cpu_count = lambda: 1; import bench.reviews; bench.reviews.main()"
    command = [sys.executable, "-c", run, "--nodes", "20", "--rounds", "1", "--count", "20"]
    command += ["--replicas", "40", "--connections", "2"]
    # Its exit status says whether a review costs too much, which a busy machine decides.
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
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

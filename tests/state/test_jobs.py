"""How many pods of a Job, or of a JobSet, work together."""

from typing import Any

import pytest

from tests.state.objects import listed, named

SET = "team-a/jobset.sigs.k8s.io/jobset-uid=set"


def seen_job(name: str = "train", status: Any = None, labels: Any = None, **spec: Any) -> dict[str, Any]:
    found = named(name, spec=spec, status=status or {})
    return found | {"metadata": found["metadata"] | {"uid": f"uid-{name}", "labels": labels}}


def of_set(name: str, part: str, replicas: str | None, **spec: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/jobset-uid": "set", "jobset.sigs.k8s.io/replicatedjob-name": part}
    if replicas is not None:
        labels["jobset.sigs.k8s.io/replicatedjob-replicas"] = replicas
    return seen_job(name, labels=labels, **spec)


@pytest.mark.parametrize(
    ("spec", "pods"),
    [
        pytest.param({}, 1, id="one by default"),
        pytest.param({"parallelism": 4, "completions": 100}, 4, id="parallelism below completions"),
        pytest.param({"parallelism": 4, "completions": 2}, 2, id="no more than completions"),
        pytest.param({"parallelism": 0}, 0, id="none"),
        pytest.param({"parallelism": 2**31 - 1}, 100_000, id="more than there are nodes"),
    ],
)
def test_pods_of_a_job(spec: dict[str, Any], pods: int) -> None:
    of = listed("jobs", seen_job(**spec))
    assert of.jobs.pods("team-a/uid-train") == pods
    assert of.jobs.pods("team-b/uid-train") == 0, "a tenant may name a controller of another namespace as owner"


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_job_is_followed_until_it_is_finished_or_deleted(condition: str) -> None:
    of = listed("jobs", seen_job("a", parallelism=2), seen_job("b", parallelism=3))
    of.seen("jobs", seen_job("a", parallelism=6), 0)
    assert of.jobs.pods("team-a/uid-a") == 6
    of.seen("jobs", seen_job("a", parallelism=6, status={"conditions": [{"type": condition, "status": "True"}]}), 0)
    of.forget("jobs", "team-a/b")
    assert (of.jobs.pods("team-a/uid-a"), of.jobs.pods("team-a/uid-b"), [*of.jobs]) == (0, 0, [])


def test_a_job_without_a_uid_is_ignored() -> None:
    nameless = seen_job(parallelism=4)
    del nameless["metadata"]["uid"]
    of = listed("jobs", nameless)
    assert (of.jobs.pods(""), of.jobs.pods("team-a/None"), [*of.jobs]) == (0, 0, [])


def test_the_jobs_of_a_jobset_are_one_gang() -> None:
    """The first of four workers says how many there will be; a driver is the ninth pod."""
    of = listed("jobs", of_set("w-0", "workers", "4", parallelism=2), of_set("d-0", "driver", "1"))
    assert of.jobs.pods(SET) == 9
    of.seen("jobs", of_set("w-1", "workers", "4", parallelism=2), 0)
    of.forget("jobs", "team-a/w-0")
    assert of.jobs.pods(SET) == 9, "another worker is left"
    of.forget("jobs", "team-a/w-1")
    assert of.jobs.pods(SET) == 1


@pytest.mark.parametrize("replicas", [None, "", "x", "-1", "9" * 9])
def test_a_malformed_replicas_label_counts_as_one(replicas: str | None) -> None:
    assert listed("jobs", of_set("w-0", "workers", replicas, parallelism=2)).jobs.pods(SET) == 2

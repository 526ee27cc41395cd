"""JobSet: its webhook changes pods after ours, and its controller sees them with what we add."""

import pytest

from tests.controlplane.objects import Json, job, made
from tests.e2e.behaviour.case import RACK, ZONE, Case, runs, together
from tests.e2e.others import kit
from tests.e2e.others.kit import WAITED, as_chosen_or, each_in_one, racks
from tests.e2e.others.room import manager

pytestmark = pytest.mark.others
test_with_us_and_without, test_no_pod_is_made_again = kit.test_with_us_and_without, kit.test_no_pod_is_made_again
OTHERS = {"jobset": manager("config.jobset.x-k8s.io/v1alpha1")}
_JOB, _EXCLUSIVE = "jobset.sigs.k8s.io/job-key", "alpha.jobset.sigs.k8s.io/exclusive-topology"


def _jobset(jobs: int, pods: int, gpus: int = 8, exclusive: str = "") -> Json:
    template = {"spec": job("sliced", pods, gpus)["spec"] | {"backoffLimit": 0}}
    notes = {_EXCLUSIVE: exclusive} if exclusive else None
    slices = {"name": "slice", "replicas": jobs, "template": template}
    return made("JobSet", "sliced", annotations=notes, spec={"replicatedJobs": [slices]})


CASES = [
    Case(
        "each Job of an exclusive JobSet has a rack of its own, and its pods run where they were to",
        racks(3, 2),
        [_jobset(2, 2, exclusive=RACK)],
        [runs(count=4), each_in_one(_JOB, RACK, apart=True), as_chosen_or(*WAITED)],
        without=[runs(count=4), each_in_one(_JOB, RACK, apart=True)],
    ),
    Case(
        "an exclusive JobSet of small pods: those of a Job follow its first one",
        racks(2, 2),
        [_jobset(2, 4, 1, exclusive=RACK)],
        [runs(count=8), each_in_one(_JOB, RACK, apart=True)],
        without=[runs(count=8), each_in_one(_JOB, RACK, apart=True)],
    ),
    Case(
        "a JobSet that fits into one zone runs in one",
        racks(2, 4, ZONE),
        [_jobset(2, 2)],
        [runs(count=4), together(ZONE)],
    ),
    Case(
        "of a JobSet that is larger than a zone, each Job runs in one",
        racks(3, 2, ZONE),
        [_jobset(3, 2)],
        [runs(count=6), each_in_one(_JOB, ZONE)],
    ),
]

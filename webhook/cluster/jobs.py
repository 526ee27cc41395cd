"""How many pods of a Job, JobSet or other workload run together. The scheduler sees these pods one by one.

Jobs are watched. Workloads of other kinds (PyTorchJob, MPIJob, RayCluster) are known for some minutes after this replica
reviewed their creation, in which their operator creates their pods. Later pods follow those that exist.

Follows batch/v1: at most `parallelism` pods run at once, and never more than `completions`. The Jobs of a JobSet are one
gang: labels of each say how many replicas of it there are (jobset.x-k8s.io).
"""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from webhook.cluster.grouped import Grouped, full_name
from webhook.kube.asked import JOBSET
from webhook.kube.pod import namespace_of
from webhook.text import number_of

_REPLICATED, _COUNT = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/replicatedjob-replicas"
_MAX_PODS: Final = 100_000
_MAX_JOBS: Final = 1024
"""Maximum number of Jobs of one gang that are looked at."""
_MAX_ADMITTED: Final = 1024
"""Maximum number of workloads of other kinds that are kept. The namespace with most of them loses its oldest."""
ADMITTED_SECONDS: Final = 600.0
"""Time for which they are kept. A review does not say whether the workload is stored, and nothing tells when it is deleted."""
_MAX_CHARACTERS: Final = 253
"""Maximum length of a label value, which a tenant writes."""


class _Job(NamedTuple):
    part: str
    """The replicated job of a JobSet. Replicas of one have equal counts, so it is counted once."""
    pods: int


class Jobs(Grouped[str, str, _Job]):
    """The Jobs that are not finished by namespace and name, and by gang: the `pods.owner_key` of their pods."""

    def __init__(self) -> None:
        super().__init__()
        self._admitted: dict[str, tuple[int, float]] = {}
        """By `workload_key`, the pods of workloads of other kinds and the time of their reviews, oldest first."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A Job was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        gang, job = _read(obj["metadata"], obj["spec"])
        if gang and not _finished(obj.get("status") or {}):
            self.put(full_name(obj), gang, job)
        else:
            self.gone(full_name(obj))

    def admitted(self, workload: str, pods: int, now: float) -> None:
        """A workload of another kind is created with so many pods. `workload`: its `workload_key`."""
        self._admitted.pop(workload, None)
        self._admitted[workload] = min(pods, _MAX_PODS), now
        if len(self._admitted) > _MAX_ADMITTED:
            (most, _), *_ = Counter(map(_namespace, self._admitted)).most_common(1)
            del self._admitted[next(key for key in self._admitted if _namespace(key) == most)]

    def expire(self, now: float) -> None:
        """Forget the workloads of other kinds whose time is over."""
        while self._admitted:
            oldest = next(iter(self._admitted))
            if now < self._admitted[oldest][1] + ADMITTED_SECONDS:
                return
            del self._admitted[oldest]

    def pods(self, gang: str, workload: str = "") -> int:
        """How many pods a gang has at once; 0 if that is not known.

        `gang`: their `pods.owner_key`. `workload`: the `workload_key` of their owner, used if the gang is not known.
        """
        jobs = islice(self.groups.get(gang, {}).values(), _MAX_JOBS)
        return sum({job.part: job.pods for job in jobs}.values()) or self._admitted.get(workload, (0, 0.0))[0]


def _namespace(workload: str) -> str:
    return workload.partition("/")[0]


def workload_key(namespace: str, kind: str, name: str) -> str:
    """Identifies a workload that may not have a uid yet."""
    return f"{namespace}/{kind}/{name}"[: 3 * _MAX_CHARACTERS]


def _read(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, _Job]:
    """The gang of a Job, "" if it has no uid as in some files, and what is kept of it."""
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    pods = int(parallelism if completions is None else min(parallelism, completions))
    namespace, labels = namespace_of({"metadata": metadata}), metadata.get("labels") or {}
    if (uid := labels.get(JOBSET)) is None:
        own = metadata.get("uid")
        return f"{namespace}/{own}" if own else "", _Job("", max(0, min(pods, _MAX_PODS)))
    replicas = number_of(labels.get(_COUNT))
    part = labels.get(_REPLICATED, str(metadata["name"]))[:_MAX_CHARACTERS]
    of_all = min(pods * (1 if replicas is None else replicas), _MAX_PODS)
    return f"{namespace}/{JOBSET}={uid[:_MAX_CHARACTERS]}", _Job(part, of_all)


def _finished(status: Mapping[str, Any]) -> bool:
    return any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in status.get("conditions") or ()
    )

"""How many pods of a Job, JobSet or other workload run together. The scheduler sees these pods one by one.

Jobs are watched. Workloads of other kinds (PyTorchJob, MPIJob, RayCluster) are known for some minutes after this replica
reviewed their creation, in which their operator creates their pods. Later pods follow those that exist.

Follows batch/v1: at most `parallelism` pods run at once, and never more than `completions`. The Jobs of a JobSet are one
gang: labels of each say how many replicas of it there are (jobset.x-k8s.io).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.cluster.pods import JOBSET, namespace_of
from webhook.text import number_of

_REPLICATED, _COUNT = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/replicatedjob-replicas"
_MAX_PODS: Final = 100_000
_MAX_ADMITTED: Final = 1024
"""Maximum number of workloads of other kinds that are kept. The namespace with most of them loses its oldest."""
ADMITTED_SECONDS: Final = 600.0
"""Time for which they are kept. A review does not say whether the workload is stored, and nothing tells when it is deleted."""
_MAX_CHARACTERS: Final = 253
"""Maximum length of a label value, which a tenant writes."""


class _Job(NamedTuple):
    gang: str
    """The `pods.owner_key` of its pods."""
    part: str
    """The replicated job of a JobSet. Replicas of one have equal counts, so it is counted once."""
    pods: int


class Jobs:
    """The Jobs that are not finished, and how many pods each gang has."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._parts: dict[str, dict[str, int]] = {}
        self._admitted: dict[str, tuple[int, float]] = {}
        """By `workload_key`, the pods of workloads of other kinds and the time of their reviews, oldest first."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A Job was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        metadata, spec = obj["metadata"], obj["spec"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        job = None if _finished(obj.get("status") or {}) else _read(metadata, spec)
        if self._jobs.get(key) != job:
            self.gone(key)
            if job is not None:
                self._jobs[key] = job
                self._parts.setdefault(job.gang, {})[job.part] = job.pods

    def gone(self, name: str) -> None:
        """A Job was deleted. `name`: namespace and name, as `team-a/train`."""
        job = self._jobs.pop(name, None)
        if job is not None:
            parts = self._parts.get(job.gang, {})
            parts.pop(job.part, None)
            if not parts:
                self._parts.pop(job.gang, None)

    def __iter__(self) -> Iterator[str]:
        """Namespace and name of each Job."""
        return iter(self._jobs)

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
        return sum(self._parts.get(gang, {}).values()) or self._admitted.get(workload, (0, 0.0))[0]


def _namespace(workload: str) -> str:
    return workload.partition("/")[0]


def workload_key(namespace: str, kind: str, name: str) -> str:
    """Identifies a workload that may not have a uid yet."""
    return f"{namespace}/{kind}/{name}"[: 3 * _MAX_CHARACTERS]


def _read(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> _Job | None:
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    pods = int(parallelism if completions is None else min(parallelism, completions))
    namespace, labels = namespace_of({"metadata": metadata}), metadata.get("labels") or {}
    uid = labels.get(JOBSET)
    if uid is None:
        own = metadata.get("uid")  # manifests in files may have no uid
        return _Job(f"{namespace}/{own}", "", max(0, min(pods, _MAX_PODS))) if own else None
    replicas = number_of(labels.get(_COUNT))
    part = labels.get(_REPLICATED, str(metadata["name"]))[:_MAX_CHARACTERS]
    return _Job(
        f"{namespace}/{JOBSET}={uid[:_MAX_CHARACTERS]}",
        part,
        min(pods * (1 if replicas is None else replicas), _MAX_PODS),
    )


def _finished(status: Mapping[str, Any]) -> bool:
    return any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in status.get("conditions") or ()
    )

"""Jobs, as far as they tell how many pods work together: the scheduler is shown them one by one.

Jobs are watched. Workloads of other kinds (a PyTorchJob, an MPIJob, a RayCluster) are known where this replica reviewed their
creation.

Follows batch/v1: at most `parallelism` pods at once, and never more than `completions`. The Jobs of a JobSet are one gang: each
says in labels how many of its kind there are (jobset.x-k8s.io).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.cluster.pods import JOBSET, namespace_of

_REPLICATED, _COUNT = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/replicatedjob-replicas"
_MAX_PODS: Final = 100_000
_MAX_ADMITTED: Final = 1024
"""Workloads of other kinds that are kept."""
_MAX_CHARACTERS: Final = 253
"""Of what a tenant may have written in a label."""


class _Job(NamedTuple):
    gang: str
    """As `pods.owner_key` calls it."""
    part: str
    """Jobs of one part say the same."""
    pods: int


class Jobs:
    """By name with the namespace, those that are not finished; and by gang, how many pods it has."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}
        self._parts: dict[str, dict[str, int]] = {}
        self._admitted: dict[str, int] = {}

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A Job is new, or has changed. Raises where it is malformed: TypeError, LookupError, AttributeError."""
        metadata, spec = obj["metadata"], obj["spec"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        job = None if _finished(obj.get("status") or {}) else _read(metadata, spec)
        if self._jobs.get(key) != job:
            self.gone(key)
            if job is not None:
                self._jobs[key] = job
                self._parts.setdefault(job.gang, {})[job.part] = job.pods

    def gone(self, name: str) -> None:
        """`name`: with its namespace, `team-a/train`."""
        job = self._jobs.pop(name, None)
        if job is not None:
            parts = self._parts.get(job.gang, {})
            parts.pop(job.part, None)
            if not parts:
                self._parts.pop(job.gang, None)

    def __iter__(self) -> Iterator[str]:
        """Their names, with the namespace."""
        return iter(self._jobs)

    def admitted(self, workload: str, pods: int) -> None:
        """A workload of another kind is created, with so many pods. `workload`: as `workload_key` names it."""
        self._admitted.pop(workload, None)
        if len(self._admitted) >= _MAX_ADMITTED:
            del self._admitted[next(iter(self._admitted))]
        self._admitted[workload] = min(pods, _MAX_PODS)

    def pods(self, gang: str, workload: str = "") -> int:
        """How many pods a gang has at once, as `pods.owner_key` calls it, or else the workload that made them; 0 where that is
        not known."""
        return sum(self._parts.get(gang, {}).values()) or self._admitted.get(workload, 0)


def workload_key(namespace: str, kind: str, name: str) -> str:
    """What a workload is known by before it has a uid."""
    return f"{namespace}/{kind}/{name}"[: 3 * _MAX_CHARACTERS]


def _read(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> _Job | None:
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    pods = int(parallelism if completions is None else min(parallelism, completions))
    labels = metadata.get("labels") or {}
    uid = labels.get(JOBSET)
    if uid is None:
        own = metadata.get("uid")  # a file may leave it out
        return _Job(str(own), "", max(0, min(pods, _MAX_PODS))) if own else None
    count = labels.get(_COUNT, "")
    replicas = int(count) if count.isdecimal() and len(count) < 6 else 1
    part = labels.get(_REPLICATED, str(metadata["name"]))[:_MAX_CHARACTERS]
    return _Job(
        f"{namespace_of({'metadata': metadata})}/{JOBSET}={uid[:_MAX_CHARACTERS]}",
        part,
        min(pods * replicas, _MAX_PODS),
    )


def _finished(status: Mapping[str, Any]) -> bool:
    return any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in status.get("conditions") or ()
    )

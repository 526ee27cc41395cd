"""How many pods of a Job or JobSet run together. The scheduler sees these pods one by one.

Jobs are watched, so that each replica of the webhook knows the same.

Follows batch/v1: at most `parallelism` pods run at once, and never more than `completions`. The Jobs of a JobSet are one
gang: labels of each say how many replicas of it there are (jobset.x-k8s.io).
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from webhook.kube.asked import JOBSET
from webhook.kube.pod import Owner, namespace_of
from webhook.kube.stores import Grouped, full_name
from webhook.kube.suspended import finished
from webhook.text import number_of

_REPLICATED, _COUNT = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/replicatedjob-replicas"
_MAX_PODS: Final = 100_000
_MAX_JOBS: Final = 1024
"""Maximum number of Jobs of one gang that are looked at."""
_MAX_CHARACTERS: Final = 253
"""Maximum length of a label value, which a tenant writes."""


class _Job(NamedTuple):
    replicated: str
    """The replicated job of a JobSet. Replicas of one have equal counts, so it is counted once."""
    of_all: int
    """The number of pods of all its replicas."""
    pods: int
    key: str
    """The `Identity.part` of its pods (kube.asked)."""


class Jobs(Grouped[str, str, _Job]):
    """The Jobs that are not finished by namespace and name, and by gang: the `Identity.owner` of their pods."""

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A Job was added or changed. Raises TypeError, LookupError or AttributeError if it is malformed."""
        gang, job = _read(obj["metadata"], obj["spec"])
        if gang and not finished(obj):
            self.put(full_name(obj), gang, job)
        else:
            self.gone(full_name(obj))

    def knows(self, namespace: str, owner: Owner) -> bool:
        """Whether this Job was seen, and not only another of its name."""
        job = self.get(f"{namespace}/{owner.name}")
        return job is not None and job.key == f"{namespace}/{owner.uid}"

    def pods(self, gang: str) -> int:
        """How many pods a gang has at once; 0 if that is not known. `gang`: their `Identity.owner`."""
        jobs = islice(self.groups.get(gang, {}).values(), _MAX_JOBS)
        return sum({job.replicated: job.of_all for job in jobs}.values())

    def parts(self, gang: str, key: str) -> dict[str, int]:
        """How many pods each Job of a JobSet has at once, by their `Identity.part`: the Job of `key`, and the others of the same
        replicated job. {} if that Job is not known."""
        jobs = [*islice(self.groups.get(gang, {}).values(), _MAX_JOBS)]
        replicated = next((job.replicated for job in jobs if job.key == key), None)
        return {job.key: job.pods for job in jobs if job.replicated == replicated}


def _read(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> tuple[str, _Job]:
    """The gang of a Job, "" if it has no uid as in some files, and what is kept of it."""
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    pods = int(parallelism if completions is None else min(parallelism, completions))
    namespace, labels = namespace_of({"metadata": metadata}), metadata.get("labels") or {}
    pods, own = max(0, min(pods, _MAX_PODS)), metadata.get("uid")
    key = f"{namespace}/{own}" if own else ""
    if (uid := labels.get(JOBSET)) is None:
        return key, _Job("", pods, pods, key)
    replicas = number_of(labels.get(_COUNT))
    replicated = labels.get(_REPLICATED, str(metadata["name"]))[:_MAX_CHARACTERS]
    of_all = min(pods * (1 if replicas is None else replicas), _MAX_PODS)
    return f"{namespace}/{JOBSET}={uid[:_MAX_CHARACTERS]}", _Job(replicated, of_all, pods, key)

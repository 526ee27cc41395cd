"""How many pods are made from a pod template: the product of all counts on the path from the workload to the template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube.json_patch import Path

_COUNTS: Final = ("numNodes", "numOfHosts")
"""Keys that count pods or groups of pods, besides `replicas`. All that a map has are multiplied."""
_SIZE: Final = "size"
"""Key of a LeaderWorkerSet: the number of pods in a group, including the leader."""
_LEADER: Final = "leaderTemplate"
"""Key of a LeaderWorkerSet whose leader has a template of its own."""


def pods_of(obj: Mapping[str, Any], path: Path) -> int | None:
    """The number of pods made from the template at `path`. For a Job: as many as run at once.

    None for a DaemonSet, which has one pod on each node and no field for the number.
    """
    if obj.get("kind") == "DaemonSet":
        return None
    count = 1
    here: Any = obj
    for step in path:
        if isinstance(here, Mapping):
            count *= _count(here, step)
            here = here.get(str(step)) or {}
        else:
            here = here[step]
    return count * _count(here, "")


def _count(here: Mapping[str, Any], step: Any) -> int:
    """The product of the counts in one map. `step`: the next step of the path."""
    count = _number(here.get("replicas", here.get("minReplicas")), 1)
    for key in _COUNTS:
        count *= _number(here.get(key), 1)
    if "completions" in here or "parallelism" in here:
        count *= min(_number(here.get("parallelism"), 1), _number(here.get("completions"), 1 << 30))
    if step == "workerTemplate":
        return count * max(0, _number(here.get(_SIZE), 1) - (_LEADER in here))
    return count


def _number(value: Any, default: int) -> int:
    """`value` if it is a whole number of 0 or more, else `default`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default

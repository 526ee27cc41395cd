"""How many pods a template makes: the product of the counts in the maps on the path to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube.json_patch import Path

_COUNTS: Final = ("numNodes", "numOfHosts")
"""Besides `replicas`, of groups of workers; whichever stand in a map multiply."""
_SIZE: Final = "size"
"""Of a LeaderWorkerSet: the pods of one group, its leader among them."""
_LEADER: Final = "leaderTemplate"


def pods_of(obj: Mapping[str, Any], path: Path) -> int | None:
    """The pods of the template that stands at `path`; None for one on each node (a DaemonSet), which no field counts.

    A Job counts as many as run at once.
    """
    if obj.get("kind") == "DaemonSet":
        return None
    count = 1
    here: Any = obj
    for part in path:
        if isinstance(here, Mapping):
            count *= _said(here, part)
            here = here.get(str(part)) or {}
        else:
            here = here[part]
    return count * _said(here, "")


def _said(here: Mapping[str, Any], step: Any) -> int:
    """What one map says. `step`: the next one of the path."""
    count = _whole(here.get("replicas", here.get("minReplicas")), 1)
    for key in _COUNTS:
        count *= _whole(here.get(key), 1)
    if "completions" in here or "parallelism" in here:
        count *= min(_whole(here.get("parallelism"), 1), _whole(here.get("completions"), 1 << 30))
    if step == "workerTemplate":
        return count * max(0, _whole(here.get(_SIZE), 1) - (_LEADER in here))
    return count


def _whole(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise

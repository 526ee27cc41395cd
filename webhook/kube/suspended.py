"""Workloads that make no pods because a field of theirs says so: where it is, by kind.

Kueue holds back all of these but a CronJob by that field (kueue pkg/controller/jobs), and their authors may write it too.
"""

from collections.abc import Mapping
from typing import Any, Final

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("Job", "JobSet", "TrainJob", "RayJob", "RayCluster"), ("spec", "suspend")),
    **dict.fromkeys(("SparkApplication", "AppWrapper", "CronJob"), ("spec", "suspend")),
    "RayService": ("spec", "rayClusterConfig", "suspend"),
    **dict.fromkeys(
        ("PyTorchJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob", "MPIJob"), ("spec", "runPolicy", "suspend")
    ),
}
"""The way to the field in an object of the kind."""
_FINISHED: Final = ("Complete", "Completed", "Succeeded", "Failed")


def suspended(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """The way to the field that keeps an object from making pods; () if none does, or it has finished."""
    way = FIELDS.get(str(obj.get("kind")), ())
    value: Any = obj
    for key in way:
        value = value.get(key) if isinstance(value, Mapping) else None
    return way if value is True and not finished(obj) else ()


def suspended_groups(obj: Mapping[str, Any]) -> list[int]:
    """The numbers of the worker groups of a RayCluster that are suspended (ray-operator WorkerGroupSpec.Suspend)."""
    groups = (obj.get("spec") or {}).get("workerGroupSpecs") or () if obj.get("kind") == "RayCluster" else ()
    return [at for at, group in enumerate(groups) if isinstance(group, Mapping) and group.get("suspend") is True]


def finished(obj: Mapping[str, Any]) -> bool:
    """Whether a workload has finished: by a condition, the `jobDeploymentStatus` of a RayJob, or the phase of an AppWrapper."""
    status = obj.get("status") or {}
    words = [each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"]
    return any(word in _FINISHED for word in (*words, status.get("jobDeploymentStatus"), status.get("phase")))

"""Which resources are GPUs, and what kind of workload a pod is: the parts of a policy that all profiles share."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from webhook.framework.cluster_view import Workload
from webhook.framework.interface import Settings
from webhook.kube.gpus import GpuKind
from webhook.kube.pod import Owner, Pod, labels_of
from webhook.text import matches_any, one_edit_apart, quoted

_EVERYWHERE = ("*",)
_MAX_VALUE = 63
"""Of a label, as the API server takes it."""


class GpuResource(Settings):
    """A resource name that counts as a GPU."""

    name: str = Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+\*?$")
    """of an extended resource, a name pattern. `nvidia.com/*` would be wrong: nvidia.com/gpumem is no GPU."""
    kind: GpuKind = "whole"
    """whole | slice (a part in hardware, MIG) | share (time-slicing, MPS)"""


class ClassRule(Settings):
    """A pod that has one of the labels and one of the owner kinds (where given) is of this class."""

    name: str = Field(alias="class")
    labels: dict[str, tuple[str, ...]] = {}
    """the pod has one of these labels with one of these values; left out: any pod"""
    owner_kinds: tuple[str, ...] = ()
    """and the object that made the pod is of one of these kinds; left out: any, or none"""
    namespaces: tuple[str, ...] = _EVERYWHERE
    """and its namespace is entitled to the class (name patterns; [] is none). A label is written by the pod's author: where
    classes differ in priority, list the namespaces. A pod that is not entitled goes on to the next entry, and its author
    gets a warning. The rule priorityClass keeps the PriorityClass of the class for these namespaces too."""


GPUS = (
    GpuResource(name="nvidia.com/gpu"),
    GpuResource(name="nvidia.com/gpu.shared", kind="share"),
    GpuResource(name="nvidia.com/mig-*", kind="slice"),
    GpuResource(name="amd.com/gpu"),
    GpuResource(name="gpu.intel.com/i915"),
    GpuResource(name="gpu.intel.com/xe"),
    GpuResource(name="habana.ai/gaudi"),
)
CLASSES = (
    ClassRule(name="inference-critical", labels={"workload-type": ("inference-critical",)}, namespaces=()),
    ClassRule(name="inference", labels={"workload-type": ("inference", "serving")}),
    ClassRule(name="training", labels={"workload-type": ("training", "batch")}),
    ClassRule(name="development", labels={"workload-type": ("development", "notebook")}),
    ClassRule(
        name="training",
        owner_kinds=(
            *("Job", "JobSet", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "JAXJob", "PaddleJob", "TrainJob"),
            *("RayJob", "RayCluster", "AppWrapper", "Workflow"),
        ),
    ),
    ClassRule(
        name="service",
        owner_kinds=(
            "ReplicaSet",
            "StatefulSet",
            "ReplicationController",
            "LeaderWorkerSet",
            "RayService",
            "PodClique",
        ),
    ),
    ClassRule(name="development"),
)


def classify(rules: tuple[ClassRule, ...], pod: Pod, owner: Owner | None, namespace: str) -> Workload:
    """The class of a pod: the first rule that matches and whose namespaces include this one."""
    labels = labels_of(pod)
    kind = owner.kind if owner is not None else None
    warning = None
    for rule in rules:
        if rule.labels and (
            labels.keys().isdisjoint(rule.labels)  # as those of most pods
            or not any([labels.get(key) in values for key, values in rule.labels.items()])
        ):
            continue
        if rule.owner_kinds and kind not in rule.owner_kinds:
            continue
        if rule.namespaces == _EVERYWHERE or matches_any(rule.namespaces, namespace):
            return Workload(rule.name, warning if rule.labels else warning or _misspelt(rules, labels))
        if rule.labels and warning is None:  # the pod asked for it by name
            warning = f"namespace {quoted(namespace)} is not entitled to class {rule.name}"
    return Workload("none", warning or _misspelt(rules, labels))


def _misspelt(rules: tuple[ClassRule, ...], labels: Mapping[str, str]) -> str | None:
    """What to say of a label that would give another class but for a letter, its case or a sign."""
    warning = None
    for rule in rules:
        for key in labels.keys() & rule.labels.keys():
            value = labels[key]
            if value in rule.labels[key]:
                return None  # an entry before that one was for this pod
            near = [known for known in rule.labels[key] if _alike(value.casefold().replace("_", "-"), known)]
            if near and warning is None:
                warning = f"label {key}={quoted(value)} gives no class; nearest: {near[0]}"
    return warning


def _alike(value: str, known: str) -> bool:
    return value == known or (len(value) <= _MAX_VALUE and one_edit_apart(value, known))


Entitled = dict[str, tuple[str, ...]]
"""PriorityClass to the namespaces that are entitled to a class of workload which gets it."""


def entitled(rules: tuple[ClassRule, ...], profiles: Mapping[str, Mapping[str, str]]) -> dict[str, Entitled]:
    """By profile. A PriorityClass that a profile itself does not give is kept for whom it is given in others: else a namespace
    with a profile of its own could name it. `profiles`: of each, class of workload to PriorityClass."""
    by_profile: dict[str, Entitled] = {profile: {} for profile in profiles}
    every: Entitled = {}
    for rule in rules:
        for profile, priorities in profiles.items():
            if priority := priorities.get(rule.name):
                for entitlements in (by_profile[profile], every):
                    entitlements[priority] = (*entitlements.get(priority, ()), *rule.namespaces)
    return {profile: {**every, **entitlements} for profile, entitlements in by_profile.items()}

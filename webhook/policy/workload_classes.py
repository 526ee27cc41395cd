"""The settings that all profiles share: which resources are GPUs, and how the class of workload of a pod is found."""

import re
from collections.abc import Container, Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from webhook.framework.cluster_view import Workload
from webhook.framework.entitlement import CLASS_LABELS, covers
from webhook.framework.interface import LABEL_VALUE, LabelKey, Settings
from webhook.kube.gpus import GPU_KINDS, GpuKind
from webhook.kube.pod import Owner, Pod, labels_of
from webhook.kube.workload_kinds import kinds_of_class, workload_kind
from webhook.text import one_edit_apart, quoted
from webhook.vendors.catalogue import every
from webhook.vendors.model import Resource

_EVERYWHERE = ("*",)
_CRITICAL = f"{CLASS_LABELS}inference-critical"
_MAX_VALUE = 63
"""Characters in a label value that the API server accepts."""
ANY: Final = "*"
"""Among the values of a label: the label is there, with whatever value. Among kinds: any kind."""


def _value(value: str) -> str:
    if value != ANY and not (len(value) <= _MAX_VALUE and re.fullmatch(LABEL_VALUE, value)):
        raise ValueError(f'wanted a label value of at most {_MAX_VALUE} characters, or "*" for any')
    return value


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise ValueError('wanted at least one value, or ["*"] for a label with any value')
    return values


Values = Annotated[tuple[Annotated[str, AfterValidator(_value)], ...], AfterValidator(_some)]


class GpuResource(Settings):
    """A resource name that counts as a GPU."""

    name: str = Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+\*?$")
    """name pattern of an extended resource. `nvidia.com/*` would be wrong: nvidia.com/gpumem is no GPU."""
    kind: GpuKind = "whole"
    """whole | slice (a hardware partition, MIG) | share (time-slicing, MPS)"""


class ClassRule(Settings):
    """An entry of `classes`: it gives this class to pods that match its labels and owner kinds."""

    name: str = Field(alias="class")
    labels: dict[LabelKey, Values] = {}
    """the pod has one of these labels with one of these values, ["*"] is any value; left out: any pod"""
    owner_kinds: tuple[str, ...] = ()
    """and the pod belongs to a workload of one of these kinds; left out: any kind, or none; ["*"]: any kind. It is the kind of
    the pod's controller. A label tells the pods of a Notebook or LeaderWorkerSet from those of another StatefulSet, the pods of a
    JobSet from those of another Job, and the pods of a RayService from those of another RayCluster. The pods of a DaemonSet
    are a service: they run until they are removed, and one that is preempted can go to no other node."""
    restart_policies: tuple[Literal["Always", "OnFailure", "Never"], ...] = ()
    """and it has one of these restart policies; left out: any. Pods that finish never have Always."""
    namespaces: tuple[str, ...] = _EVERYWHERE
    """and its namespace is entitled to the class: name patterns, or the keys of labels that it has; []: no namespace. The
    pod's author writes the pod's label, so limit the namespaces if classes differ in priority. For a pod that is not
    entitled the next entries are tried, and its author gets a warning. The rule priorityClass reserves the PriorityClass of
    the class for the same namespaces. Only who may assign classes can set labels class.gpu-admission.io/…. The API server
    itself demands that label for gpu-inference-critical, whatever this list says (70-guards.yaml)."""


GPUS = tuple(
    [GpuResource(name=each.name, kind=kind) for each in every(Resource) for kind in GPU_KINDS if kind == each.one]
)
CLASSES = (
    ClassRule(name="inference-critical", labels={"workload-type": ("inference-critical",)}, namespaces=(_CRITICAL,)),
    ClassRule(name="inference", labels={"workload-type": ("inference", "serving")}),
    ClassRule(name="training", labels={"workload-type": ("training", "batch")}),
    ClassRule(name="development", labels={"workload-type": ("development", "notebook")}),
    *[ClassRule(name=name, owner_kinds=kinds_of_class(name)) for name in ("training", "service", "development")],
    ClassRule(name="training", owner_kinds=(ANY,), restart_policies=("OnFailure", "Never")),
    ClassRule(name="service", owner_kinds=(ANY,)),
    ClassRule(name="development"),
)


def classify(
    rules: tuple[ClassRule, ...], pod: Pod, owner: Owner | None, namespace: str, namespace_labels: Container[str]
) -> Workload:
    """The class of workload of a pod: that of the first rule that matches and is for this namespace."""
    labels = labels_of(pod)
    kind = workload_kind(labels, owner.kind if owner is not None else "")
    warning, labelled = None, False
    for rule in rules:
        if rule.labels:
            if labels.keys().isdisjoint(rule.labels):  # true for most pods, and fast
                continue
            labelled = True
            if not any([_has(labels, key, values) for key, values in rule.labels.items()]):
                continue
        if rule.owner_kinds and kind not in rule.owner_kinds and not (kind and ANY in rule.owner_kinds):
            continue
        if rule.restart_policies and (pod["spec"].get("restartPolicy") or "Always") not in rule.restart_policies:
            continue
        if rule.namespaces == _EVERYWHERE or covers(rule.namespaces, namespace, namespace_labels):
            asked = bool(rule.labels) or not labelled
            guessed = not rule.labels and "*" in rule.namespaces
            return Workload(rule.name, warning if asked else warning or _misspelt(rules, labels), guessed)
        if rule.labels and warning is None:  # the pod asked for this class by a label
            warning = f"namespace {quoted(namespace)} is not entitled to class {rule.name}"
    return Workload("none", warning or _misspelt(rules, labels), guessed=True)


def _has(labels: Mapping[str, str], key: str, values: tuple[str, ...]) -> bool:
    return key in labels and (labels[key] in values or ANY in values)


def _misspelt(rules: tuple[ClassRule, ...], labels: Mapping[str, str]) -> str | None:
    """The warning about a label whose value gives no class, but differs from one that does by a slip; None if there is none."""
    warning = None
    for rule in rules:
        for key in () if labels.keys().isdisjoint(rule.labels) else labels.keys() & rule.labels.keys():
            value = labels[key]
            if _has(labels, key, rule.labels[key]):
                return None  # the value is known, but an earlier entry has given the class
            near = [known for known in rule.labels[key] if _alike(value.casefold().replace("_", "-"), known)]
            if near and warning is None:
                warning = f"label {key}={quoted(value)} gives no class; nearest: {near[0]}"
    return warning


def _alike(value: str, known: str) -> bool:
    return value == known or (len(value) <= _MAX_VALUE and one_edit_apart(value, known))


Entitled = dict[str, tuple[str, ...]]
"""For each PriorityClass the namespaces that are entitled to a class of workload with this PriorityClass (see `entitlement`)."""


def entitled(rules: tuple[ClassRule, ...], profiles: Mapping[str, Mapping[str, str]]) -> dict[str, Entitled]:
    """The entitlements by profile. `profiles`: for each profile, class of workload to PriorityClass.

    A PriorityClass that a profile does not give itself has the entitlements of the other profiles. Otherwise every namespace
    with that profile could use it.
    """
    by_profile: dict[str, Entitled] = {profile: {} for profile in profiles}
    every: Entitled = {}
    for rule in rules:
        for profile, priorities in profiles.items():
            if priority := priorities.get(rule.name):
                for entitlements in (by_profile[profile], every):
                    entitlements[priority] = (*entitlements.get(priority, ()), *rule.namespaces)
    return {profile: {**every, **entitlements} for profile, entitlements in by_profile.items()}

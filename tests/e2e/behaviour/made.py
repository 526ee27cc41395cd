"""What several tables are made of."""

from collections.abc import Sequence
from typing import Any

from tests.controlplane import objects
from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, made, pod
from tests.e2e.behaviour.case import HOST, Case, Check, Json, on

EVERYTHING = [{"operator": "Exists"}]
"""Tolerations."""


def taken(node: str, gpus: int, name: str = "", **spec: Any) -> Json:
    """A pod that runs on a node and takes GPUs of it. Nobody preempts it."""
    spec = {"priorityClassName": "system-node-critical"} | spec
    return pod(name or f"on-{node}-{gpus}", gpus, nodeName=f"@{node}", **spec)


TWO = (node("a"), node("b"))


def goes_to(
    where: str,
    said: str,
    nodes: Sequence[Json] = TWO,
    gpus: int = 1,
    *,
    there: Sequence[Json] = (),
    also: Sequence[Check] = (),
    **spec: Any,
) -> Case:
    """A pod by itself goes to one of these nodes."""
    return Case(said, nodes, [pod("one", gpus, **spec)], [on(where), *also], there=there)


def goes_to_b(said: str, nodes: Sequence[Json] = TWO, *, there: Sequence[Json] = (), **more: Any) -> Case:
    """A pod goes to `b`, though packing prefers `a`, which is fuller."""
    return goes_to("b", said, nodes, there=[taken("a", 7), *there], **more)


def affinity(app: str, key: str = HOST, *, anti: bool = False, weight: int = 0) -> Json:
    """To pods of an app, required or (`weight`) preferred: the `affinity` of a pod."""
    term: Json = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    kind = "podAntiAffinity" if anti else "podAffinity"
    if weight:
        weighed = {"weight": weight, "podAffinityTerm": term}
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighed]}}
    return {kind: {REQUIRED: [term]}}


def spread(app: str, key: str = HOST, *, hard: bool = True, skew: int = 1, **more: Any) -> list[Json]:
    """The topologySpreadConstraints of a pod."""
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": app}},
            **more,
        }
    ]


def port(number: int) -> Json:
    """The fields of a container that takes a port of its node."""
    return {"ports": [{"containerPort": number, "hostPort": number}]}


NOBODY = "kubernetes.io/no-provisioner"
LATE = made("StorageClass", "@late", provisioner=NOBODY, volumeBindingMode="WaitForFirstConsumer")
"""Volumes of this class are bound once the pod has a node."""


def volume(name: str, at: str = "", key: str = HOST, *, late: bool = False) -> Json:
    """A PersistentVolume that only nodes with this label value can use."""
    return objects.volume(f"@{name}", at, key, storageClassName="@late" if late else "")


def claim(name: str, of: str = "", *, late: bool = False) -> Json:
    """`of`: of this volume."""
    return objects.volume_claim(name, of and f"@{of}", storageClassName="@late" if late else "")


def using(*claims: str) -> list[Json]:
    """The volumes of a pod."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]

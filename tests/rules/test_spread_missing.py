"""Replicas that may all run on one node.

Covers framework.replicas.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.builders import TWO_NODES, Case, case, container
from tests.controlplane.objects import pod
from webhook.framework.cluster_view import Autoscaler
from webhook.framework.interface import Template
from webhook.rules.spread_missing import SpreadMissing

RULE = SpreadMissing()
SPREAD: dict[str, Any] = {"topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname"}]}
HASH = {"pod-template-hash": "5d9c"}
CHAT = "Deployment/chat"


def scaled(*targets: str, up_to: int = 40, namespace: str = "team-a") -> dict[tuple[str, str, str], Autoscaler]:
    """What scales workloads, each by its kind and name."""
    named = [target.split("/") for target in targets]
    return {(namespace, kind, name): Autoscaler("chat-hpa", up_to) for kind, name in named}


def template(
    replicas: int | None = 4,
    owned_by: str = "ReplicaSet",
    gpu: int | None = 1,
    rule: SpreadMissing | None = None,
    of: str = "Deployment",
    autoscalers: Mapping[tuple[str, str, str], Autoscaler] | None = None,
    **spec: Any,
) -> Case:
    made = pod(containers=[container(gpu=gpu)], name="chat", owned_by=owned_by, **spec)
    cluster = replace(TWO_NODES, autoscalers=autoscalers or {})
    return case(made, template=Template(replicas, of), cluster=cluster, rule=rule)


def replica(
    owned_by: str | None = "ReplicaSet",
    of: str = "chat-5d9c",
    labels: Mapping[str, str] = HASH,
    by: str = CHAT,
    **spec: Any,
) -> Case:
    """A pod of a workload, where an autoscaler scales the workload `by`."""
    return case(
        pod(name=of, owned_by=owned_by, labels=labels, **spec), cluster=replace(TWO_NODES, autoscalers=scaled(by))
    )


ALLOWED: dict[str, Case] = {
    "one replica": template(1),
    "an unknown number": template(None),
    "spread over nodes": template(**SPREAD),
    "kept apart": template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
    "a Job, whose pods talk to each other": template(owned_by="Job", of=""),
    "without a GPU": template(gpu=None),
    "fewer than the policy calls many": template(rule=SpreadMissing(replicas=5)),
    "scaled, and spread over nodes": template(1, autoscalers=scaled(CHAT), **SPREAD),
    "scaled to fewer than the policy calls many": template(
        1, autoscalers=scaled(CHAT, up_to=4), rule=SpreadMissing(replicas=5)
    ),
    "a workload of this name in another namespace is scaled": template(1, autoscalers=scaled(CHAT, namespace="team-b")),
    "workloads of this name and other kinds, and of other names, are scaled": template(
        1, autoscalers=scaled("StatefulSet/chat", "ReplicaSet/chat", "Deployment/search")
    ),
    "a Job of that name": template(1, owned_by="Job", of="", autoscalers=scaled(CHAT)),
    "a pod of a workload that nothing scales": replica(by="Deployment/search"),
    "a pod of a workload that is scaled, spread over nodes": replica(**SPREAD),
    "a pod on its own, with that label": replica(owned_by=None),
    "a pod of a ReplicaSet of that name that no Deployment made": replica(of="chat", labels={}),
    "a pod of a ReplicaSet of that name, with a hash of its own making": replica(of="chat"),
    "a pod of a ReplicaSet with an empty hash": replica(of="chat-", labels={"pod-template-hash": ""}),
}


def message(seen: str) -> list[str]:
    return [
        f"spec.topologySpreadConstraints: saw {seen} without topology spread or pod anti-affinity, wanted replicas on several "
        "nodes: one node that fails would take all of them. Add a topologySpreadConstraint over kubernetes.io/hostname with "
        "the labels of the pods, and ScheduleAnyway."
    ]


SCALED = message('up to 40 replicas by HorizontalPodAutoscaler "chat-hpa"')
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "exactly as many as the setting": (template(2), message("2 replicas")),
    "four replicas of a StatefulSet": (template(owned_by="StatefulSet", of="StatefulSet"), message("4 replicas")),
    "one, where the setting is 1": (template(None, rule=SpreadMissing(replicas=1)), message("1 replica")),
    "a Deployment that does not state its replicas": (template(None, autoscalers=scaled(CHAT)), SCALED),
    "a Deployment that states fewer": (template(4, autoscalers=scaled(CHAT)), SCALED),
    "a Deployment that states as many": (template(40, autoscalers=scaled(CHAT)), message("40 replicas")),
    "a StatefulSet that may be scaled to many": (
        template(1, "StatefulSet", of="StatefulSet", autoscalers=scaled("StatefulSet/chat")),
        SCALED,
    ),
    "a ReplicaSet that may be scaled to many": (
        template(1, of="ReplicaSet", autoscalers=scaled("ReplicaSet/chat")),
        SCALED,
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "a pod of a scaled Deployment": (replica(), SCALED),
    "one with a hyphen and a hash in its name": (replica(of="chat-5d9c-5d9c", by="Deployment/chat-5d9c"), SCALED),
    "of a StatefulSet": (replica("StatefulSet", "chat", {}, "StatefulSet/chat"), SCALED),
    "of a ReplicaSet": (replica("ReplicaSet", "chat", {}, "ReplicaSet/chat"), SCALED),
}

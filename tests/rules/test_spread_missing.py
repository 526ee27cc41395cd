"""Replicas that may all run on one node.

Covers framework.replicas.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

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


ALLOWED = [
    pytest.param(template(1), id="one replica"),
    pytest.param(template(None), id="an unknown number"),
    pytest.param(template(**SPREAD), id="spread over nodes"),
    pytest.param(
        template(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}),
        id="kept apart",
    ),
    pytest.param(template(owned_by="Job", of=""), id="a Job, whose pods talk to each other"),
    pytest.param(template(gpu=None), id="without a GPU"),
    pytest.param(template(rule=SpreadMissing(replicas=5)), id="fewer than the policy calls many"),
    pytest.param(template(1, autoscalers=scaled(CHAT), **SPREAD), id="scaled, and spread over nodes"),
    pytest.param(
        template(1, autoscalers=scaled(CHAT, up_to=4), rule=SpreadMissing(replicas=5)),
        id="scaled to fewer than the policy calls many",
    ),
    pytest.param(
        template(1, autoscalers=scaled(CHAT, namespace="team-b")),
        id="a workload of this name in another namespace is scaled",
    ),
    pytest.param(
        template(1, autoscalers=scaled("StatefulSet/chat", "ReplicaSet/chat", "Deployment/search")),
        id="workloads of this name and other kinds, and of other names, are scaled",
    ),
    pytest.param(template(1, owned_by="Job", of="", autoscalers=scaled(CHAT)), id="a Job of that name"),
    pytest.param(replica(by="Deployment/search"), id="a pod of a workload that nothing scales"),
    pytest.param(replica(**SPREAD), id="a pod of a workload that is scaled, spread over nodes"),
    pytest.param(replica(owned_by=None), id="a pod on its own, with that label"),
    pytest.param(replica(of="chat", labels={}), id="a pod of a ReplicaSet of that name that no Deployment made"),
    pytest.param(replica(of="chat"), id="a pod of a ReplicaSet of that name, with a hash of its own making"),
    pytest.param(replica(of="chat-", labels={"pod-template-hash": ""}), id="a pod of a ReplicaSet with an empty hash"),
]


def message(seen: str) -> list[str]:
    return [
        f"spec.topologySpreadConstraints: saw {seen} without topology spread or pod anti-affinity, wanted replicas on several "
        "nodes: one node that fails would take all of them. Add a topologySpreadConstraint over kubernetes.io/hostname with "
        "the labels of the pods, and ScheduleAnyway."
    ]


SCALED = message('up to 40 replicas by HorizontalPodAutoscaler "chat-hpa"')
REFUSED = [
    pytest.param(template(2), message("2 replicas"), id="exactly as many as the setting"),
    pytest.param(
        template(owned_by="StatefulSet", of="StatefulSet"), message("4 replicas"), id="four replicas of a StatefulSet"
    ),
    pytest.param(
        template(None, rule=SpreadMissing(replicas=1)), message("1 replica"), id="one, where the setting is 1"
    ),
    pytest.param(template(None, autoscalers=scaled(CHAT)), SCALED, id="a Deployment that does not state its replicas"),
    pytest.param(template(4, autoscalers=scaled(CHAT)), SCALED, id="a Deployment that states fewer"),
    pytest.param(template(40, autoscalers=scaled(CHAT)), message("40 replicas"), id="a Deployment that states as many"),
    pytest.param(
        template(1, "StatefulSet", of="StatefulSet", autoscalers=scaled("StatefulSet/chat")),
        SCALED,
        id="a StatefulSet that may be scaled to many",
    ),
    pytest.param(
        template(1, of="ReplicaSet", autoscalers=scaled("ReplicaSet/chat")),
        SCALED,
        id="a ReplicaSet that may be scaled to many",
    ),
]
WARNED = [
    pytest.param(replica(), SCALED, id="a pod of a scaled Deployment"),
    pytest.param(
        replica(of="chat-5d9c-5d9c", by="Deployment/chat-5d9c"), SCALED, id="one with a hyphen and a hash in its name"
    ),
    pytest.param(replica("StatefulSet", "chat", {}, "StatefulSet/chat"), SCALED, id="of a StatefulSet"),
    pytest.param(replica("ReplicaSet", "chat", {}, "ReplicaSet/chat"), SCALED, id="of a ReplicaSet"),
]

"""Replicas that share a volume which one node or one pod can use."""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import TWO_NODES, Case, case, container
from tests.controlplane.objects import pod
from webhook.framework.cluster_view import Autoscaler
from webhook.framework.interface import Template
from webhook.rules.volume_access import VolumeAccess

RULE = VolumeAccess()
KNOWN = {("team-a", "weights"): "ReadWriteOnce", ("team-a", "lock"): "ReadWriteOncePod"}


def claims(name: str) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def template(
    replicas: int | None = 2,
    *volumes: dict[str, Any],
    owned_by: str = "ReplicaSet",
    gpu: int | None = 1,
    up_to: int = 0,
    **more: Any,
) -> Case:
    """The template of a workload in team-a, where the claims `weights` and `lock` are known."""
    made = pod(
        containers=[container(gpu=gpu)], name="chat", owned_by=owned_by, volumes=list(volumes or (claims("weights"),))
    )
    scaled = {("team-a", "Deployment", "chat"): Autoscaler("chat", up_to)} if up_to else {}
    cluster = replace(TWO_NODES, narrow=KNOWN, autoscalers=scaled)
    return case(made, **{"template": Template(replicas, "Deployment"), "cluster": cluster, **more})


ALLOWED = [
    pytest.param(template(1), id="one replica"),
    pytest.param(template(2, claims("shared")), id="a claim that many nodes can use, or that is not known"),
    pytest.param(template(2, namespace="team-b"), id="a claim of another namespace"),
    pytest.param(template(2, {"name": "weights", "emptyDir": {}}), id="no claim"),
    pytest.param(template(2, {"name": "weights"}), id="a volume without a source, which is an emptyDir"),
    pytest.param(
        template(2, {"name": "weights", "ephemeral": {"volumeClaimTemplate": {}}}),
        id="a claim that the pod makes for itself",
    ),
    pytest.param(template(gpu=None), id="without a GPU"),
    pytest.param(
        template(template=None, owned_by="Deployment", up_to=9), id="a pod, whose workload is not asked about"
    ),
]


def message(replicas: str, index: int = 0, name: str = "weights", users: str = "one node", mode: str = "") -> str:
    return (
        f'spec.volumes[{index}].persistentVolumeClaim.claimName: saw {replicas} and one PersistentVolumeClaim "{name}", which '
        f"{users} can use ({mode or 'ReadWriteOnce'}), wanted a claim with ReadWriteMany or ReadOnlyMany, or a StatefulSet with "
        "volumeClaimTemplates. Give each replica a claim of its own, or all of them one that many nodes can use."
    )


LOCK = message("2 replicas", 0, "lock", "one pod", "ReadWriteOncePod")
REFUSED = [
    pytest.param(template(), [message("2 replicas")], id="a Deployment"),
    pytest.param(
        template(4, owned_by="Job", template=Template(4, "Job")),
        [message("4 replicas")],
        id="a Job with several pods at once",
    ),
    pytest.param(
        template(1, up_to=9),
        [message('up to 9 replicas by HorizontalPodAutoscaler "chat"')],
        id="one that may be scaled",
    ),
    pytest.param(
        template(2, claims("lock"), claims("weights")), [LOCK, message("2 replicas", 1)], id="each of two claims"
    ),
]

"""Replicas that share a volume which one node or one pod can use."""

from dataclasses import replace
from typing import Any

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


ALLOWED: dict[str, Case] = {
    "one replica": template(1),
    "a claim that many nodes can use, or that is not known": template(2, claims("shared")),
    "a claim of another namespace": template(2, namespace="team-b"),
    "no claim": template(2, {"name": "weights", "emptyDir": {}}),
    "a volume without a source, which is an emptyDir": template(2, {"name": "weights"}),
    "a claim that the pod makes for itself": template(2, {"name": "weights", "ephemeral": {"volumeClaimTemplate": {}}}),
    "without a GPU": template(gpu=None),
    "a pod, whose workload is not asked about": template(template=None, owned_by="Deployment", up_to=9),
}


def message(replicas: str, index: int = 0, name: str = "weights", users: str = "one node", mode: str = "") -> str:
    return (
        f'spec.volumes[{index}].persistentVolumeClaim.claimName: saw {replicas} and one PersistentVolumeClaim "{name}", which '
        f"{users} can use ({mode or 'ReadWriteOnce'}), wanted a claim with ReadWriteMany or ReadOnlyMany, or a StatefulSet with "
        "volumeClaimTemplates. Give each replica a claim of its own, or all of them one that many nodes can use."
    )


LOCK = message("2 replicas", 0, "lock", "one pod", "ReadWriteOncePod")
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a Deployment": (template(), [message("2 replicas")]),
    "a Job with several pods at once": (
        template(4, owned_by="Job", template=Template(4, "Job")),
        [message("4 replicas")],
    ),
    "one that may be scaled": (template(1, up_to=9), [message('up to 9 replicas by HorizontalPodAutoscaler "chat"')]),
    "each of two claims": (template(2, claims("lock"), claims("weights")), [LOCK, message("2 replicas", 1)]),
}

"""Replicas that share a volume which one node or one pod can use."""

from dataclasses import replace
from typing import Any

from tests.builders import TWO_NODES, Case, case, container, pod
from webhook.admission.record import MAX_WARNING_LENGTH
from webhook.framework.cluster_view import Autoscaler
from webhook.framework.interface import Template
from webhook.rules.volume_access import VolumeAccess

RULE = VolumeAccess()
DISK: dict[str, Any] = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
KNOWN = {("team-a", "weights"): "ReadWriteOnce", ("team-a", "lock"): "ReadWriteOncePod"}


def template(
    replicas: int | None = 2,
    *volumes: dict[str, Any],
    owned_by: str = "ReplicaSet",
    gpu: int | None = 1,
    up_to: int = 0,
    **more: Any,
) -> Case:
    """The template of a workload in team-a, where the claims `weights` and `lock` are known."""
    made = pod(container(gpu=gpu), name="chat", owned_by=owned_by, volumes=list(volumes or (DISK,)))
    scaled = {("team-a", "Deployment", "chat"): Autoscaler("chat", up_to)} if up_to else {}
    cluster = replace(TWO_NODES, narrow=KNOWN, autoscalers=scaled)
    context = {"template": Template(replicas, "Deployment"), "cluster": cluster}
    return case(made, **(context | more))


def claims(name: str) -> dict[str, Any]:
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


ALLOWED: dict[str, Case] = {
    "one replica": template(1),
    "an unknown number": template(None),
    "scaled to nothing": template(0),
    "a claim that many nodes can use, or that is not known": template(2, claims("shared")),
    "a claim of another namespace": template(2, namespace="team-b"),
    "no claim": template(2, {"name": "weights", "emptyDir": {}}),
    "a volume without a source, which is an emptyDir": template(2, {"name": "weights"}),
    "a claim that the pod makes for itself": template(2, {"name": "weights", "ephemeral": {"volumeClaimTemplate": {}}}),
    "without a GPU": template(gpu=None),
    "a pod, whose workload is not asked about": template(template=None),
}


def message(replicas: str, index: int = 0, name: str = "weights", users: str = "one node", mode: str = "") -> str:
    return (
        f'spec.volumes[{index}].persistentVolumeClaim.claimName: saw {replicas} and one PersistentVolumeClaim "{name}", which '
        f"{users} can use ({mode or 'ReadWriteOnce'}), wanted a claim with ReadWriteMany or ReadOnlyMany, or a StatefulSet with "
        "volumeClaimTemplates. Give each replica a claim of its own, or all of them one that many nodes can use: otherwise "
        "replicas on other nodes wait for ever."
    )


LOCK = message("2 replicas", 0, "lock", "one pod", "ReadWriteOncePod")
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a Deployment": (template(), [message("2 replicas")]),
    "a Job with several pods at once": (
        template(4, owned_by="Job", template=Template(4, "Job")),
        [message("4 replicas")],
    ),
    "one that may be scaled": (template(1, up_to=9), [message('up to 9 replicas by HorizontalPodAutoscaler "chat"')]),
    "a claim for one pod": (template(2, claims("lock")), [LOCK]),
    "each of two claims": (template(2, claims("lock"), DISK), [LOCK, message("2 replicas", 1)]),
}


def test_it_warns_unless_the_policy_says_otherwise() -> None:
    assert RULE.action == "warn"


def test_the_warning_fits_on_one_line_with_the_next_step() -> None:
    (finding,) = template(1000).findings(RULE)
    assert len(f"volumeAccess: {finding.brief(0)}") <= MAX_WARNING_LENGTH

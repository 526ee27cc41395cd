"""All rules of the default policy together on one pod, in the validating hook."""

from typing import Any

from tests.builders import GPU, TWO_NODES, container, pod
from webhook.admission.pods import validate
from webhook.kube.pod import Pod
from webhook.kube.review import Request
from webhook.policy.model import Policy, PolicyFile

POLICY = Policy.of(PolicyFile())


def asked(new: Pod, old: Pod | None = None, subresource: str = "", **request: Any) -> Request:
    operation = "CREATE" if old is None else "UPDATE"
    fields = {"user": "jane", "groups": (), **request}
    return Request("u", "Pod", "", "pods", subresource, operation, "team-a", "trainer", dry_run=False, object=new, old=old, **fields)  # fmt: skip


def denied(request: Request) -> list[str]:
    """The rules that deny a pod, in the order of the message."""
    return [unit for unit, action, _ in validate(request, POLICY, TWO_NODES, None).findings if action == "deny"]


THIEF = container(gpu=1, env={"NVIDIA_VISIBLE_DEVICES": "all"}, securityContext={"privileged": True})


def test_a_good_pod_is_allowed_without_warnings() -> None:
    decision = validate(asked(pod(restartPolicy="Never")), POLICY, TWO_NODES, None)
    assert (decision.result, decision.findings) == ("allowed", ())


def test_all_findings_of_a_pod_come_at_once_in_the_order_of_the_policy() -> None:
    bad = pod(THIEF, container("b", gpu="500m"), hostPID=True, priorityClassName="urgent", nodeName="gpu-a1")
    assert denied(asked(bad)) == [
        "gpuQuantity",
        "priorityClass",
        "deviceEnv",
        "hostNamespaces",
        "privileged",
        "nodeName",
    ]


def test_the_number_of_findings_of_one_rule_is_bounded() -> None:
    assert denied(asked(pod(*(container(str(n), gpu=-1) for n in range(200))))) == ["gpuQuantity"] * 20


def test_no_rule_runs_on_a_pod_that_is_too_large() -> None:
    assert denied(asked(pod(*[THIEF] * 20_000))) == ["podSize"]


def test_an_update_is_refused_only_for_new_violations() -> None:
    old = pod(THIEF, hostPID=True, nodeName="gpu-a1")
    new = pod(THIEF | {"image": "registry.example/app:2"}, hostPID=True, nodeName="gpu-a1")
    assert denied(asked(new, old)) == []
    assert denied(asked(new | {"metadata": {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}}, old)) == [
        "deviceAnnotations"
    ]


def test_a_debug_container_of_a_running_pod_is_checked_and_the_rest_of_the_pod_is_not() -> None:
    running = pod(container(limits={GPU: "64"}), nodeName="gpu-a1")
    thief = container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert denied(asked(running, running, "ephemeralcontainers")) == []
    assert denied(asked(pod(*running["spec"]["containers"], ephemeral=[thief], nodeName="gpu-a1"), running, "ephemeralcontainers")) == ["deviceEnv"]  # fmt: skip

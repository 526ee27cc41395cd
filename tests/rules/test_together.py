"""All rules of the default policy together on one pod, in the validating hook."""

from typing import Any

from tests.builders import GPU, TWO_NODES, container, request
from tests.controlplane.objects import pod
from webhook.admission.pods import validate
from webhook.kube.review import Request
from webhook.policy.model import Policy, PolicyFile

POLICY = Policy.of(PolicyFile())


def denied(request: Request) -> list[str]:
    """The rules that deny a pod, in the order of the message."""
    return [unit for unit, action, _ in validate(request, POLICY, TWO_NODES.view, None).findings if action == "deny"]


THIEF = container(gpu=1, env={"NVIDIA_VISIBLE_DEVICES": "all"}, securityContext={"privileged": True})


def test_a_good_pod_is_allowed_without_warnings() -> None:
    decision = validate(request(pod(restartPolicy="Never")), POLICY, TWO_NODES.view, None)
    assert (decision.result, decision.findings) == ("allowed", ())


def test_all_findings_of_a_pod_come_at_once_in_the_order_of_the_policy() -> None:
    bad = pod(
        containers=[THIEF, container("b", gpu="500m")], hostPID=True, priorityClassName="urgent", nodeName="gpu-a1"
    )
    assert denied(request(bad)) == [
        "gpuQuantity",
        "priorityClass",
        "deviceEnv",
        "hostNamespaces",
        "privileged",
        "nodeName",
    ]


def test_a_limit_of_0_beside_a_part_of_a_gpu_is_one_finding() -> None:
    part = pod(containers=[container(gpu=0)], annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler")
    found = validate(request(part), POLICY, TWO_NODES.view, None).findings
    assert [(unit, action) for unit, action, _ in found] == [("gpuFraction", "deny")]


def test_the_number_of_findings_of_one_rule_is_bounded() -> None:
    assert denied(request(pod(containers=(container(str(n), gpu=-1) for n in range(200))))) == ["gpuQuantity"] * 20


def test_no_rule_runs_on_a_pod_that_is_too_large() -> None:
    assert denied(request(pod(containers=[THIEF] * 20_000))) == ["podSize"]


def test_an_update_is_refused_only_for_new_violations() -> None:
    old = pod(containers=[THIEF], hostPID=True, nodeName="gpu-a1")
    new = pod(containers=[THIEF | {"image": "registry.example/app:2"}], hostPID=True, nodeName="gpu-a1")
    assert denied(request(new, old)) == []
    assert denied(request(new | {"metadata": {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}}}, old)) == [
        "deviceAnnotations"
    ]


def test_a_debug_container_of_a_running_pod_is_checked_and_the_rest_of_the_pod_is_not() -> None:
    running = pod(limits={GPU: "64"}, nodeName="gpu-a1")
    thief = container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert denied(request(running, running, subresource="ephemeralcontainers")) == []
    assert denied(request(pod(containers=running["spec"]["containers"], ephemeral=[thief], nodeName="gpu-a1"), running, subresource="ephemeralcontainers")) == ["deviceEnv"]  # fmt: skip


def test_an_ephemeral_container_that_was_there_is_none_that_is_added_wherever_a_patch_puts_it() -> None:
    was = container("debug", gpu=None, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    old = pod(ephemeral=[was], nodeName="gpu-a1")

    def added(*ephemeral: dict[str, Any]) -> list[str]:
        return denied(request(pod(ephemeral=ephemeral, nodeName="gpu-a1"), old, subresource="ephemeralcontainers"))

    look = container("look", gpu=None)
    assert added(look, was) == added(was, look) == []
    assert added(was | {"name": "more"}, was) == added(was, was | {"name": "more"}) == ["deviceEnv"]

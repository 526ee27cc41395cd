"""The bounds on the size of objects, and what happens to an object that exceeds one."""

from typing import Any

import pytest

from tests.builders import container
from tests.controlplane.objects import pod
from tests.served import Server
from webhook.kube.bounds import (
    LIMITS,
    MAX_COLLECTIONS,
    MAX_REVIEW_BYTES,
    SMALL_REVIEW,
    exceeded_by_pod,
    exceeded_by_templates,
)

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
THIEF = {"NVIDIA_VISIBLE_DEVICES": "all"}


def terms(count: int) -> dict[str, Any]:
    each = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}] * count
    preferred = [{"weight": 1, "preference": each[0]}]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": each}, PREFERRED: preferred}}


WITHIN = [
    pytest.param(pod(), id="one container"),
    pytest.param(
        pod(
            containers=[
                container(str(n), env={f"A{m}": "b" for m in range(16)}, volumeMounts=[{}] * 8) for n in range(240)
            ],
            volumes=[{}] * 600,
        ),
        id="forty times what the largest manifest has",
    ),
    pytest.param(pod(affinity=terms(600)), id="affinity to hundreds of nodes"),
    pytest.param("pod", id="no pod at all"),
    pytest.param({"metadata": {}}, id="a pod without a spec"),
    pytest.param(
        {"metadata": {"labels": 3}, "spec": {"containers": True, "volumes": "x", "affinity": [1], "nodeSelector": 5}},
        id="fields of other types",
    ),
    pytest.param(
        {"spec": {"containers": [None, 3, {"resources": 1, "env": 2, "securityContext": []}]}},
        id="containers of other types",
    ),
]


@pytest.mark.parametrize("obj", WITHIN)
def test_this_is_within_the_bounds(obj: Any) -> None:
    assert exceeded_by_pod(obj) == []


def names(count: int) -> dict[str, str]:
    return {f"a{n}": "b" for n in range(count)}


PAST = {
    "containers": pod(containers=[container()] * 250, init=[container()] * 7),
    "environment variables": pod(containers=(container(str(n), env=names(2000)) for n in range(3))),
    "envFrom": pod(containers=[container(envFrom=[{}] * 300)]),
    "arguments": pod(containers=[container(args=["a"] * 5000)]),
    "ports": pod(containers=[container(ports=[{}] * 5000)]),
    "volumeMounts": pod(containers=[container(volumeMounts=[{}] * 3000)]),
    "volumeDevices": pod(containers=[container(volumeDevices=[{}] * 3000)]),
    "names of resources": pod(limits=names(1100), requests=names(1100)),
    "capabilities": pod(
        containers=[container(securityContext={"capabilities": {"add": ["A"] * 1000, "drop": ["A"] * 100}})]
    ),
    "volumes": pod(volumes=[{}] * 2000),
    "claims": pod(resourceClaims=[{}] * 600),
    "tolerations": pod(tolerations=[{}] * 300),
    "entries of the node selector": pod(nodeSelector=names(300)),
    "bytes of affinity": pod(affinity=terms(2000)),
    "topologySpreadConstraints": pod(topologySpreadConstraints=[{}] * 300),
    "schedulingGates": pod(schedulingGates=[{}] * 300),
    "labels": pod(labels=names(2000)),
    "annotations": pod(annotations=names(2000)),
    "ownerReferences": pod() | {"metadata": {"ownerReferences": [{}] * 300}},
}


@pytest.mark.parametrize("what", PAST)
def test_this_exceeds_a_bound(what: str) -> None:
    assert [excess.noun for excess in exceeded_by_pod(PAST[what])] == [what]


@pytest.mark.parametrize("what", PAST)
def test_of_a_small_review_only_the_containers_are_counted(what: str) -> None:
    wanted = ["containers"] if what == "containers" else []
    assert [excess.noun for excess in exceeded_by_pod(PAST[what], SMALL_REVIEW)] == wanted


def test_a_pod_that_exceeds_a_bound_is_not_changed_and_then_refused() -> None:
    server, large = Server(), PAST["volumes"] | {"status": {"message": "x" * SMALL_REVIEW}}
    assert server.mutate(large) == {"uid": "u-1", "allowed": True}
    message = server.validate(large)["status"]["message"]
    assert "spec: saw 2000 volumes in all, wanted at most 1024. Split it;" in message
    assert "[podSize]" in message


def test_every_bound_has_a_case() -> None:
    assert set(PAST) == set(LIMITS) - {"templates", "bytes of the selector"}


def test_templates_of_one_object_count_together() -> None:
    each = pod(containers=[container()] * 200)
    assert exceeded_by_templates([each] * 5) == []
    assert [(e.noun, e.number, e.limit) for e in exceeded_by_templates([each] * 6)] == [("containers", 1200, 1024)]


def test_the_object_of_a_review_that_is_too_long_is_not_read() -> None:
    long = pod(annotations={"a": "x" * MAX_REVIEW_BYTES})
    server = Server()
    assert server.mutate(long) == {"uid": "u-1", "allowed": True}
    assert "bytes in the review, wanted at most 2097152" in server.validate(long)["status"]["message"]


def test_a_body_of_nothing_but_brackets_is_not_parsed() -> None:
    status, answer = Server().handlers.validate(b"[" + b"{" * MAX_COLLECTIONS)
    assert status == 400
    assert b"wanted at most 500000 maps and lists in a body, saw 500001" in answer


# --- updates of stored objects ----------------------------------------------------------------------------------------

LARGE = pod(containers=[container(str(n), gpu=None) for n in range(300)])


def updated(new: Any, old: Any, **request: Any) -> dict[str, Any]:
    return Server().validate(new, oldObject=old, operation="UPDATE", **request)


def with_metadata(**fields: Any) -> dict[str, Any]:
    return LARGE | {"metadata": LARGE["metadata"] | fields}


HARMLESS_UPDATES = [
    pytest.param(with_metadata(finalizers=[]), id="a finalizer is removed"),
    pytest.param(with_metadata(labels={"a": "b"}), id="a label is added"),
    pytest.param(LARGE | {"status": {"phase": "Running"}}, id="a status is written"),
    pytest.param(
        with_metadata(annotations={"network/status": "up"}), id="an annotation that requests nothing is added"
    ),
]


@pytest.mark.parametrize("new", HARMLESS_UPDATES)
def test_a_stored_pod_that_exceeds_a_bound_may_change_where_no_rule_reads(new: Any) -> None:
    assert updated(new, LARGE)["allowed"]


REFUSED_UPDATES = [
    pytest.param(
        with_metadata(annotations={"cdi.k8s.io/a": "x"}),
        "[deviceAnnotations]",
        id="an annotation that requests devices",
    ),
    pytest.param(with_metadata(annotations=names(2000)), "[podSize]", id="more annotations than the bound"),
    pytest.param(
        pod(containers=[container(str(n), gpu=None, image="b") for n in range(300)]), "[podSize]", id="another image"
    ),
    pytest.param(
        LARGE | {"spec": LARGE["spec"] | {"ephemeralContainers": [container("x")]}}, "[podSize]", id="another container"
    ),
]


@pytest.mark.parametrize(("new", "rule"), REFUSED_UPDATES)
def test_a_stored_pod_that_exceeds_a_bound_may_not_change_where_rules_read(new: Any, rule: str) -> None:
    assert rule in updated(new, LARGE)["status"]["message"]


def test_an_old_object_that_exceeds_a_bound_excuses_nothing() -> None:
    old = pod(containers=[container(str(n), env=THIEF) for n in range(300)])
    assert not updated(pod(containers=[container("0", env=THIEF)]), old)["allowed"]


# --- workloads --------------------------------------------------------------------------------------------------------


def deployment(template: Any, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": template["spec"]}
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template} | spec}


KIND: dict[str, Any] = {
    "kind": {"group": "apps", "version": "v1", "kind": "Deployment"},
    "resource": {"group": "apps", "version": "v1", "resource": "deployments"},
}
WORKLOADS = {
    "containers in all": deployment(LARGE),
    "bytes of the selector in all": deployment(pod(), selector={"matchLabels": names(9000)}),
    "bytes in the review": deployment(pod(annotations={}), x="x" * MAX_REVIEW_BYTES),
    "labels in all": deployment(pod()) | {"metadata": {"name": "web", "labels": names(2000)}},
}


@pytest.mark.parametrize("what", WORKLOADS)
def test_a_workload_that_exceeds_a_bound_is_not_changed_and_gets_a_warning(what: str) -> None:
    server = Server()
    assert server.mutate(WORKLOADS[what], **KIND) == {"uid": "u-1", "allowed": True}
    response = server.validate(WORKLOADS[what], **KIND)
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert warning.startswith("podSize: its pods will be refused: ")
    assert what in warning


def test_an_update_of_the_status_of_a_workload_that_exceeds_a_bound_gets_no_warning() -> None:
    for large in WORKLOADS.values():
        response = Server().validate(large | {"status": {}}, oldObject=large, operation="UPDATE", **KIND)
        assert response == {"uid": "u-1", "allowed": True}

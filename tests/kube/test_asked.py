"""What placement reads of a pod."""

from typing import Any

import pytest

from tests.controlplane.objects import pod
from tests.placement.placed import affinity, expression
from tests.state.objects import GPU, admitted, stored
from webhook.kube.asked import identity_of
from webhook.kube.pod import pod_id
from webhook.kube.pod_requests import counted_requests, pod_requests_of
from webhook.kube.record import ranked_nodes
from webhook.nodes.popular import pinned_models

PRODUCT = "nvidia.com/gpu.product"


def test_the_demand_is_sorted_and_counts_the_pod_itself() -> None:
    assert pod_requests_of(stored("p", 2)).requests == (("cpu", 4000), ("memory", 16 << 30), (GPU, 2), ("pods", 1))


def test_a_request_of_zero_is_no_part_of_the_demand() -> None:
    assert pod_requests_of(stored("p", 0, limits={"cpu": "0", "memory": "0"})).requests == (("pods", 1),)


def asks(**amounts: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": amounts}}


ONE = {"containers": [asks(cpu="1")]}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(ONE, id="the same"),
        pytest.param({"containers": [asks(cpu="1"), asks(cpu="1")]}, id="one more container"),
        pytest.param({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}, id="only a limit"),
        pytest.param({"containers": [asks(cpu="1000m")]}, id="the same amount written otherwise"),
        pytest.param(ONE | {"initContainers": [asks(cpu="3")]}, id="an init container"),
        pytest.param(ONE | {"initContainers": [asks(cpu="3") | {"restartPolicy": "Always"}]}, id="a sidecar"),
        pytest.param({"containers": [], "initContainers": [asks(cpu="1")]}, id="an init container alone"),
        pytest.param(ONE | {"overhead": {"cpu": "1"}}, id="overhead"),
        pytest.param(ONE | {"resources": {"requests": {"cpu": "7"}}}, id="a request of the whole pod"),
        pytest.param(ONE | {"resources": {"limits": {"hugepages-2Mi": "7"}}}, id="a limit of the whole pod"),
        pytest.param({"containers": [asks(cpu="1", **{GPU: "0"})]}, id="a GPU request of zero"),
    ],
)
def test_a_cached_demand_is_that_of_pods_with_the_same_requests(spec: dict[str, Any]) -> None:
    for _ in range(2):
        assert counted_requests({"spec": ONE}) == pod_requests_of({"spec": ONE})
        assert counted_requests({"spec": spec}) == pod_requests_of({"spec": spec})


def test_a_pod_has_the_same_key_at_admission_and_in_the_watch() -> None:
    for made in (stored("p"), stored("p", owner="o")):
        assert identity_of(made) == identity_of(admitted(made))


def test_pods_of_one_controller_or_else_app_label_and_namespace_have_the_same_owner() -> None:
    first, second, other = (identity_of(stored(name, owner=of)) for name, of in (("p", "o"), ("q", "o"), ("q", "r")))
    assert first.owner == second.owner != other.owner
    assert identity_of(pod(labels={"app": None}, namespace="team-a")).owner == ""
    for namespace in ("team-a", "team-b"):
        assert identity_of(pod("chat", namespace=namespace)).owner == f"{namespace}/app=chat"


def test_a_uid_is_kept_as_a_number() -> None:
    assert pod_id({"uid": "00000000-0000-0000-0000-00000000002a"}) == 42
    assert pod_id({"uid": "not-a-uuid"}) == "not-a-uuid"
    assert pod_id({"namespace": "a", "name": "b"}) == "a/b"


@pytest.mark.parametrize(
    ("obj", "nodes"),
    [
        pytest.param(stored("p"), (), id="no ranked nodes"),
        pytest.param(stored("p", ranked=["a", "b"]), ("a", "b"), id="as we write it"),
        pytest.param(stored("p", ranked=["a", "b"], prefers=["b", "a"]), (), id="the spec names other nodes"),
        pytest.param(
            stored("p", ranked=["a"], prefers=[], affinity=affinity(expression("kubernetes.io/hostname", "In", "a"))),
            ("a",),
            id="required",
        ),
        pytest.param(
            stored("p", ranked=["a"], prefers=[], affinity=affinity(expression("kubernetes.io/hostname", "In", "b"))),
            (),
            id="another node is required",
        ),
    ],
)
def test_ranked_nodes_count_only_if_the_spec_names_them_too(obj: dict[str, Any], nodes: tuple[str, ...]) -> None:
    assert ranked_nodes(obj) == nodes


@pytest.mark.parametrize(
    ("spec", "models"),
    [
        pytest.param({}, None, id="any model"),
        pytest.param({"nodeSelector": {"zone": "a"}}, None, id="a selector for something else: any"),
        pytest.param(
            {"affinity": affinity(expression(PRODUCT, "In", "A"), expression("zone", "In", "x"))},
            None,
            id="one term is free: any",
        ),
        pytest.param({"affinity": affinity(expression(PRODUCT, "NotIn", "A"))}, None, id="not one of them: any"),
        pytest.param({"nodeSelector": {PRODUCT: "A"}}, ("A",), id="by selector"),
        pytest.param({"affinity": affinity(expression(PRODUCT, "In", "B", "A"))}, ("A", "B"), id="by affinity"),
        pytest.param(
            {"affinity": affinity(expression(PRODUCT, "In", "B"), expression(PRODUCT, "In", "A"))},
            ("A", "B"),
            id="by either term",
        ),
    ],
)
def test_the_models_that_a_pod_is_confined_to(spec: dict[str, Any], models: tuple[str, ...] | None) -> None:
    assert pinned_models(spec) == models

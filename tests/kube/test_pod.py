"""Reading a pod. Totals follow TestPodRequests in k8s.io/component-helpers resource/helpers_test.go.

Covers kube.pod_requests.
"""

from typing import Any

import pytest

from tests.builders import GPU, GPUS, container
from tests.controlplane.objects import pod
from webhook.errors import QuantityError
from webhook.kube.asked import AskedPod
from webhook.kube.pod import Owner, asks_for_gpu, clean_path, containers, gpu_counts, owner, requests_of
from webhook.kube.pod_requests import total_requests


def asks(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A container with these requests and limits."""
    resources = {k: v for k, v in (("limits", limits), ("requests", requests)) if v is not None}
    return {"name": "c", "resources": resources, **fields}


def sidecar(requests: dict[str, Any]) -> dict[str, Any]:
    return asks(requests, restartPolicy="Always")


def cpu(number: str) -> dict[str, Any]:
    return {"cpu": number}


def gpu(number: str) -> dict[str, Any]:
    return {GPU: number}


def spec(*normal: dict[str, Any], init: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    body = {"containers": list(normal), **fields}
    if init:
        body["initContainers"] = init
    return {"metadata": {}, "spec": body}


TOTALS = [
    # These add nothing.
    ("no containers", spec(), {}),
    ("a container without resources", spec({"name": "c"}), {}),
    ("resources that are null", spec({"name": "c", "resources": None}), {}),
    ("limits and requests that are null", spec({"name": "c", "resources": {"limits": None, "requests": None}}), {}),
    ("ephemeral containers", spec(asks(cpu("1")), ephemeralContainers=[asks(cpu("8"))]), {"cpu": 1000}),
    ("overhead that is empty", spec(asks(cpu("1")), overhead={}), {"cpu": 1000}),
    ("pod-level resources that are empty", spec(asks(cpu("1")), resources={}), {"cpu": 1000}),
    ("GPUs in pod-level resources",
     spec(asks(gpu("1")), resources={"limits": gpu("8"), "requests": gpu("8")}), {GPU: 1}),
    # Containers.
    ("a request", spec(asks(cpu("1"))), {"cpu": 1000}),
    ("a limit stands in for a missing request", spec(asks(limits=gpu("2"))), {GPU: 2}),
    ("a request is not replaced by its limit", spec(asks(cpu("1"), cpu("4"))), {"cpu": 1000}),
    ("one resource by request, another by limit", spec(asks(cpu("1"), gpu("1"))), {"cpu": 1000, GPU: 1}),
    ("containers add up", spec(asks(gpu("1")), asks(gpu("2"))), {GPU: 3}),
    ("sums are exact before they are rounded", spec(asks(cpu("1500u")), asks(cpu("1500u"))), {"cpu": 3}),
    ("a fraction in a sum is rounded up", spec(asks(cpu("1500u")), asks(cpu("1u"))), {"cpu": 2}),
    ("memory is in bytes", spec(asks({"memory": "1.5Gi"}), asks({"memory": "100M"})), {"memory": 1710612736}),
    # Init containers use the resources of the containers that run after them.
    ("a small init container", spec(asks(gpu("2")), init=[asks(gpu("1"))]), {GPU: 2}),
    ("a large init container", spec(asks(gpu("1")), init=[asks(gpu("4"))]), {GPU: 4}),
    ("an init container of the same size", spec(asks(gpu("1")), init=[asks(gpu("1"))]), {GPU: 1}),
    ("of several init containers the largest",
     spec(asks(cpu("1")), init=[asks(cpu("5")), asks(cpu("3"))]), {"cpu": 5000}),
    ("each resource on its own",
     spec(asks({"cpu": "1", GPU: "2"}), init=[asks({"cpu": "4", GPU: "1"})]), {"cpu": 4000, GPU: 2}),
    ("an init container alone names a resource", spec(asks(cpu("1")), init=[asks(gpu("1"))]), {"cpu": 1000, GPU: 1}),
    # Sidecars keep running.
    ("a sidecar adds up", spec(asks(gpu("1")), init=[sidecar(gpu("1"))]), {GPU: 2}),
    ("sidecars add up", spec(asks(cpu("1")), init=[sidecar(cpu(n)) for n in "123"]), {"cpu": 7000}),
    ("an init container beside a sidecar before it",
     spec(asks(cpu("1")), init=[sidecar(cpu("1")), asks(cpu("5"))]), {"cpu": 6000}),
    ("an init container before a sidecar",
     spec(asks(cpu("1")), init=[asks(cpu("5")), sidecar(cpu("3"))]), {"cpu": 5000}),
    ("sidecars outweigh an init container",
     spec(asks(cpu("1")), init=[asks(cpu("5")), sidecar(cpu("2")), sidecar(cpu("3"))]), {"cpu": 6000}),
    ("init containers and sidecars mixed",
     spec(asks(cpu("1")),
          init=[asks(cpu("5")), sidecar(cpu("1")), sidecar(cpu("2")), asks(cpu("5")), sidecar(cpu("3"))]), {"cpu": 8000}),
    ("a sidecar, an init container, a container",
     spec(asks(cpu("100")), init=[sidecar(cpu("10")), asks(cpu("200"))]), {"cpu": 210000}),
    ("restartPolicy means nothing in a container",
     spec(asks(gpu("1"), restartPolicy="Always"), init=[asks(gpu("1"), restartPolicy="OnFailure")]), {GPU: 1}),
    # Overhead comes on top.
    ("overhead", spec(asks(cpu("1")), overhead={"cpu": "250m", "memory": "64Mi"}), {"cpu": 1250, "memory": 2**26}),
    ("overhead over an init container", spec(asks(cpu("1")), init=[asks(cpu("2"))], overhead=cpu("1")), {"cpu": 3000}),
    # Pod-level resources.
    ("a pod-level request replaces the sum",
     spec(asks(cpu("1")), asks(cpu("2")), resources={"requests": cpu("5")}), {"cpu": 5000}),
    ("…and the peak of init containers",
     spec(asks(cpu("1")), init=[asks(cpu("9"))], resources={"requests": cpu("5")}), {"cpu": 5000}),
    ("…even where it is smaller", spec(asks(cpu("4")), resources={"requests": cpu("2")}), {"cpu": 2000}),
    ("…for what it names",
     spec(asks({"cpu": "1", GPU: "1"}),
          resources={"requests": {"memory": "1Gi"}}), {"cpu": 1000, GPU: 1, "memory": 2**30}),
    ("a pod-level limit where containers ask", spec(asks(cpu("1")), resources={"limits": cpu("5")}), {"cpu": 1000}),
    ("a pod-level limit where no container asks",
     spec(asks(gpu("1")), resources={"limits": cpu("5")}), {"cpu": 5000, GPU: 1}),
    ("a pod-level limit where a container asks for 0",
     spec(asks(cpu("0")), resources={"limits": cpu("5")}), {"cpu": 0}),
    ("a pod-level limit where an init container asks for 0",
     spec(asks(gpu("1")), init=[asks(cpu("0"))], resources={"limits": cpu("5")}), {"cpu": 0, GPU: 1}),
    ("a pod-level limit of huge pages",
     spec(asks(limits={"hugepages-2Mi": "2Mi"}),
          resources={"limits": {"hugepages-2Mi": "4Mi"}}), {"hugepages-2Mi": 2**22}),
    ("overhead over pod-level resources",
     spec(asks(cpu("1")), resources={"requests": cpu("5")}, overhead=cpu("1")), {"cpu": 6000}),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "want"), [pytest.param(p, t, id=i) for i, p, t in TOTALS])
def test_total_requests(layout: dict[str, Any], want: dict[str, int]) -> None:
    total = total_requests(layout)
    assert total == want
    assert all(type(amount) is int for amount in total.values())


def test_a_malformed_quantity_in_a_total_is_an_error() -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        total_requests(spec(asks(cpu("much"))))


def test_requests_of_a_container_are_not_copied_without_need() -> None:
    limits = {GPU: "1"}
    assert requests_of({"resources": {"limits": limits}}) is limits


# --- GPUs -------------------------------------------------------------------------------------------------------------

SLICE, OTHER = "nvidia.com/mig-1g.10gb", "x.io/gpu"
COUNTED = [
    pytest.param(asks(), {}, id="nothing"),
    pytest.param({"name": "c", "resources": None}, {}, id="resources that are null"),
    pytest.param(asks(limits={"rdma/hca": "1", "cpu": "8"}), {}, id="no GPU"),
    pytest.param(asks({GPU: 0}, {GPU: 0.0}), {}, id="0 GPUs as a number"),
    pytest.param(asks(limits={GPU: "-1"}), {}, id="a negative number"),
    pytest.param(asks(limits={GPU: "x"}), {}, id="no number"),
    pytest.param(asks({GPU: "1"}, {GPU: "2"}), {GPU: 2}, id="the limit comes first"),
    pytest.param(asks({GPU: "1"}, {GPU: "0"}), {GPU: 1}, id="the request where the limit is 0"),
    pytest.param(asks({GPU: "2000m"}), {GPU: 2}, id="the request alone, in thousandths"),
    pytest.param(asks(limits={GPU: "0.5"}), {GPU: 1}, id="a fraction of a GPU counts as one"),
    pytest.param(asks(limits={SLICE: 3, "amd.com/gpu": 1}), {SLICE: 3, "amd.com/gpu": 1}, id="two kinds"),
]


@pytest.mark.parametrize(("counted", "want"), COUNTED)
def test_gpu_counts(counted: dict[str, Any], want: dict[str, int]) -> None:
    assert gpu_counts(counted, GPUS) == want
    assert asks_for_gpu(counted, GPUS) == bool(want)


NAMED = [
    pytest.param(spec(), set(), id="no containers"),
    pytest.param(spec(asks(limits={GPU: "0m"})), set(), id="0 GPUs in another spelling"),
    pytest.param(spec(asks(limits={GPU: "1"})), {GPU}, id="a limit"),
    pytest.param(spec(asks(), init=[asks({GPU: "1"})]), {GPU}, id="a request of an init container"),
    pytest.param(spec(asks(), ephemeralContainers=[asks({GPU: "1"})]), {GPU}, id="an ephemeral container"),
    pytest.param(spec(asks({GPU: "-1"}), asks({SLICE: "many"})), {GPU, SLICE}, id="numbers that a rule reports"),
    pytest.param(spec(asks({GPU: "1", "amd.com/gpu": "0"})), {GPU}, id="one kind, and 0 of another"),
]


@pytest.mark.parametrize(("layout", "names"), NAMED)
def test_gpu_names(layout: dict[str, Any], names: set[str]) -> None:
    assert AskedPod(layout, GPUS).gpu_names == names


@pytest.mark.parametrize(
    ("asking", "want"),
    [
        (asks() | {"resources": {"claims": [{"name": "gpu"}]}}, False),
        (asks({"volcano.sh/vgpu-number": "1"}), True),
        (asks(limits={"x.io/GPU": "1"}), True),
        (asks({OTHER: "0"}), False),
        (asks({OTHER: "-1"}), False),
        (asks({OTHER: "many"}), False),
    ],
)
def test_a_resource_with_gpu_in_its_name_is_asked_for_too(asking: dict[str, Any], want: bool) -> None:
    assert asks_for_gpu(asking, GPUS) is want


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_containers_come_once_each_in_a_fixed_order() -> None:
    layout = pod(
        containers=[container("a"), container("b")],
        init=[container("i"), container("s", restartPolicy="Always"), container("o", restartPolicy="OnFailure")],
        ephemeral=[container("e", restartPolicy="Always")],
    )
    assert [(c.name, c.field, c.path, c.sidecar) for c in containers(layout)] == [
        ("i", "spec.initContainers[0]", ("spec", "initContainers", 0), False),
        ("s", "spec.initContainers[1]", ("spec", "initContainers", 1), True),
        ("o", "spec.initContainers[2]", ("spec", "initContainers", 2), False),
        ("a", "spec.containers[0]", ("spec", "containers", 0), False),
        ("b", "spec.containers[1]", ("spec", "containers", 1), False),
        ("e", "spec.ephemeralContainers[0]", ("spec", "ephemeralContainers", 0), False),
    ]


def test_missing_and_null_lists_have_no_containers() -> None:
    assert list(containers({"metadata": {}, "spec": {"containers": None, "initContainers": None}})) == []
    assert list(containers({"metadata": {}, "spec": {}})) == []


REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u"}


@pytest.mark.parametrize(
    ("references", "want"),
    [
        pytest.param(None, None, id="none"),
        pytest.param([], None, id="an empty list"),
        pytest.param([REPLICA_SET], None, id="an owner that is no controller"),
        pytest.param([REPLICA_SET | {"controller": False}], None, id="an owner with controller: false"),
        pytest.param(
            [{"kind": "App", "name": "x"}, REPLICA_SET | {"controller": True}],
            Owner("ReplicaSet", "web-1", "u"),
            id="the controller among owners",
        ),
        pytest.param([{"controller": True}], Owner("", "", ""), id="a controller without kind, name and uid"),
    ],
)
def test_owner(references: list[Any] | None, want: Owner | None) -> None:
    assert owner({"metadata": {"ownerReferences": references}, "spec": {}}) == want


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/dev", "/dev"),
        ("/dev/", "/dev"),
        ("//dev//nvidia0", "/dev/nvidia0"),
        ("/dev/../dev/./nvidia0", "/dev/nvidia0"),
        ("/../../dev", "/dev"),
        ("dev", "/dev"),
        ("", "/"),
        ("/", "/"),
        ("/var/run/nvidia", "/run/nvidia"),
        ("/var/run", "/run"),
        ("/var/running", "/var/running"),
        ("/var/../var/run/x", "/run/x"),
    ],
)
def test_clean_path(path: str, want: str) -> None:
    assert clean_path(path) == want

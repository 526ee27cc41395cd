"""Changes by the exported policies, asserted on the stored pod."""

import pytest

from tests.controlplane.api import Api
from tests.controlplane.objects import pod
from tests.export.pods import VISIBLE, env
from tests.export.world import EVERY, INSIDE, Json, other

pytestmark = pytest.mark.controlplane


async def stored(api: Api, body: Json) -> Json:
    """The spec of the stored pod."""
    await api.create(body, INSIDE)
    found = await api.get("Pod", body["metadata"]["name"], INSIDE)
    await api.delete("Pod", body["metadata"]["name"], INSIDE, grace=0)
    spec: Json = found["spec"]
    return spec


def ours(spec: Json) -> list[Json]:
    return [t for t in spec["tolerations"] if not t.get("key", "").startswith("node.kubernetes.io/")]


NVIDIA = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
AMD = {"key": "amd.com/gpu", "operator": "Exists", "effect": "NoExecute"}
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


async def test_a_pod_without_a_gpu_is_stored_unchanged(server: Api) -> None:
    spec = await stored(server, pod("plain", 0, labels={"workload-type": "inference"}))
    assert (ours(spec), spec["priority"], "priorityClassName" in spec) == ([], 0, False)
    assert "env" not in spec["containers"][0]


async def test_a_request_gets_its_limit(server: Api) -> None:
    """In every kind of container, with and without other limits."""
    one = {"requests": {"nvidia.com/gpu": "1"}}
    body = pod("limits", 0, container={"resources": one}, initContainers=[other("i", resources=one)])
    both = {"requests": {"nvidia.com/gpu": "2", "cpu": "1"}, "limits": {"memory": "1Gi"}}
    body["spec"]["containers"].append(other("second", resources=both))
    spec = await stored(server, body)
    assert spec["initContainers"][0]["resources"] == {**one, "limits": {"nvidia.com/gpu": "1"}}
    assert spec["containers"][0]["resources"] == {**one, "limits": {"nvidia.com/gpu": "1"}}
    assert spec["containers"][1]["resources"]["limits"] == {"memory": "1Gi", "nvidia.com/gpu": "2"}
    assert spec["containers"][1]["resources"]["requests"] == {"nvidia.com/gpu": "2", "cpu": "1", "memory": "1Gi"}


TOLERATED = [
    pytest.param("nvidia.com/gpu", [], [NVIDIA, SKU], id="none yet"),
    pytest.param("nvidia.com/mig-1g.10gb", [], [NVIDIA, SKU], id="a slice"),
    pytest.param("amd.com/gpu", [], [AMD, SKU], id="another vendor"),
    pytest.param("nvidia.com/gpu", [NVIDIA], [NVIDIA, SKU], id="the same"),
    pytest.param("nvidia.com/gpu", [{"operator": "Exists"}], [{"operator": "Exists"}], id="everything"),
    pytest.param(
        "nvidia.com/gpu",
        [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "sku", "operator": "Exists"}],
        [{"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "sku", "operator": "Exists"}],
        id="every effect",
    ),
    pytest.param(
        "nvidia.com/gpu", [{**SKU, "value": "cpu"}], [{**SKU, "value": "cpu"}, NVIDIA, SKU], id="another value"
    ),
    pytest.param(
        "amd.com/gpu",
        [{**AMD, "tolerationSeconds": 60}, SKU],
        [{**AMD, "tolerationSeconds": 60}, SKU, AMD],
        id="for a limited time",
    ),
]


@pytest.mark.parametrize(("resource", "before", "after"), TOLERATED)
async def test_tolerations_are_added_unless_covered(
    server: Api, resource: str, before: list[Json], after: list[Json]
) -> None:
    assert ours(await stored(server, pod("tolerating", resource=resource, tolerations=before))) == after


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
OWNERS = {"job": JOB, "other": JOB | {"apiVersion": "tekton.dev/v1", "kind": "TaskRun"}}
CLASSES = [
    pytest.param({}, {}, (None, 0, "PreemptLowerPriority"), id="of no class"),
    pytest.param(
        {"workload-type": "reserved"}, {}, (None, 0, "PreemptLowerPriority"), id="of a class that it is not entitled to"
    ),
    pytest.param(
        {"workload-type": "inference"},
        {"priorityClassName": "export-low"},
        ("export-low", 50, "Never"),
        id="with a class of its own",
    ),
    pytest.param({"workload-type": "inference"}, {}, ("export-high", 5000, "PreemptLowerPriority"), id="by label"),
    pytest.param(
        {"workload-type": "labelled"},
        {},
        ("export-labelled", 80, "PreemptLowerPriority"),
        id="by a label of the namespace",
    ),
    pytest.param({"owner": "job"}, {}, ("export-low", 50, "Never"), id="by owner"),
    pytest.param(
        {"owner": "other"}, {"restartPolicy": "Never"}, ("export-low", 50, "Never"), id="by an owner of any kind"
    ),
    pytest.param(
        {"owner": "other"},
        {"restartPolicy": "Always"},
        (None, 0, "PreemptLowerPriority"),
        id="by an owner of any kind, but another restart policy",
    ),
    pytest.param({}, {"restartPolicy": "Never"}, (None, 0, "PreemptLowerPriority"), id="by any owner, without one"),
    pytest.param(
        {"export.example/notebook": "x"},
        {},
        ("export-labelled", 80, "PreemptLowerPriority"),
        id="by a label with any value",
    ),
    pytest.param(
        {"owner": "job", "jobset.sigs.k8s.io/jobset-uid": "u"},
        {},
        ("export-labelled", 80, "PreemptLowerPriority"),
        id="by a kind that a label tells",
    ),
    pytest.param(
        {"jobset.sigs.k8s.io/jobset-uid": "u"},
        {},
        (None, 0, "PreemptLowerPriority"),
        id="by that label, but another owner",
    ),
]


@pytest.mark.parametrize(("labels", "more", "wanted"), CLASSES)
async def test_the_priority_class_of_a_pod(
    server: Api, labels: Json, more: Json, wanted: tuple[str | None, int, str]
) -> None:
    body = pod("class", labels=labels, **more)
    if owner := OWNERS.get(labels.get("owner", "")):
        body["metadata"]["ownerReferences"] = [owner]
    spec = (await server.create(body, INSIDE, dryRun="All"))["spec"]
    assert (spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]) == wanted


async def test_containers_without_a_gpu_get_void_devices(server: Api) -> None:
    body = pod("void", initContainers=[other("i"), other("own", **env(VISIBLE, ""))])
    body["spec"]["containers"].append(other("second", **env("A", "b")))
    spec = await stored(server, body)
    void = {"name": VISIBLE, "value": "void"}
    assert "env" not in spec["containers"][0]
    assert spec["containers"][1]["env"] == [{"name": "A", "value": "b"}, void]
    assert spec["initContainers"][0]["env"] == [void]
    assert spec["initContainers"][1]["env"] == [{"name": VISIBLE}]


async def test_the_variable_of_the_vendor_whose_gpus_the_pod_asks_for_is_set_too(server: Api) -> None:
    body = pod("void", resource="amd.com/gpu", resourceClaims=[{"name": "any", "resourceClaimName": "any"}])
    claiming = other("claiming", resources={"claims": [{"name": "any"}]})
    body["spec"]["containers"] += [other("second", **env("A", "b")), claiming]
    gpu, second, claims = (await stored(server, body))["containers"]
    void = {"name": VISIBLE, "value": "void"}
    assert "env" not in gpu
    assert second["env"] == [{"name": "A", "value": "b"}, void, {"name": "AMD_VISIBLE_DEVICES", "value": "void"}]
    assert claims["env"] == [void]


async def test_a_container_with_0_gpus_gets_void_devices_and_nothing_that_is_for_gpu_pods(server: Api) -> None:
    plain = await stored(server, pod("plain", 0))
    spec = await stored(server, pod("zero", 0, container={"resources": {"limits": {"nvidia.com/gpu": "0"}}}))
    (container,) = spec["containers"]
    assert container.pop("env") == [{"name": VISIBLE, "value": "void"}]
    assert container.pop("resources") == {part: {"nvidia.com/gpu": "0"} for part in ("limits", "requests")}
    assert (spec["tolerations"], spec["priority"]) == (plain["tolerations"], plain["priority"])


BY_NAME = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}
BY_KEY = {"nvidia.com/container.second.gpu-memory.limit": "8Gi"}


@pytest.mark.parametrize(
    ("fraction", "scheduler", "without"),
    [
        (BY_NAME, "kai-scheduler", ["second"]),
        (BY_NAME, "default-scheduler", []),
        (BY_KEY, "kai-scheduler", ["second"]),
        (BY_KEY | {"gpu-fraction-container-name": "third"}, "kai-scheduler", ["second"]),
        (BY_KEY, "default-scheduler", []),
        (BY_KEY | {"nvidia.com/container.third.gpu-memory.limit": "8Gi"}, "kai-scheduler", []),
    ],
)
async def test_all_but_the_container_that_gets_a_part_of_a_gpu_get_void_devices(
    server: Api, fraction: dict[str, str], scheduler: str, without: list[str]
) -> None:
    body = pod("part", 0, annotations=fraction, schedulerName=scheduler)
    body["spec"]["containers"] += [other("second"), other("third")]
    spec = await stored(server, body)
    assert [each["name"] for each in spec["containers"] if "env" not in each] == without


async def test_a_pod_of_a_group_keeps_its_priority(server: Api) -> None:
    body = pod("group", 1, labels={"workload-type": "inference"}, schedulingGroup={"podGroupName": "g"})
    spec = (await server.create(body, INSIDE, dryRun="All"))["spec"]
    assert "priorityClassName" not in spec


async def test_every_pod_gets_what_hides_gpus_on_any_node(server: Api) -> None:
    hidden: dict[str, list[str]] = {}
    for of, resources in (("", {}), ("amd.com/gpu", {"limits": {"amd.com/gpu": "1"}})):
        body = pod("void", 0, containers=[other("main", resources=resources), other("beside")])
        spec = (await server.create(body, EVERY, dryRun="All"))["spec"]
        hidden[of] = [f"{each['name']}={each.get('value', '')}" for each in spec["containers"][1].get("env") or ()]
    void = "NVIDIA_VISIBLE_DEVICES=void"
    anywhere = ["ASCEND_VISIBLE_DEVICES=", "IX_VISIBLE_DEVICES=void"]
    assert hidden == {"": [void, *anywhere], "amd.com/gpu": [void, "AMD_VISIBLE_DEVICES=void"]}

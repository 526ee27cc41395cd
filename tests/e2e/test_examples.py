"""The manifests in `manifests/examples` on a real control plane: applied with kubectl, and their pods bound.

The namespace is the one of the examples. Nodes offer what the examples ask for, and volumes are there as an administrator makes
them; nothing else is prepared.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, custom, deployment, made, pod, volume
from tests.controlplane.plane import ControlPlane
from tests.installed import DECISION, ROOT, SHIPPED, Installed, opt_in
from tests.manifests.files import documents
from webhook.kube.pod import Pod

pytestmark = pytest.mark.controlplane

EXAMPLES, TEAM, NAME = ROOT / "manifests" / "examples", "ml-team", "app.kubernetes.io/name"
CRITICAL = "class.gpu-admission.io/inference-critical"
NODES = [
    *[node(f"whole-{letter}", 8, taints=[GPU_TAINT]) for letter in "abcdef"],
    node("mig", 4, mig={"1g.10gb": 14, "3g.40gb": 4}, taints=[GPU_TAINT]),
    node("sliced", 2, "Tesla-T4", replicas=4, renamed=True, taints=[GPU_TAINT]),
]
CLASS = made(
    "StorageClass",
    "disks",
    annotations={"storageclass.kubernetes.io/is-default-class": "true"},
    provisioner="kubernetes.io/no-provisioner",
    volumeBindingMode="WaitForFirstConsumer",
)
DISKS = [volume(f"disk-{number}", storageClassName="disks", capacity={"storage": "200Gi"}) for number in range(2)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(control_plane: ControlPlane, installed: Installed) -> AsyncIterator[ControlPlane]:
    """Nodes, disks, and what `kubectl apply -k manifests/examples` makes."""
    async with Api.of(control_plane.kubeconfig) as api:

        async def free() -> bool:
            return TEAM not in [found["metadata"]["name"] for found in await api.list("Namespace")]

        await wait_until(free, 120, f"no namespace {TEAM} of another test")
        async with clusters.applied(api, NODES), api.having(CLASS, *DISKS):
            await api.namespace(TEAM)
            await opt_in(api, TEAM)
            control_plane.kubectl("apply", "-k", str(EXAMPLES))
            yield control_plane
            installed.set_policy(SHIPPED)
            control_plane.kubectl("-n", TEAM, "delete", "deployment,job", "--all", "--wait=false")
            await remove_namespace(api, TEAM)


async def bound(api: Api, path: Path) -> dict[str, list[Pod]]:
    """The pods of each workload in a file, once all of them run."""
    found = {}
    for workload in documents(path):
        spec = workload["spec"]
        if "template" in spec:
            name = spec["template"]["metadata"]["labels"][NAME]
            count = spec.get("replicas", spec.get("parallelism", 1))
            found[name] = await api.running(TEAM, count, 120, **{NAME: name})
    return found


def only(pods: dict[str, list[Pod]], name: str) -> Pod:
    (found,) = pods[name]
    return found


# --- What a GPU team begins with ------------------------------------------------------------------------------------------


EVERYWHERE: Json = {"namespaceSelector": {}, "labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
async def test_no_pod_of_the_team_keeps_those_of_others_away(cluster: ControlPlane, api: Api, kind: str) -> None:
    """The API server refuses an affinity to pods of other namespaces; one to pods of its own is everybody's."""

    async def refused() -> bool:
        return "exceeded quota: affinity" in await refusal(api.create(affine(kind, EVERYWHERE), TEAM, dryRun="All"))

    await wait_until(refused, 120, "the quota")
    own = {name: value for name, value in EVERYWHERE.items() if name != "namespaceSelector"}
    await api.create(affine(kind, own), TEAM, dryRun="All")


def affine(kind: str, term: Json) -> Json:
    return pod("a", 0, affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


async def test_the_objects_that_a_team_begins_with_run_within_their_quota(cluster: ControlPlane, api: Api) -> None:
    for name in ("20-inference.yaml", "30-training.yaml"):
        for pods in (await bound(api, EXAMPLES / name)).values():
            assert all(DECISION in pod["metadata"]["annotations"] for pod in pods)
    gpus = "requests.nvidia.com/gpu"

    async def counted() -> bool:
        quotas = {each["metadata"]["name"]: each["status"] for each in await api.list("ResourceQuota", TEAM)}
        used = {name: status["used"].get(gpus) for name, status in quotas.items()}
        assert used == {"gpus": "20", "gpus-inference": "4", "affinity": None}, (
            "the class that the webhook adds counts in its quota"
        )
        return True

    await wait_until(counted, 120, "the quotas to count")


# --- One example for each subject -----------------------------------------------------------------------------------------


def tiers(pods: dict[str, list[Pod]]) -> None:
    names = ("payments", "assistant", "nightly", "playground")
    found = [only(pods, name)["spec"] for name in names]
    classes = ["gpu-inference-critical", "gpu-inference", "gpu-training", "gpu-development"]
    assert [spec["priorityClassName"] for spec in found] == classes
    priorities = [spec["priority"] for spec in found]
    assert priorities == sorted(priorities, reverse=True)
    assert len({*priorities}) == len(names)
    assert [spec["preemptionPolicy"] for spec in found] == 2 * ["PreemptLowerPriority"] + 2 * ["Never"]


EACH = ("mig", "time-slicing", "init-volume", "one-disk", "tiers")


def test_every_example_is_tried() -> None:
    (kept,) = [documents(EXAMPLES / "kustomization.yaml")]
    files = {path.name for path in EXAMPLES.glob("*.yaml")} - {*kept[0]["resources"], "kustomization.yaml"}
    assert files == {f"{name}.yaml" for name in EACH} | {"mistakes.yaml", "ome.yaml", "waiting.yaml"}


@pytest.mark.parametrize("name", EACH)
async def test_an_example_is_applied_and_its_pods_are_bound(
    name: str, cluster: ControlPlane, installed: Installed, api: Api
) -> None:
    path = EXAMPLES / f"{name}.yaml"
    if name == "tiers":
        await api.patch("Namespace", TEAM, {"metadata": {"labels": {CRITICAL: ""}}})
        await wait_until(lambda: entitled(api), 120, "the namespace to be entitled to the first tier")
    await kubectl(cluster, "apply", "-f", str(path))
    try:
        pods = await bound(api, path)
        assert all(DECISION in pod["metadata"]["annotations"] for found in pods.values() for pod in found)
        if name == "tiers":
            tiers(pods)
    finally:
        await kubectl(cluster, "delete", "-f", str(path), "--wait=false")


async def kubectl(cluster: ControlPlane, *arguments: str) -> str:
    """What kubectl says to stderr about the namespace of the examples."""
    return (await asyncio.to_thread(cluster.kubectl, "-n", TEAM, *arguments)).stderr


async def entitled(api: Api) -> bool:
    """The webhook gives the class, and the guard, which may see the label later, accepts it."""
    critical = pod("critical", labels={"workload-type": "inference-critical"})
    try:
        found = await api.create(critical, TEAM, dryRun="All")
    except ApiError:
        return False
    return bool(found["spec"].get("priorityClassName") == "gpu-inference-critical")


@pytest.fixture
def ome(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """The kind that OME installs, without its fields: the API server keeps whatever is written."""
    with cluster.serving(custom("InferenceService", "ome.io", "v1beta1")):
        yield cluster


async def test_an_inference_service_of_ome_is_judged_when_it_is_applied_and_its_pod_is_bound(
    ome: ControlPlane, api: Api
) -> None:
    """OME does not run here. The Deployment that it makes of the engine is made by the test."""
    path = EXAMPLES / "ome.yaml"
    (service,) = documents(path)
    engine = service["spec"]["engine"]
    bad = service | {"spec": {"engine": engine | {"hostPID": True}}, "metadata": {"name": "bad", "namespace": TEAM}}

    async def judged() -> bool:
        said = await asyncio.to_thread(ome.kubectl, "apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(bad))
        return "its pods will be refused: engine.hostPID true" in said.stderr

    await wait_until(judged, 120, "the warning about what OME's pods would be refused for")
    assert "refused" not in await kubectl(ome, "apply", "-f", str(path))
    await api.create(deployment("llama", labels=engine["labels"], container=engine["runner"]), TEAM)
    (found,) = await api.running(TEAM, 1, 120, **{NAME: "llama"})
    assert found["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] == "4"
    assert found["spec"]["priorityClassName"] == "gpu-inference"
    await api.delete("Deployment", "llama", TEAM)

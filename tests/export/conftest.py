"""The exported policies on the control plane, and the objects that the pods of these tests need."""

from collections.abc import Iterator

import orjson
import pytest

from tests.controlplane.api import Api, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import MUTATES
from tests.export.world import EVERY, INSIDE, LABEL, OPERATOR, OUTSIDE, OVERHEAD, POLICY, RUNTIMES, Json, refusal
from tests.manifests.files import objects_of
from webhook.export import export_yaml
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.model import Policy


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this version of Kubernetes does not have, also where the file is named on the command line."""
    left_out = [] if MUTATES else [item for item in items if item.path.name == "test_changes.py"]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="package")
def exported(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The exported policies are in force for one namespace, and the bans for all others but one."""
    text = export_yaml(Policy.load(POLICY), everywhere=True, exclude=[OPERATOR, "default"]).replace(
        PROFILE_LABEL, LABEL
    )
    objects: list[Json] = objects_of(text)
    if not MUTATES:
        objects = [found for found in objects if not found["kind"].startswith("Mutating")]
    for found in objects:  # other tests use this control plane too
        if found["kind"].endswith("Binding"):
            expression = {"key": "export.example/part", "operator": "Exists"}
            found["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"].append(expression)
    before = [
        namespace(INSIDE, {LABEL: "default", "class.gpu-admission.io/labelled": ""}),
        namespace(OUTSIDE, {}),
        namespace(OPERATOR, {}),
        namespace(EVERY, {LABEL: "every"}),
    ]
    for name, value in (
        ("export-high", 5000),
        ("export-low", 50),
        ("export-kept", 60),
        ("export-entitled", 70),
        ("export-labelled", 80),
    ):
        policy = "Never" if name == "export-low" else "PreemptLowerPriority"
        one = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        before.append({**one, "value": value, "preemptionPolicy": policy})
    for name in RUNTIMES:  # the API server refuses an unknown RuntimeClass before any policy
        one = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}}
        before.append({**one, "handler": name, **({"overhead": OVERHEAD[name]} if name in OVERHEAD else {})})
    before.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "exporter", "namespace": INSIDE}})
    control_plane.kubectl("apply", "-f", "-", input="\n---\n".join(orjson.dumps(o).decode() for o in before + objects))
    for name in (INSIDE, OUTSIDE, OPERATOR, EVERY):  # a controller creates it later, and a pod needs it
        control_plane.kubectl("-n", name, "wait", "--for=create", "serviceaccount/default", "--timeout=120s")
    try:
        yield control_plane
    finally:
        everything = "\n---\n".join(orjson.dumps(found).decode() for found in objects + before)
        control_plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", input=everything)


def namespace(name: str, labels: Json) -> Json:
    labels = {"export.example/part": "", **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.fixture
async def server(exported: ControlPlane, api: Api) -> Api:
    """A client, once the policies are in force."""

    async def in_force() -> bool:
        refused = []
        for where in (INSIDE, OUTSIDE):
            bad = pod("probe", container={"securityContext": {"privileged": True}})
            refused.append("[privileged]" in await refusal(api, bad, where))
        found = await api.create(pod("probe"), INSIDE, dryRun="All")
        advised = await api.create(pod("probe", 0, tolerations=[{"operator": "Exists"}]), INSIDE, dryRun="All")
        every = await api.create(pod("probe", 0), EVERY, dryRun="All")
        changed = "sku" in str(found["spec"]["tolerations"]) and "env" in every["spec"]["containers"][0]
        return all(refused) and bool(advised.warnings) and (changed or not MUTATES)

    await wait_until(in_force, 120, "the exported policies to be in force")
    return api

"""What the scheduler's allocator gives, and `try` says before: the cases of tests/devices/test_search.py."""

import asyncio

import pytest

from tests.controlplane.api import Api
from tests.controlplane.clusters import applied
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.plane import ControlPlane
from tests.devices import dra
from tests.devices.test_search import CASES
from tests.e2e.test_devices import where_served
from tests.trying import tried
from webhook.cli.cluster.load import load
from webhook.whatif.answers import KINDS
from webhook.whatif.offline import load_policy

pytestmark = pytest.mark.controlplane
BY_NAME = {f"case-{number}": case for number, case in enumerate(CASES)}


@where_served
async def test_pods_get_devices_exactly_where_they_are_said_to(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    objects, pods = [made("DeviceClass", dra.DRIVER, spec=dra.device_class()["spec"])], list[Json]()
    for name, case in BY_NAME.items():
        devices, requests, _ = case.values
        objects.append(made("ResourceSlice", name, spec=dra.device_slice(name, devices)["spec"]))
        await api.create(made("ResourceClaimTemplate", name, spec=dra.template(name, *requests)["spec"]), namespace)
        claims = [{"name": "gpus", "resourceClaimTemplateName": name}]
        asks = {"resources": {"claims": [{"name": "gpus"}]}}
        pods.append(pod(name, 0, container=asks, nodeSelector={"kubernetes.io/hostname": name}, resourceClaims=claims))
    async with applied(api, [node(name, 0) for name in BY_NAME]), api.having(*objects):

        def said() -> dict[str, bool]:
            snapshot, policy = load(control_plane.kubeconfig, None, KINDS), load_policy()
            outcome = tried(snapshot, policy, pods, namespace, asks=False)
            return {each.plan.of.removeprefix("pod/"): bool(each.bound) for each in outcome.tried}

        told = await asyncio.to_thread(said)
        await asyncio.gather(*[api.create(each, namespace) for each in pods])

        found = await api.tried(namespace, len(pods), sum(told.values()))
        bound = {each["metadata"]["name"]: bool(each["spec"].get("nodeName")) for each in found}
    wanted = {name: case.values[2] for name, case in BY_NAME.items()}
    assert bound == told == wanted, {case.id: bound[name] for name, case in BY_NAME.items()}

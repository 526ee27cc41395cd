"""`gpu-admission top` from outside a cluster: GPU metrics of a Prometheus that is a Service, through the real API server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cli.objects import call
from tests.controlplane.api import Api, wait_until
from tests.controlplane.fixtures import MakeNodes
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.settings import address_of_this_machine
from tests.feeds.prometheus_server import Exporter, Prometheus
from tests.feeds.test_prometheus import program  # noqa: F401  a fixture

pytestmark = pytest.mark.controlplane

BUSY = (Path(__file__).parents[1] / "feeds" / "data" / "dcgm-8-busy.txt").read_text()
NODE = "gpu-a-0"
"""The Hostname in that page."""
READER = ["nodes", "pods", "namespaces", "configmaps", "resourcequotas", "persistentvolumeclaims"]


@pytest.fixture(scope="module")
def prometheus(program: str) -> Iterator[Prometheus]:  # noqa: F811
    with Exporter(BUSY) as exporter:
        with Prometheus(f"127.0.0.1:{exporter.server_address[1]}", address_of_this_machine()) as running:
            yield running
        exporter.shutdown()


@pytest.fixture
async def policy(api: Api, namespace: str, prometheus: Prometheus, tmp_path: Path) -> Path:
    """One that names the Prometheus as a Service of the namespace. The API server passes requests on to pods only
    (pkg/registry/core/service/storage/storage.go, isValidAddress): one stands for it here, which nothing starts."""
    address = address_of_this_machine()
    await api.create(pod("prometheus", 0, schedulingGates=[{"name": "example.com/never"}]), namespace)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await api.patch("Pod", "prometheus", {"status": status}, namespace, subresource="status")
    ports = [{"port": 9090, "targetPort": prometheus.port}]
    await api.create(made("Service", "prometheus", spec={"ports": ports}), namespace)
    target = {"kind": "Pod", "name": "prometheus", "namespace": namespace}
    subset = {"addresses": [{"ip": address, "targetRef": target}], "ports": [{"port": prometheus.port}]}
    await api.create(made("Endpoints", "prometheus", subsets=[subset]), namespace)
    file = tmp_path / "policy.yaml"
    url = f"http://prometheus.{namespace}.svc:9090"
    file.write_text(yaml.safe_dump({"gpuMetrics": {"source": "prometheus", "url": url}}))
    return file


async def shown(kubeconfig: Path, policy: Path) -> tuple[Json, str]:
    """The node in the document, and what stands on stderr."""
    result = await asyncio.to_thread(
        call, "top", "nodes", NODE, "--kubeconfig", kubeconfig, "--policy", policy, "-o", "json"
    )
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["items"][0], result.stderr


async def test_a_service_is_asked_with_the_rights_of_the_kubeconfig(
    control_plane: ControlPlane, api: Api, nodes: MakeNodes, namespace: str, policy: Path
) -> None:
    await nodes([node(NODE)])

    async def measured() -> Json | None:
        found, said = await shown(control_plane.kubeconfig, policy)
        assert {"memory", "utilisation"} <= found.keys(), said  # Prometheus may scrape between two of our queries
        assert found["utilisation"] == 99
        return found

    found = await wait_until(measured, 120, "numbers of the node")
    assert (found["measured"], found["utilisation"], found["temperature"]) == (8, 99, 68)
    assert found["idle"] == 0

    await api.create(made("ServiceAccount", "reader"), namespace)
    kubectl = control_plane.kubectl
    account = f"--serviceaccount={namespace}:reader"
    grant = ["create", "clusterrole", f"reader-{namespace}", "--verb=list", f"--resource={','.join(READER)}"]
    await asyncio.to_thread(kubectl, *grant)
    await asyncio.to_thread(
        kubectl, "create", "clusterrolebinding", f"reader-{namespace}", f"--clusterrole=reader-{namespace}", account
    )
    reader = await asyncio.to_thread(control_plane.kubeconfig_for, namespace, "reader")

    async def lacks() -> bool:  # once the API server knows the other rights
        found, said = await shown(reader, policy)
        assert "utilisation" not in found
        return f"through the API server: no right to get services/proxy in namespace {namespace}. " in said

    await wait_until(lacks, 120, "the right that is missing to be named")

    await asyncio.to_thread(
        kubectl, "-n", namespace, "create", "role", "proxy", "--verb=get", "--resource=services/proxy"
    )
    await asyncio.to_thread(kubectl, "-n", namespace, "create", "rolebinding", "proxy", "--role=proxy", account)

    async def granted() -> Json | None:
        found, _ = await shown(reader, policy)
        return found if "utilisation" in found else None

    assert (await wait_until(granted, 120, "the right"))["utilisation"] == 99
    for kind in ("clusterrole", "clusterrolebinding"):
        await asyncio.to_thread(kubectl, "delete", kind, f"reader-{namespace}")

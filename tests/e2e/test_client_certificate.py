"""The API server says who it is: with `--client-ca` nobody else is heard."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import trustme
import yaml

from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.installed import ROOT, Installed, opt_in

pytestmark = pytest.mark.controlplane

EXAMPLE = ROOT / "manifests" / "optional" / "client-certificate.yaml"


def shown_by_the_api_server(folder: Path, authority: trustme.CA) -> Path:
    """The documented files, for this API server: it calls the webhook by URL here, so the name of the user is `*`."""
    client = authority.issue_cert("kube-apiserver")
    client.private_key_pem.write_to_path(folder / "client.key")
    client.cert_chain_pems[0].write_to_path(folder / "client.crt")
    configuration, kubeconfig = yaml.safe_load_all(EXAMPLE.read_text())
    (user,) = kubeconfig["users"]
    user["name"] = "*"
    user["user"] = {"client-certificate": str(folder / "client.crt"), "client-key": str(folder / "client.key")}
    (folder / "kubeconfig.yaml").write_text(yaml.safe_dump(kubeconfig))
    for plugin in configuration["plugins"]:
        plugin["configuration"]["kubeConfigFile"] = str(folder / "kubeconfig.yaml")
    (folder / "admission.yaml").write_text(yaml.safe_dump(configuration))
    return folder / "admission.yaml"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Installed]]:
    folder, authority = tmp_path_factory.mktemp("certificates"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    configuration = shown_by_the_api_server(folder, authority)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GPU_ADMISSION_CLIENT_CA", str(folder / "ca.crt"))
        options = Options(apiserver=(f"--admission-control-config-file={configuration}",))
        with ControlPlane(find(), options) as plane, Installed(plane) as installed:
            yield plane, installed


async def test_the_api_server_is_heard_and_nobody_else(asked: tuple[ControlPlane, Installed]) -> None:
    plane, installed = asked
    async with Api.of(plane.kubeconfig) as api:
        await clusters.apply(api, clusters.cluster("two-node"))
        await api.namespace("ours")
        await opt_in(api, "ours")
        stored = await api.create(pod("mutated"), "ours")
        assert "gpu-admission.io/decision" in stored["metadata"]["annotations"]
        with pytest.raises(ApiError, match=r"\[hostNamespaces\]"):
            await api.create(pod("thief", hostPID=True), "ours")
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession() as stranger:
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await stranger.post(f"https://127.0.0.1:{installed.ports[0]}/mutate", json={}, ssl=anybody)

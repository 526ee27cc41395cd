"""With `--client-ca` only clients that show a certificate of that authority are served, as the API server does."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
import yaml

from bench.load import anybody
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import find
from tests.controlplane.settings import Options
from tests.installed import ROOT, Installed, decision, opt_in

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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[ControlPlane, Installed]]:
    folder, authority = tmp_path_factory.mktemp("certificates"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    options = Options(apiserver=(f"--admission-control-config-file={shown_by_the_api_server(folder, authority)}",))
    settings = {"GPU_ADMISSION_CLIENT_CA": str(folder / "ca.crt")}
    with ControlPlane(find(), options) as plane, Installed(plane, settings=settings) as installed:
        async with Api.of(plane.kubeconfig) as api:
            await clusters.apply(api, clusters.cluster("two-node"))
        yield plane, installed


async def test_the_api_server_is_heard_and_nobody_else(asked: tuple[ControlPlane, Installed]) -> None:
    plane, installed = asked
    async with Api.of(plane.kubeconfig) as api:
        await api.namespace("ours")
        await opt_in(api, "ours")
        stored = await api.create(pod("mutated"), "ours")
        assert decision(stored)
        with pytest.raises(ApiError, match=r"\[hostNamespaces\]"):
            await api.create(pod("thief", hostPID=True), "ours")
    before = installed.metrics()
    for sent in (b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", b"no HTTP at all\r\n\r\n"):
        for tls in (anybody(), None):
            assert await answer(installed.ports[0], sent, tls) == b""
    after = installed.metrics()
    parsed = ("gpu_admission_http_refused_total", "gpu_admission_review_seconds_count")
    assert [after[name] for name in after if name.startswith(parsed)] == [
        before[name] for name in before if name.startswith(parsed)
    ], "not a byte was parsed: there is neither an answer nor a bad request"


async def answer(port: int, sent: bytes, tls: ssl.SSLContext | None) -> bytes:
    """What comes back to who shows no certificate; in TLS 1.3 a client learns of the refusal when it reads."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(sent)
        return await reader.read()
    except OSError:
        return b""
    finally:
        if writer is not None:
            writer.transport.abort()

"""The whole process: started as a user starts it, called over HTTPS, ended by a signal.

Covers server.process.
"""

import signal
import socket
import ssl
from importlib.resources import files
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import trustme

from tests.cli.objects import kubeconfig as written_kubeconfig
from tests.controlplane.settings import free_port
from tests.feeds.fake_api import FakeApi, fake_api
from tests.server.started import CA, CLUSTER, NOW, REGISTRATION, serving, start
from webhook.errors import GpuAdmissionError
from webhook.feeds.cluster import PATHS
from webhook.server.app import run
from webhook.server.settings import ServeSettings
from webhook.tls.issue import Pair, make_leaf


async def test_offline_it_serves_a_cluster_file_with_the_shipped_policy_and_a_certificate_of_its_own() -> None:
    async with serving("--from", CLUSTER, GPU_ADMISSION_DRAIN_SECONDS="600") as server:
        assert await server.get("/readyz") == (200, "ok\n")
        assert await server.get("/healthz") == (200, "ok\n")
        mutated, _ = await server.ask("mutate")
        assert (mutated["uid"], mutated["allowed"], mutated["patchType"]) == ("u-1", True, "JSONPatch")
        assert (await server.ask("validate"))[0]["uid"] == "u-1"
        metrics = (await server.get("/metrics"))[1]
        assert 'gpu_admission_placements_total{result="chosen"' in metrics
        assert "gpu_admission_cluster_fresh 1.0" in metrics
        assert 'gpu_admission_reservations{state="reserved"} 1.0' in metrics
        status, out, log = await server.end()
    assert (status, out) == (0, b""), "it ends at once, because no API server could still call it"
    events = [line["event"] for line in log]
    assert (events[:2], events[-1], len(events)) == (["policy", "patched"], "terminating", 4)
    assert isinstance(log[-1]["connections"], int)
    assert {line["level"] for line in log} == {"info"}


WRONG = [
    pytest.param({"cluster": "/nowhere"}, "/nowhere: cannot be read", id="no such cluster"),
    pytest.param({"cluster": CLUSTER, "policy": "/nowhere"}, "--policy /nowhere: cannot be read", id="no such policy"),
    pytest.param({"cluster": CLUSTER, "policy": CLUSTER}, "line ", id="a policy that cannot be parsed"),
    pytest.param({"tls_cert": CLUSTER}, "saw --tls-cert alone, wanted --tls-key with it", id="no key"),
    pytest.param({"cluster": CLUSTER, "tls_cert": CLUSTER, "tls_key": CLUSTER}, "no PEM private key", id="no key file"),
    pytest.param({"cluster": CLUSTER, "client_ca": CLUSTER}, "saw no CA certificate for clients", id="no CA file"),
    pytest.param({"cluster": CLUSTER, "kubeconfig": "x"}, "saw --from and --kubeconfig, wanted one", id="two clusters"),
    pytest.param({"kubeconfig": "/nowhere"}, "--kubeconfig /nowhere: ", id="no such kubeconfig"),
    pytest.param({}, "not in a cluster: KUBERNETES_SERVICE_HOST is not set", id="not in a cluster"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
async def test_wrong_settings_are_reported_before_a_port_is_opened(given: dict[str, Any], message: str) -> None:
    with pytest.raises(GpuAdmissionError) as caught:
        await run(ServeSettings(port=0, ops_port=0, **given))
    assert message in str(caught.value)


async def test_ports_may_come_from_the_environment_and_an_interrupt_ends_it_at_once_too() -> None:
    ports = {"port": free_port(), "opsPort": free_port()}
    environment = dict(zip(("GPU_ADMISSION_PORT", "GPU_ADMISSION_OPS_PORT"), map(str, ports.values()), strict=True))
    process = await start("--from", CLUSTER, GPU_ADMISSION_DRAIN_SECONDS="600", **environment)
    assert process.stdout is not None
    assert orjson.loads(await process.stdout.readline()) == ports
    process.send_signal(signal.SIGINT)
    assert ((await process.communicate())[0], process.returncode) == (b"", 0)


async def test_a_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(GpuAdmissionError) as caught:
            await run(ServeSettings(host="127.0.0.1", port=port, ops_port=0, cluster=CLUSTER))
    assert str(caught.value) == f"cannot listen on 127.0.0.1:{port}: Address already in use. Give another --port"


def written(folder: Path, pair: Pair) -> list[str]:
    (folder / "tls.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)
    return ["--tls-cert", str(folder / "tls.pem"), "--tls-key", str(folder / "key.pem")]


async def test_with_client_ca_only_the_webhook_port_requires_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "clients.pem").write_bytes(authority.cert_pem.bytes())
    stranger, known = (ssl.create_default_context(cadata=CA.certificate.decode()) for _ in range(2))
    authority.issue_cert("kube-apiserver").configure_cert(known)
    pair = written(tmp_path, make_leaf(CA, ["localhost"], NOW))
    async with serving("--from", CLUSTER, *pair, "--client-ca", str(tmp_path / "clients.pem")) as server:
        assert (await server.ask("mutate", known))[0]["allowed"] is True
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await server.ask("mutate", stranger)
        assert await server.get("/readyz") == (200, "ok\n")
        assert 'reservations{state="reserved"} 1.0' in (await server.get("/metrics"))[1]


# --- with an API server ---------------------------------------------------------------------------------------------


def install(fake: FakeApi) -> None:
    """Create the objects of `kubectl apply -k manifests/` that the server reads."""
    meta = {"namespace": "gpu-admission"}
    fake.put("/api/v1/namespaces/gpu-admission/secrets", "gpu-admission-tls", metadata=meta)
    fake.put(
        "/api/v1/namespaces/gpu-admission/configmaps",
        "gpu-admission-policy",
        metadata=meta,
        data={"policy.yaml": files("webhook.defaults").joinpath("policy.yaml").read_text()},
    )
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        fake.put(f"{REGISTRATION}/{kind}", "gpu-admission", webhooks=[{"name": "a", "clientConfig": {}}])
    fake.put(PATHS["namespaces"], "ml", metadata={"labels": {"gpu-admission.io/profile": "default"}})


def kubeconfig(folder: Path, fake: FakeApi) -> list[str]:
    return ["--kubeconfig", str(written_kubeconfig(folder, fake.url))]


async def test_with_an_api_server_it_is_ready_when_nothing_is_missing_and_answers_while_it_drains(
    tmp_path: Path,
) -> None:
    async with fake_api() as fake:
        install(fake)
        async with serving(*kubeconfig(tmp_path, fake), GPU_ADMISSION_DRAIN_SECONDS="600") as server:
            secret = fake.objects["/api/v1/namespaces/gpu-admission/secrets"]["gpu-admission-tls"]
            assert set(secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
            hooks = fake.objects[f"{REGISTRATION}/mutatingwebhookconfigurations"]["gpu-admission"]["webhooks"]
            assert hooks[0]["clientConfig"]["caBundle"] == secret["data"]["ca.crt"]
            assert (await server.ask("mutate"))[1] is None
            server.process.send_signal(signal.SIGTERM)
            while (await server.get("/readyz")) == (200, "ok\n"):
                pass
            assert await server.get("/readyz") == (503, "not ready: terminating\n")
            assert await server.get("/healthz") == (200, "ok\n")
            response, connection = await server.ask("mutate")
            assert response["allowed"] is True
            assert connection == "close"
        assert "Bearer abc" in fake.tokens


async def test_after_the_drain_it_ends_cleanly(tmp_path: Path) -> None:
    async with fake_api() as fake:
        install(fake)
        async with serving(*kubeconfig(tmp_path, fake), GPU_ADMISSION_DRAIN_SECONDS="0.1") as server:
            await server.ask("mutate")
            status, out, _ = await server.end()
            assert (status, out) == (0, b"")

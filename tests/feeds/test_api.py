"""The client of the API server: its errors, its credentials, and when it reads them again.

Covers feeds.access.
"""

import asyncio
import gc
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import ClientTimeout

from tests.edge import LEAF, TRUST
from tests.feeds.fake_api import client_of, fake_api
from tests.tls.test_issue import NOW
from webhook.errors import ApiError, BadInput
from webhook.feeds.access import Access, from_kubeconfig, in_cluster
from webhook.feeds.api import Api
from webhook.tls.issue import make_ca

NODES = "/api/v1/nodes"
CA = make_ca(NOW).certificate.decode()
KUBECONFIG = """
clusters: [{{name: a, cluster: {{server: "https://10.0.0.1", certificate-authority: "{ca}"}}}}]
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
users: [{{name: a, user: {{token: abc}}}}]
current-context: a
"""
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_an_error_has_the_request_and_the_message_of_the_server() -> None:
    async with fake_api() as fake, client_of(fake) as api:
        fake.refuse["get", f"{NODES}/a"] = (403, 'nodes "a" is forbidden')
        with pytest.raises(ApiError, match=r'^GET /api/v1/nodes/a: 403: "nodes \\"a\\" is forbidden"$'):
            await api.get(f"{NODES}/a")


ODD = [
    pytest.param(
        {("get", f"{NODES}/a"): (302, "moved")}, {}, '302: "moved"', id="a redirection, which is not followed"
    ),
    pytest.param({}, {f"{NODES}/a": "[1]"}, "wanted a JSON object, saw list", id="a list"),
    pytest.param({("get", f"{NODES}/a"): (500, "x" * 9000)}, {}, "500: ", id="a long text"),
]


@pytest.mark.parametrize(("refuse", "texts", "message"), ODD)
async def test_an_answer_that_is_no_object_is_an_error_of_bounded_length(
    refuse: dict[tuple[str, str], tuple[int, str]], texts: dict[str, str], message: str
) -> None:
    async with fake_api() as fake, client_of(fake) as api:
        fake.put(NODES, "a")
        fake.refuse, fake.texts = refuse, texts
        with pytest.raises(ApiError) as caught:
            await api.get(f"{NODES}/a")
        assert message in str(caught.value)
        assert len(caught.value.reason) <= 4096


async def test_of_a_text_only_the_lines_with_a_word_are_kept() -> None:
    async with fake_api() as fake, client_of(fake) as api:
        fake.texts["/metrics"] = "a 1\nb 2\nab 3\n"
        assert await api.lines("/metrics", "b") == ["b 2", "ab 3"]


async def test_an_unreachable_server_is_an_error_without_a_status() -> None:
    async def nobody() -> Access:
        return Access("http://127.0.0.1:1", None, None, None, 60.0)

    async with Api(nobody) as api:
        with pytest.raises(ApiError, match="GET /api/v1/nodes: ClientConnectorError") as caught:
            await api.get(NODES, limit="1")
    assert caught.value.status == 0


async def test_a_connection_uses_keepalive_to_detect_a_lost_peer() -> None:
    """Without it the loss of the peer's node is noticed after many minutes, or never."""
    async with fake_api() as fake, client_of(fake) as api:
        fake.put(NODES, "a")
        async with api._open(
            "GET", NODES, None, {"watch": "true", "resourceVersion": "1"}, ClientTimeout()
        ) as response:
            assert response.connection is not None
            assert response.connection.transport is not None
            made = response.connection.transport.get_extra_info("socket")
            options = {
                name: made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT", "TCP_NODELAY")
                if hasattr(socket, name)
            }
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert options["TCP_KEEPIDLE"] + options["TCP_KEEPINTVL"] * options["TCP_KEEPCNT"] == 10
            assert options["TCP_USER_TIMEOUT"] == 10_000
            assert options["TCP_NODELAY"] == 1


async def _cut_watch(port: int) -> None:
    async def access() -> Access:
        return Access(f"https://127.0.0.1:{port}", TRUST, None, "localhost", 60.0)

    async with Api(access) as api, api.watch(NODES, 60.0, {}):
        pass


def test_a_watch_that_is_cut_leaves_no_connection_to_a_server_that_does_not_answer(tmp_path: Path) -> None:
    """By TLS an end is agreed upon with the other side."""
    (tmp_path / "tls.pem").write_bytes(LEAF.key + LEAF.certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "tls.pem")
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as other:

        def answer() -> ssl.SSLSocket:
            connection = tls.wrap_socket(server.accept()[0], server_side=True)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
            return connection

        accepted = other.submit(answer)
        asyncio.run(_cut_watch(server.getsockname()[1]))
        gc.collect()  # an open connection would be a ResourceWarning here
        accepted.result().close()


async def test_a_refused_token_is_read_again_at_once() -> None:
    tokens = iter(("old", "new", "newer"))

    async with fake_api() as fake:

        async def access() -> Access:
            return Access(fake.url, None, f"Bearer {next(tokens)}", None, 60.0)

        async with Api(access) as api:
            fake.put(NODES, "a")
            fake.refuse["get", f"{NODES}/a"] = (401, "Unauthorized")
            with pytest.raises(ApiError, match="401"):
                await api.get(f"{NODES}/a")
            fake.refuse.clear()
            await api.get(f"{NODES}/a")
            await api.get(f"{NODES}/a")
        assert fake.tokens == ["Bearer old", "Bearer new", "Bearer new"]


async def test_a_token_is_read_again_when_it_gets_old() -> None:
    tokens = iter(("at the start", "first", "second"))

    async with fake_api() as fake:

        async def access() -> Access:
            return Access(fake.url, None, f"Bearer {next(tokens)}", None, -1.0)

        async with Api(access) as api:
            fake.put(NODES, "a")
            for _ in range(2):
                await api.get(f"{NODES}/a")
        assert fake.tokens == ["Bearer first", "Bearer second"]


def service_account(folder: Path, token: str = "abc\n") -> Path:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(CA)
    return folder


async def test_a_pod_uses_its_service_account_and_reads_the_token_anew(tmp_path: Path) -> None:
    first = await in_cluster(service_account(tmp_path), POD)
    assert (first.base, first.authorization) == ("https://10.0.0.1:443", "Bearer abc")
    second = await in_cluster(service_account(tmp_path, "def"), POD)
    assert second.authorization == "Bearer def"
    assert second.tls is first.tls, "connections are kept while the CA is the same"


async def test_an_ipv6_address_is_put_in_brackets(tmp_path: Path) -> None:
    access = await in_cluster(service_account(tmp_path), {**POD, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert access.base == "https://[fd00::1]:443"


async def test_outside_of_a_cluster_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"not in a cluster: .* Give --kubeconfig FILE or --from FILE"):
        await in_cluster(tmp_path, {})
    with pytest.raises(BadInput, match="token: cannot be read: No such file"):
        await in_cluster(tmp_path, POD)


async def test_the_context_of_a_kubeconfig_is_kept_while_its_files_are_the_same(tmp_path: Path) -> None:
    """Every five minutes it is read again: new connections of all watches would take some memory each time."""
    ca, config = tmp_path / "ca.crt", tmp_path / "config"
    ca.write_text(CA)
    config.write_text(KUBECONFIG.format(ca=ca))
    first, second = await from_kubeconfig(config), await from_kubeconfig(config)
    assert second.tls is first.tls
    ca.write_text(make_ca(NOW).certificate.decode())
    assert (await from_kubeconfig(config)).tls is not first.tls


async def test_a_ca_that_is_none_is_named(tmp_path: Path) -> None:
    (service_account(tmp_path) / "ca.crt").write_text("no certificate")
    with pytest.raises(BadInput, match=r"/ca\.crt: cannot be read: "):
        await in_cluster(tmp_path, POD)


@pytest.mark.parametrize(
    "content", [pytest.param(None, id="missing"), pytest.param("a: [", id="not YAML"), pytest.param("{}", id="empty")]
)
async def test_a_kubeconfig_that_cannot_be_used_is_bad_input(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "config").write_text(content)
    with pytest.raises(BadInput, match=r"--kubeconfig .*config: "):
        await from_kubeconfig(tmp_path / "config")

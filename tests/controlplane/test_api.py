"""The client of the tests, and the objects that they write."""

import asyncio
import gc
import socket
import ssl
from threading import Event, Thread

import pytest
import trustme

from tests.controlplane.api import Api, ApiError, _warning, wait_until
from tests.controlplane.kinds import path


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("Pod", "a", "b", "eviction"), "/api/v1/namespaces/a/pods/b/eviction"),
        (("Pod",), "/api/v1/pods"),
        (("Node", "ignored", "n"), "/api/v1/nodes/n"),
        (("PriorityClass", None, "p"), "/apis/scheduling.k8s.io/v1/priorityclasses/p"),
        (("ValidatingAdmissionPolicy",), "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
        (("Endpoints", "a"), "/api/v1/namespaces/a/endpoints"),
    ],
)
def test_paths_are_those_of_the_api_server(asked: tuple[str, ...], found: str) -> None:
    assert path(*asked) == found


@pytest.mark.parametrize(
    ("asked", "wanted"), [(("Podd",), "'Podd' is not in"), (("Pod", None, "b"), "lives in a namespace")]
)
def test_a_path_that_cannot_be_is_refused(asked: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        path(*asked)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ('299 - "gpu-admission: no"', "gpu-admission: no"),
        (r'299 - "say \"no\" \\ yes"', r'say "no" \ yes'),
        ('299 - ""', ""),
        ("nonsense", "nonsense"),
    ],
)
def test_warnings_are_read_as_they_were_written(header: str, text: str) -> None:
    assert _warning(header) == text


async def test_what_is_awaited_in_vain_is_told_with_what_was_seen() -> None:
    async def never() -> bool:
        assert 2 + 2 == 5, "it is four"
        return True

    with pytest.raises(AssertionError, match=r"five: not within 0\.1 s; last seen: it is four"):
        await wait_until(never, 0.1, "five", every=0.01)


async def test_what_is_not_there_yet_is_awaited_and_another_error_is_not() -> None:
    answers = [ApiError("GET", "/a", 404, {}), ApiError("GET", "/a", 403, {"message": "no"})]

    async def ask() -> bool:
        raise answers.pop(0)

    with pytest.raises(ApiError, match="GET /a: 403"):
        await wait_until(ask, 5, "it", every=0.01)
    assert not answers


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_request_that_is_given_up_leaves_no_socket_open() -> None:
    """The server is busy, and does not agree to the end before the loop has ended."""
    authority, told, over = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), Event()
    authority.issue_cert("localhost").configure_cert(told)
    with socket.create_server(("localhost", 0)) as listening:

        def serve() -> None:
            with told.wrap_socket(listening.accept()[0], server_side=True) as connection:
                connection.recv(100)
                asked.set()
                over.wait()

        asked = Event()
        server = Thread(target=serve)
        server.start()

        async def give_up() -> None:
            async with Api(
                f"https://localhost:{listening.getsockname()[1]}", "token", authority.cert_pem.bytes()
            ) as api:
                request = asyncio.ensure_future(api.request("GET", "/"))
                await asyncio.to_thread(asked.wait)
                request.cancel()
                await asyncio.wait([request])

        asyncio.run(give_up())
        gc.collect()  # a socket that is left is told of now
        over.set()
        server.join()

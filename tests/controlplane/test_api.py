"""The client of the tests, and the objects that they write."""

import pytest

from tests.controlplane.api import wait_until
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


async def test_what_is_awaited_in_vain_is_told_with_what_was_seen() -> None:
    async def never() -> bool:
        assert 2 + 2 == 5, "it is four"
        return True

    with pytest.raises(AssertionError, match=r"five: not within 0\.5 s; last seen: it is four"):
        await wait_until(never, 0.1, "five", every=0.01)

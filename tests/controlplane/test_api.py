"""The client of the tests, and the objects that they write."""

import pytest

from tests.controlplane.api import ApiError, _warning, wait_until
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

"""Parsing a review: the request, or the reason why the review is refused."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import admission_review
from webhook.errors import BadReview
from webhook.kube.review import Request, parse_review

HEAD = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


def body(**tweaks: Any) -> bytes:
    return orjson.dumps(admission_review({"metadata": {}, "spec": {}}, **{"dryRun": False} | tweaks))


def test_a_review_is_read() -> None:
    sent = body(name="a", operation="UPDATE", subResource="ephemeralcontainers", oldObject={"x": 1}, dryRun=True)
    assert parse_review(sent) == Request(
        uid="u-1",
        kind="Pod",
        group="",
        resource="pods",
        subresource="ephemeralcontainers",
        operation="UPDATE",
        namespace="team-a",
        name="a",
        user="jane",
        groups=("dev", "ops"),
        dry_run=True,
        object={"metadata": {}, "spec": {}},
        old={"x": 1},
        size=len(sent),
    )


@pytest.mark.parametrize(
    "tweaks",
    [
        pytest.param({"userInfo": None, "object": None, "dryRun": None}, id="missing"),
        pytest.param({"userInfo": {"username": None, "groups": None, "extra": {"a": ["b"]}}}, id="null"),
        pytest.param({"somethingNew": {"a": 1}, "requestKind": 5}, id="unknown"),
        pytest.param({"userInfo": {"groups": ["a", 5, None]}}, id="groups that are no strings"),
        pytest.param({"oldObject": {}, "object": {}}, id="empty objects"),
    ],
)
def test_missing_null_and_unknown_fields_are_accepted(tweaks: dict[str, Any]) -> None:
    assert parse_review(body(**tweaks)).uid == "u-1"


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_an_old_object_is_read_on_an_update_only(operation: str) -> None:
    """No API server sends one with a CREATE. A forged one must not excuse violations."""
    assert parse_review(body(operation=operation, oldObject={"metadata": {}})).old is None


POD, RESOURCE = {"group": "", "kind": "Pod"}, {"group": "", "resource": "pods"}
DEPLOYMENT = {"kind": {"group": "apps", "kind": "Deployment"}, "resource": {"group": "apps", "resource": "deployments"}}


@pytest.mark.parametrize(
    "tweaks",
    [
        pytest.param({"operation": "UPDATE", "subResource": "status"}, id="the status of a pod"),
        pytest.param({"operation": "UPDATE", "subResource": "resize"}, id="a resize"),
        pytest.param({"kind": {"kind": "Binding"}, "subResource": "binding"}, id="a binding"),
        pytest.param({"kind": {"group": "policy", "kind": "Eviction"}, "subResource": "eviction"}, id="an eviction"),
        pytest.param(
            {"kind": {"kind": "PodExecOptions"}, "subResource": "exec", "operation": "CONNECT"},
            id="exec",
        ),
        pytest.param(DEPLOYMENT, id="a Deployment"),
        pytest.param(
            DEPLOYMENT | {"kind": {"group": "autoscaling", "kind": "Scale"}, "subResource": "scale", "operation": "UPDATE"},
            id="its scale",
        ),
        pytest.param({"kind": {"kind": "Endpoints"}, "resource": {"resource": "endpoints"}}, id="a kind that ends in s"),
        pytest.param(
            {"kind": {"group": "a.io", "kind": "Octopus"}, "resource": {"group": "a.io", "resource": "octopodes"}},
            id="an unknown kind",
        ),
        pytest.param({"object": {"apiVersion": "v1", "kind": "Pod"}}, id="a pod with apiVersion and kind"),
    ],
)  # fmt: skip
def test_a_consistent_review_is_read(tweaks: dict[str, Any]) -> None:
    assert parse_review(body(**tweaks)).uid == "u-1"


@pytest.mark.parametrize(
    ("tweaks", "message"),
    [
        pytest.param({"kind": {"kind": "Service"}}, 'request.kind: saw "Service" of group ""', id="another kind"),
        pytest.param({"kind": {"group": "a.io", "kind": "Pod"}}, 'request.kind: saw "Pod" of', id="another group"),
        pytest.param({"resource": {"group": "a.io", "resource": "pods"}}, "request.kind: saw", id="pods of another group"),
        pytest.param({"resource": {"resource": "configmaps"}}, "request.kind: saw", id="a pod among ConfigMaps"),
        pytest.param(DEPLOYMENT | {"kind": {"group": "apps", "kind": "DaemonSet"}}, "request.kind: saw", id="another workload"),
        pytest.param({"subResource": "binding"}, "request.kind: saw", id="a pod as a binding"),
        pytest.param(
            {"subResource": "ephemeralcontainers"}, "request.operation: saw CREATE of ephemeralcontainers, wanted UPDATE",
            id="a subresource that is created",
        ),
        pytest.param({"operation": "CONNECT"}, "request.operation: saw CONNECT without a subresource", id="a connection"),
        pytest.param({"object": {"kind": "Node"}}, 'request.object.kind: saw "Node", wanted "Pod"', id="another object"),
        pytest.param({"object": {"apiVersion": "apps/v1"}}, 'request.object.apiVersion: saw "apps/v1"', id="of another group"),
        pytest.param(
            {"object": {"metadata": {"namespace": "team-b"}}},
            'request.object.metadata.namespace: saw "team-b", wanted "team-a"', id="of another namespace",
        ),
        pytest.param(
            {"name": "a", "object": {"metadata": {"name": "b"}}}, 'request.object.metadata.name: saw "b", wanted "a"',
            id="of another name",
        ),
        pytest.param(
            {"object": {"metadata": {"name": [None]}}}, "request.object.metadata.name: wanted a string, saw a list",
            id="a list as name",
        ),
        pytest.param(
            {"object": {"metadata": {"generateName": {"a": 1}}}}, "request.object.metadata.generateName: wanted a string",
            id="a map as name",
        ),
        pytest.param(
            {"object": {"metadata": {"namespace": 7}}}, "request.object.metadata.namespace: wanted a string",
            id="a number as namespace",
        ),
        pytest.param(
            {"operation": "UPDATE", "oldObject": {"metadata": {"namespace": "team-b"}}},
            "request.oldObject.metadata.namespace", id="an old object of another namespace",
        ),
    ],
)  # fmt: skip
def test_an_inconsistent_review_is_a_bad_review(tweaks: dict[str, Any], message: str) -> None:
    with pytest.raises(BadReview) as caught:
        parse_review(body(**tweaks))
    assert str(caught.value).startswith(message)


NOT_JSON = [
    b"",
    b"{",
    b'{"a":1}}',
    b"\xff\xfe",
    b'{"request": "\xed\xa0\x80"}',
    b'"\\ud800"',
    b"NaN",
    b'{"a": Infinity}',
    b"1e999",
    b"1" * 5000,
    b"[" * 200_000,
    b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    b"apiVersion: v1",
    b'{"a": 01}',
    b"{'a': 1}",
    b'\xef\xbb\xbf{"a": 1}',
]


@pytest.mark.parametrize(
    "sent",
    NOT_JSON,
    ids=[
        *("nothing", "half a map", "something after the end", "another encoding", "a surrogate in UTF-8"),
        *("half a surrogate pair", "not a number", "infinity", "a number too large", "5000 digits"),
        *("200000 lists deep", "200000 maps deep", "YAML", "a leading zero", "single quotes", "a byte order mark"),
    ],
)
def test_a_body_that_is_no_json_is_refused(sent: bytes) -> None:
    with pytest.raises(BadReview) as caught:
        parse_review(sent)
    assert str(caught.value).startswith("the body is not JSON: ")
    assert str(caught.value).endswith(f"; {len(sent)} bytes were sent")
    assert len(str(caught.value)) < 200


ENVELOPE = 'wanted apiVersion "admission.k8s.io/v1", kind "AdmissionReview"; saw '


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param([], "wanted an AdmissionReview, saw a list", id="a list"),
        pytest.param("x", "wanted an AdmissionReview, saw a string", id="a string"),
        pytest.param(None, "wanted an AdmissionReview, saw nothing", id="null"),
        pytest.param(5, "wanted an AdmissionReview, saw a number", id="a number"),
        pytest.param({}, ENVELOPE + "apiVersion nothing, kind nothing", id="an empty map"),
        pytest.param(
            {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}},
            ENVELOPE + 'apiVersion "admission.k8s.io/v1beta1", kind "AdmissionReview"',
            id="the previous version",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"}, ENVELOPE + 'apiVersion "v1", kind "Pod"', id="a pod without a review"
        ),
        pytest.param(
            {"apiVersion": {"a": ["x"] * 100_000}, "kind": 'a"\n'},
            ENVELOPE + r'apiVersion a map, kind "a\"\n"',
            id="an envelope that would make the answer huge",
        ),
        pytest.param(HEAD, "request: wanted a map, saw nothing", id="no request"),
        pytest.param(HEAD | {"request": []}, "request: wanted a map, saw a list", id="a request that is a list"),
    ],
)
def test_json_that_is_no_review_is_refused(sent: object, message: str) -> None:
    with pytest.raises(BadReview) as caught:
        parse_review(orjson.dumps(sent))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("tweaks", "message"),
    [
        ({"uid": None}, "request.uid: wanted 1 to 128 characters, saw 0"),
        ({"uid": ""}, "request.uid: wanted 1 to 128 characters, saw 0"),
        ({"uid": "x" * 129}, "request.uid: wanted 1 to 128 characters, saw 129"),
        ({"uid": 5}, "request.uid: wanted a string, saw a number"),
        ({"operation": None}, "request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw " + '""'),
        ({"operation": "create"}, 'request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw "create"'),
        ({"operation": ["CREATE"]}, "request.operation: wanted a string, saw a list"),
        ({"kind": "Pod"}, "request.kind: wanted a map, saw a string"),
        ({"kind": {"kind": 5}}, "request.kind.kind: wanted a string, saw a number"),
        ({"kind": {"kind": "Pod", "group": {}}}, "request.kind.group: wanted a string, saw a map"),
        ({"resource": ["pods"]}, "request.resource: wanted a map, saw a list"),
        ({"resource": {"resource": False}}, "request.resource.resource: wanted a string, saw false"),
        ({"subResource": 1}, "request.subResource: wanted a string, saw a number"),
        ({"namespace": ["a"]}, "request.namespace: wanted a string, saw a list"),
        ({"name": {}}, "request.name: wanted a string, saw a map"),
        ({"userInfo": "jane"}, "request.userInfo: wanted a map, saw a string"),
        ({"userInfo": {"username": 1}}, "request.userInfo.username: wanted a string, saw a number"),
        ({"userInfo": {"groups": "a"}}, "request.userInfo.groups: wanted a list, saw a string"),
        ({"dryRun": "false"}, "request.dryRun: wanted true or false, saw a string"),
        ({"object": []}, "request.object: wanted a map, saw a list"),
        ({"object": "pod"}, "request.object: wanted a map, saw a string"),
        ({"operation": "UPDATE", "oldObject": 1}, "request.oldObject: wanted a map, saw a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_request_is_refused_with_the_name_of_the_field(tweaks: dict[str, Any], message: str) -> None:
    with pytest.raises(BadReview) as caught:
        parse_review(body(**tweaks))
    assert str(caught.value) == message


# --- any input --------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=10,
)
REQUEST_KEYS = (
    "uid",
    "kind",
    "resource",
    "subResource",
    "namespace",
    "name",
    "operation",
    "userInfo",
    "object",
    "dryRun",
)


def attempt(sent: bytes) -> None:
    try:
        parse_review(sent)
    except BadReview as error:
        said = str(error)
    else:
        said = "fine"
    assert said.isprintable()
    assert len(said) < 500


@given(st.binary(max_size=200))
def test_any_bytes_are_a_review_or_a_bad_review(sent: bytes) -> None:
    attempt(sent)


@given(JSON)
def test_any_json_is_a_review_or_a_bad_review(value: object) -> None:
    attempt(orjson.dumps(value, default=str))


@given(st.dictionaries(st.sampled_from(REQUEST_KEYS), JSON))
def test_any_request_is_a_review_or_a_bad_review(tweaks: dict[str, Any]) -> None:
    attempt(orjson.dumps(HEAD | {"request": orjson.loads(body())["request"] | tweaks}))


@given(st.integers(0, len(body()) - 1), st.binary(max_size=3), st.integers(0, 3))
def test_a_damaged_review_is_a_review_or_a_bad_review(position: int, inserted: bytes, cut: int) -> None:
    good = body()
    attempt(good[:position] + inserted + good[position + cut :])

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


def refused(sent: bytes) -> str:
    with pytest.raises(BadReview) as caught:
        parse_review(sent)
    return str(caught.value)


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


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
def test_an_old_object_is_read_on_an_update_only(operation: str) -> None:
    """No API server sends one with a CREATE. A forged one must not excuse violations."""
    assert parse_review(body(operation=operation, oldObject={"metadata": {}})).old is None


DEPLOYMENT = {"kind": {"group": "apps", "kind": "Deployment"}, "resource": {"group": "apps", "resource": "deployments"}}
SCALE = {"kind": {"group": "autoscaling", "kind": "Scale"}, "subResource": "scale", "operation": "UPDATE"}
READ = [
    pytest.param({"userInfo": None, "object": None, "dryRun": None}, id="missing fields"),
    pytest.param({"userInfo": {"username": None, "groups": None, "extra": {"a": ["b"]}}}, id="fields that are null"),
    pytest.param({"somethingNew": {"a": 1}, "requestKind": 5}, id="unknown fields"),
    pytest.param({"oldObject": {}, "object": {}}, id="empty objects"),
    pytest.param({"operation": "UPDATE", "subResource": "status"}, id="the status of a pod"),
    pytest.param({"operation": "UPDATE", "subResource": "resize"}, id="a resize"),
    pytest.param({"kind": {"kind": "Binding"}, "subResource": "binding"}, id="a binding"),
    pytest.param({"kind": {"group": "policy", "kind": "Eviction"}, "subResource": "eviction"}, id="an eviction"),
    pytest.param({"kind": {"kind": "PodExecOptions"}, "subResource": "exec", "operation": "CONNECT"}, id="exec"),
    pytest.param(DEPLOYMENT, id="a Deployment"),
    pytest.param(DEPLOYMENT | SCALE, id="its scale"),
    pytest.param({"kind": {"kind": "Endpoints"}, "resource": {"resource": "endpoints"}}, id="a kind that ends in s"),
    pytest.param(
        {"kind": {"group": "a.io", "kind": "Octopus"}, "resource": {"group": "a.io", "resource": "octopodes"}},
        id="an unknown kind",
    ),
    pytest.param({"object": {"apiVersion": "v1", "kind": "Pod"}}, id="a pod with apiVersion and kind"),
]


@pytest.mark.parametrize("tweaks", READ)
def test_a_consistent_review_is_read(tweaks: dict[str, Any]) -> None:
    assert parse_review(body(**tweaks)).uid == "u-1"


PODS_OF_ANOTHER_GROUP = {"group": "a.io", "resource": "pods"}
FORGED = [
    pytest.param({"kind": {"kind": "Service"}}, 'request.kind: saw "Service" of group ""', id="another kind"),
    pytest.param({"kind": {"group": "a.io", "kind": "Pod"}}, 'request.kind: saw "Pod" of', id="another group"),
    pytest.param({"resource": PODS_OF_ANOTHER_GROUP}, "request.kind: saw", id="pods of another group"),
    pytest.param({"resource": {"resource": "configmaps"}}, "request.kind: saw", id="a pod among ConfigMaps"),
    pytest.param(
        DEPLOYMENT | {"kind": {"group": "apps", "kind": "DaemonSet"}}, "request.kind: saw", id="another workload"
    ),
    pytest.param({"subResource": "binding"}, "request.kind: saw", id="a pod as a binding"),
    pytest.param(
        {"subResource": "ephemeralcontainers"},
        "request.operation: saw CREATE of ephemeralcontainers, wanted UPDATE",
        id="a subresource that is created",
    ),
    pytest.param({"operation": "CONNECT"}, "request.operation: saw CONNECT without a subresource", id="a connection"),
    pytest.param({"object": {"kind": "Node"}}, 'request.object.kind: saw "Node", wanted "Pod"', id="another object"),
    pytest.param(
        {"object": {"apiVersion": "apps/v1"}}, 'request.object.apiVersion: saw "apps/v1"', id="of another group"
    ),
    pytest.param(
        {"object": {"metadata": {"namespace": "team-b"}}},
        'request.object.metadata.namespace: saw "team-b", wanted "team-a"',
        id="of another namespace",
    ),
    pytest.param(
        {"name": "a", "object": {"metadata": {"name": "b"}}},
        'request.object.metadata.name: saw "b", wanted "a"',
        id="of another name",
    ),
    pytest.param(
        {"operation": "UPDATE", "oldObject": {"metadata": {"namespace": "team-b"}}},
        "request.oldObject.metadata.namespace",
        id="an old object of another namespace",
    ),
]


@pytest.mark.parametrize(("tweaks", "message"), FORGED)
def test_an_inconsistent_review_is_a_bad_review(tweaks: dict[str, Any], message: str) -> None:
    assert refused(body(**tweaks)).startswith(message)


NOT_JSON = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"{", id="half a map"),
    pytest.param(b'{"a":1}}', id="something after the end"),
    pytest.param(b"\xff\xfe", id="broken UTF-8"),
    pytest.param(b'"\\ud800"', id="half a surrogate pair"),
    pytest.param(b'{"a": Infinity}', id="infinity"),
    pytest.param(b"[" * 200_000, id="200000 lists deep"),
    pytest.param(b"apiVersion: v1", id="YAML"),
]


@pytest.mark.parametrize("sent", NOT_JSON)
def test_a_body_that_is_no_json_is_refused(sent: bytes) -> None:
    said = refused(sent)
    assert said.startswith("the body is not JSON: ")
    assert said.endswith(f"; {len(sent)} bytes were sent")
    assert len(said) < 200


ENVELOPE = 'wanted apiVersion "admission.k8s.io/v1", kind "AdmissionReview"; saw '
NO_REVIEW = [
    pytest.param([], "wanted an AdmissionReview, saw a list", id="a list"),
    pytest.param(None, "wanted an AdmissionReview, saw nothing", id="null"),
    pytest.param({}, ENVELOPE + "apiVersion nothing, kind nothing", id="an empty map"),
    pytest.param(
        HEAD | {"apiVersion": "admission.k8s.io/v1beta1", "request": {}},
        ENVELOPE + 'apiVersion "admission.k8s.io/v1beta1", kind "AdmissionReview"',
        id="the previous version",
    ),
    pytest.param(
        {"apiVersion": {"a": ["x"] * 100_000}, "kind": 'a"\n'},
        ENVELOPE + r'apiVersion a map, kind "a\"\n"',
        id="an envelope that would make the answer huge",
    ),
    pytest.param(HEAD, "request: wanted a map, saw nothing", id="no request"),
]


@pytest.mark.parametrize(("sent", "message"), NO_REVIEW)
def test_json_that_is_no_review_is_refused(sent: object, message: str) -> None:
    assert refused(orjson.dumps(sent)) == message


@pytest.mark.parametrize(
    ("tweaks", "message"),
    [
        ({"uid": None}, "request.uid: wanted 1 to 128 characters, saw 0"),
        ({"uid": "x" * 129}, "request.uid: wanted 1 to 128 characters, saw 129"),
        ({"uid": 5}, "request.uid: wanted a string, saw a number"),
        ({"operation": "create"}, 'request.operation: wanted CREATE, UPDATE, DELETE or CONNECT, saw "create"'),
        ({"kind": "Pod"}, "request.kind: wanted a map, saw a string"),
        ({"kind": {"kind": "Pod", "group": {}}}, "request.kind.group: wanted a string, saw a map"),
        ({"resource": {"resource": False}}, "request.resource.resource: wanted a string, saw false"),
        ({"subResource": 1}, "request.subResource: wanted a string, saw a number"),
        ({"namespace": ["a"]}, "request.namespace: wanted a string, saw a list"),
        ({"name": {}}, "request.name: wanted a string, saw a map"),
        ({"userInfo": {"username": 1}}, "request.userInfo.username: wanted a string, saw a number"),
        ({"userInfo": {"groups": "a"}}, "request.userInfo.groups: wanted a list, saw a string"),
        ({"userInfo": {"groups": ["a", 5]}}, "request.userInfo.groups[1]: wanted a string, saw a number"),
        ({"userInfo": {"groups": [5] * 2001}}, "request.userInfo.groups: wanted at most 2000, saw 2001"),
        ({"dryRun": "false"}, "request.dryRun: wanted true or false, saw a string"),
        ({"object": []}, "request.object: wanted a map, saw a list"),
        ({"object": {"metadata": {"name": [None]}}}, "request.object.metadata.name: wanted a string, saw a list"),
        ({"operation": "UPDATE", "oldObject": 1}, "request.oldObject: wanted a map, saw a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_request_is_refused_with_the_name_of_the_field(tweaks: dict[str, Any], message: str) -> None:
    assert refused(body(**tweaks)) == message


# --- any input --------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=10,
)
REQUESTS = st.dictionaries(
    st.sampled_from(
        [
            *("uid", "kind", "resource", "subResource", "namespace", "name"),
            *("operation", "userInfo", "object", "dryRun"),
        ]
    ),
    JSON,
)
GOOD = body()
DAMAGED = st.builds(
    lambda position, inserted, cut: GOOD[:position] + inserted + GOOD[position + cut :],
    st.integers(0, len(GOOD) - 1),
    st.binary(max_size=3),
    st.integers(0, 3),
)


@given(
    st.binary(max_size=200)
    | JSON.map(lambda value: orjson.dumps(value, default=str))
    | REQUESTS.map(lambda tweaks: orjson.dumps(HEAD | {"request": orjson.loads(GOOD)["request"] | tweaks}))
    | DAMAGED
)
def test_anything_is_a_review_or_a_bad_review(sent: bytes) -> None:
    said = "fine"
    try:
        parse_review(sent)
    except BadReview as error:
        said = str(error)
    assert said.isprintable()
    assert len(said) < 500

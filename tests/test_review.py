from __future__ import annotations

from base64 import b64decode
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.decision import Decision
from webhook.errors import BadReview
from webhook.review import Request, allowed, denied, ending, object_of, objects_of, parse, patched, warned

HEAD = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


def body(**tweaks: Any) -> bytes:
    """A review of a pod on its way, with other fields of the request; None leaves one out."""
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "team-a",
        "operation": "CREATE",
        "userInfo": {"username": "jane", "groups": ["dev", "ops"]},
        "object": {"metadata": {}, "spec": {}},
        "dryRun": False,
    } | tweaks
    return orjson.dumps(HEAD | {"request": {k: v for k, v in request.items() if v is not None}})


def test_a_review_is_read() -> None:
    text = body(name="a", subResource="ephemeralcontainers", oldObject={"x": 1}, dryRun=True)
    assert parse(text) == Request(
        uid="u-1",
        kind="Pod",
        group="",
        resource="pods",
        subresource="ephemeralcontainers",
        operation="CREATE",
        namespace="team-a",
        name="a",
        user="jane",
        groups=("dev", "ops"),
        dry_run=True,
        object={"metadata": {}, "spec": {}},
        old={"x": 1},
        size=len(text),
    )


@pytest.mark.parametrize(
    "tweaks",
    [
        pytest.param({"kind": None, "resource": None, "userInfo": None, "object": None, "dryRun": None}, id="missing"),
        pytest.param({"userInfo": {"username": None, "groups": None, "extra": {"a": ["b"]}}}, id="null"),
        pytest.param({"somethingNew": {"a": 1}, "requestKind": 5}, id="unknown"),
        pytest.param({"userInfo": {"groups": ["a", 5, None]}}, id="groups that are no strings"),
        pytest.param({"oldObject": {}, "object": {}}, id="empty objects"),
    ],
)
def test_fields_that_are_not_needed_do_no_harm(tweaks: dict[str, Any]) -> None:
    assert parse(body(**tweaks)).uid == "u-1"


def test_an_object_that_is_not_there_is_none() -> None:
    request = parse(body(operation="DELETE", object=None, oldObject={"metadata": {}}))
    assert request.object is None
    assert request.old == {"metadata": {}}


def test_a_second_copy_shares_nothing_with_the_first() -> None:
    sent = body(oldObject={"b": 1})
    first, second = parse(sent).object, object_of(sent)
    assert first == second
    assert first is not second
    assert objects_of(sent) == [second, {"b": 1}]
    assert objects_of(body(object=None)) == []


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
def test_what_is_not_json_is_refused(sent: bytes) -> None:
    with pytest.raises(BadReview) as caught:
        parse(sent)
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
            id="the version before",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"}, ENVELOPE + 'apiVersion "v1", kind "Pod"', id="a pod without a review"
        ),
        pytest.param(
            {"apiVersion": {"a": ["x"] * 100_000}, "kind": 'a"\n'},
            ENVELOPE + r'apiVersion a map, kind "a\"\n"',
            id="an envelope that would fill the answer",
        ),
        pytest.param(HEAD, "request: wanted a map, saw nothing", id="no request"),
        pytest.param(HEAD | {"request": []}, "request: wanted a map, saw a list", id="a request that is a list"),
    ],
)
def test_what_is_no_review_is_refused(sent: object, message: str) -> None:
    with pytest.raises(BadReview) as caught:
        parse(orjson.dumps(sent))
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
        ({"kind": {"group": {}}}, "request.kind.group: wanted a string, saw a map"),
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
        ({"oldObject": 1}, "request.oldObject: wanted a map, saw a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_request_is_refused_by_the_name_of_its_field(tweaks: dict[str, Any], message: str) -> None:
    with pytest.raises(BadReview) as caught:
        parse(body(**tweaks))
    assert str(caught.value) == message


# --- answers: the API server wants just this --------------------------------------------------------------------------

START = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u-1",'


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(allowed("u-1"), b'"allowed":true}}', id="allowed: neither patch nor patchType"),
        pytest.param(
            allowed("u-1", ending(warned([]))), b'"allowed":true}}', id="no warnings and no annotations leave no field"
        ),
        pytest.param(
            allowed("u-1", ending(warned(["a", "b"]), b'"{}"')),
            b'"allowed":true,"warnings":["a","b"],"auditAnnotations":{"decision":"{}"}}}',
            id="allowed with warnings and audit annotations",
        ),
        pytest.param(
            patched("u-1", b"W10="),
            b'"allowed":true,"patchType":"JSONPatch","patch":"W10="}}',
            id="patched: both patch and patchType",
        ),
        pytest.param(
            denied("u-1", b'"pod \\"a\\"', b': no \\"x\\""}' + ending()),
            b'"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"pod \\"a\\": no \\"x\\""}}}',
            id="denied",
        ),
        pytest.param(
            denied("u-1", b'"pod', b': no"}' + ending(warned(["w"]), b'"b"')),
            b'"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"pod: no"},'
            b'"warnings":["w"],"auditAnnotations":{"decision":"b"}}}',
            id="denied, with warnings and audit annotations",
        ),
    ],
)
def test_the_whole_answer(answer: bytes, want: bytes) -> None:
    assert answer == START + want


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=128))
def test_the_uid_comes_back_as_it_was(uid: str) -> None:
    assert orjson.loads(allowed(parse(body(uid=uid)).uid))["response"]["uid"] == uid


@given(st.binary())
def test_a_patch_comes_back_as_it_was(patch: bytes) -> None:
    decision = Decision("patched")
    decision.patch = patch
    assert decision.encoded is not None
    assert b64decode(orjson.loads(patched("u", decision.encoded))["response"]["patch"]) == decision.patch == patch


# --- whatever is sent -------------------------------------------------------------------------------------------------

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
        parse(sent)
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

"""A body fills in a form only where nothing that is not a blank differs."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.form import LARGEST, Form, marked

LETTERS = "abcde"


def body(uid: str = "u-1", letters: str = LETTERS, time: str = "2026-01-01T00:00:00Z", **changes: Any) -> bytes:
    """A review as the API server writes it, of a pod with two containers. `changes`: other fields of its metadata."""
    volume = f"kube-api-access-{letters}"
    managed = [{"manager": "m", "operation": "Update", "time": time, "fieldsType": "FieldsV1"}]
    metadata = {"generateName": "web-", "labels": {"app": "web"}, "managedFields": managed} | changes
    containers = [{"name": name, "volumeMounts": [{"name": volume}]} for name in ("main", "side")]
    pod = {"metadata": metadata, "spec": {"volumes": [{"name": volume}], "containers": containers}}
    request = {"uid": uid, "namespace": "team", "userInfo": {"username": "jane"}, "object": pod}
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})


def form(first: bytes) -> Form:
    mark = marked(first)
    assert mark is not None
    return Form.of(first, mark)


FIRST = body()
STRANGERS = [
    pytest.param(body(labels={"app": "bew"}), id="a label of the same length"),
    pytest.param(body(labels={"app": "webs"}), id="a longer label"),
    pytest.param(body(time="2026-01-01T00:00:00+"), id="a time that is none"),
    pytest.param(body(letters="ab-de"), id="letters of the token that are none"),
    pytest.param(
        FIRST.replace(b's":[{"name":"kube-api-access-abcde', b's":[{"name":"kube-api-access-abcdf', 1),
        id="another volume",
    ),
    pytest.param(FIRST.replace(b'"jane"', b'"john"'), id="another user"),
    pytest.param(FIRST.replace(b'"team"', b'"beam"'), id="another namespace"),
    pytest.param(FIRST[:-1] + b" ", id="another last byte"),
    pytest.param(FIRST + b"x", id="more bytes"),
    pytest.param(FIRST[:-1], id="fewer bytes"),
]
NO_FORMS = [
    pytest.param(b"", id="nothing"),
    pytest.param(FIRST[:60], id="a part"),
    pytest.param(FIRST.replace(b"generateName", b"name"), id="a pod with a name of its own"),
    pytest.param(body(uid="u" * 129), id="a uid that is too long"),
    pytest.param(body(uid=""), id="an empty uid"),
    pytest.param(body(uid="u\u00e41"), id="a uid with other characters"),
    pytest.param(body(uid='u"'), id="a uid with a quote"),
    pytest.param(FIRST.replace(b'{"uid"', b'{"a":1,"uid"'), id="a uid that does not come first"),
    pytest.param(body(annotations={"a": "x" * LARGEST}), id="a large body"),
]


@pytest.mark.parametrize("other", STRANGERS)
def test_a_body_that_differs_elsewhere_does_not_fit(other: bytes) -> None:
    assert not form(FIRST).fits(other)


@pytest.mark.parametrize("found", NO_FORMS)
def test_what_the_api_server_would_not_send_for_a_replica_is_no_form(found: bytes) -> None:
    assert marked(found) is None


def test_the_letters_of_another_token_in_the_fixed_text_do_not_become_its_own() -> None:
    """The first pod names a stranger's volume; of the second it would be its own."""
    first = body(annotations={"a": "kube-api-access-fghij"})
    assert not form(first).fits(body(letters="fghij", annotations={"a": "kube-api-access-fghij"}))
    assert form(first).fits(body(uid="u-2", annotations={"a": "kube-api-access-fghij"}))


def test_a_time_in_a_label_is_fixed() -> None:
    first = body(annotations={"time": "2026-01-01T00:00:00Z"})
    assert not form(first).fits(body(annotations={"time": "2026-01-01T00:00:01Z"}))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(body(uid="u-2"), id="another uid"),
        pytest.param(body(letters="fghij"), id="the volume of another token"),
        pytest.param(body(time="2027-12-31T23:59:59Z"), id="another time"),
        pytest.param(body("u-2", "fghij", "2027-12-31T23:59:59Z"), id="all of them"),
    ],
)
def test_a_replica_fits_the_form_of_the_first(other: bytes) -> None:
    first, second = marked(FIRST), marked(other)
    assert first is not None
    assert second is not None
    assert first.head == second.head
    assert form(FIRST).fits(other)


@given(st.data())
def test_what_fits_is_the_same_but_for_the_blanks(data: st.DataObject) -> None:
    """One byte or a few of a body are changed anywhere: it fits exactly where the two are equal without their blanks."""
    other = bytearray(body("u-2", "fghij", "2027-12-31T23:59:59Z"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(other) - 1))
        other[at] = data.draw(st.sampled_from(b'abcdefghijk-019TZ:"{}[],\\'))
    assert form(FIRST).fits(bytes(other)) <= (_blanked(bytes(other)) == _blanked(FIRST))


def _blanked(found: bytes) -> bytes:
    for pattern in (
        rb'(?<="request":{"uid":").{3}',
        rb'(?<="time":")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?=","fieldsType")',
    ):
        found = re.sub(pattern, b"", found)
    names = set(re.findall(rb'"kube-api-access-([a-zA-Z0-9]{5})"', found))
    return found.replace(names.pop(), b"") if len(names) == 1 else found

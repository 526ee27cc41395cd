"""A body fills in a form only where nothing that is not a blank differs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.form import LARGEST, Form, marked
from webhook.pod import DECISION

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
    return Form(first, mark)


def fits(known: Form, other: bytes) -> bool:
    return known.filled(other) is not None


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
    pytest.param(body(uid="u\u00e41"), id="a uid with other characters"),
    pytest.param(body(uid='u"'), id="a uid with a quote"),
    pytest.param(FIRST + b"x", id="more bytes"),
    pytest.param(FIRST[:-1], id="fewer bytes"),
]
NO_FORMS = [
    pytest.param(b"", id="nothing"),
    pytest.param(FIRST[:60], id="a part"),
    pytest.param(FIRST.replace(b"generateName", b"name"), id="a pod with a name of its own"),
    pytest.param(body(uid="u" * 129), id="a uid that is too long"),
    pytest.param(body(uid=""), id="an empty uid"),
    pytest.param(FIRST.replace(b'{"uid"', b'{"a":1,"uid"'), id="a uid that does not come first"),
    pytest.param(body(annotations={"a": "x" * LARGEST}), id="a large body"),
]


@pytest.mark.parametrize("other", STRANGERS)
def test_a_body_that_differs_elsewhere_does_not_fit(other: bytes) -> None:
    assert form(FIRST).filled(other) is None


@pytest.mark.parametrize("found", NO_FORMS)
def test_what_the_api_server_would_not_send_for_a_replica_is_no_form(found: bytes) -> None:
    assert marked(found) is None


def test_the_letters_of_another_token_in_the_fixed_text_do_not_become_its_own() -> None:
    """The first pod names a stranger's volume; of the second it would be its own."""
    first = body(annotations={"a": "kube-api-access-fghij"})
    assert not fits(form(first), body(letters="fghij", annotations={"a": "kube-api-access-fghij"}))
    assert fits(form(first), body(uid="u-2", annotations={"a": "kube-api-access-fghij"}))


def test_a_time_in_a_label_is_fixed() -> None:
    first = body(annotations={"time": "2026-01-01T00:00:00Z"})
    assert not fits(form(first), body(annotations={"time": "2026-01-01T00:00:01Z"}))


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
    assert fits(form(FIRST), other)


@given(st.data())
def test_what_fits_is_the_same_but_for_the_blanks(data: st.DataObject) -> None:
    """One byte or a few of a body are changed anywhere: it fits exactly where the two are equal without their blanks."""
    other = bytearray(body("u-2", "fghij", "2027-12-31T23:59:59Z"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(other) - 1))
        other[at] = data.draw(st.sampled_from(b'abcdefghijk-019TZ:"{}[],\\'))
    assert fits(form(FIRST), bytes(other)) <= (_blanked(bytes(other)) == _blanked(FIRST))


def _blanked(found: bytes) -> bytes:
    for pattern in (
        rb'(?<="request":{"uid":")[\w.:-]+(?=")',
        rb'(?<="time":")[\w.:-]+(?=","fieldsType")',
    ):
        found = re.sub(pattern, b"", found)
    names = set(re.findall(rb'"kube-api-access-([a-zA-Z0-9]{5})"', found))
    return found.replace(names.pop(), b"") if len(names) == 1 else found


# --- of pods that have been through the mutating hooks ----------------------------------------------------------------

DATA = Path(__file__).parent / "data"
STORED = [(DATA / f"validate-{number}.json").read_bytes() for number in (1, 2, 3)]
RECORD = b'"gpu-admission.io/decision":"'


def stored_form(first: bytes) -> Form:
    mark = marked(first, stored=True)
    assert mark is not None
    return Form(first, mark)


def object_name(found: bytes) -> bytes:
    """The name of the pod, which the request has too."""
    name = orjson.loads(found)["request"]["object"]["metadata"]["name"].encode()
    assert found.count(b'"name":"%b"' % name) == 2
    return name


def with_record(record: bytes) -> bytes:
    start = STORED[1].index(RECORD) + len(RECORD)
    return STORED[1][:start] + record + STORED[1][STORED[1].index(b'"},"ownerReferences"') :]


@pytest.mark.parametrize("hook", ["mutate", "validate"])
def test_replicas_fill_in_the_form_of_the_first_as_the_api_server_writes_them(hook: str) -> None:
    bodies = [(DATA / f"{hook}-{number}.json").read_bytes() for number in (1, 2, 3)]
    marks = [marked(body, stored=hook == "validate") for body in bodies]
    assert len({mark.head for mark in marks if mark}) == 1
    assert marks[0] is not None
    assert [fits(Form(bodies[0], marks[0]), body) for body in bodies] == [True] * 3


SAME = [
    pytest.param(STORED[1].replace(object_name(STORED[1]), b"two-5c8c99d8bb-longer"), id="a longer name"),
    pytest.param(STORED[1].replace(b'"two-b"', b'"gpu-node-12.example"'), id="a node with a longer name"),
    pytest.param(with_record(b""), id="an empty record"),
    pytest.param(with_record(rb"{\"policy\":\"\u00e4\"}"), id="another record"),
    pytest.param(with_record("ä".encode()), id="a record with other characters"),
    pytest.param(STORED[1].replace(b'"creationTimestamp":"2026', b'"creationTimestamp":"2027'), id="another time"),
]
OTHERS = [
    pytest.param(
        STORED[1].replace(object_name(STORED[1]), b"two-5c8c99d8bb-other", 1), id="a request for another name"
    ),
    pytest.param(STORED[1].replace(object_name(STORED[1]), b"two_5"), id="a name that is none"),
    pytest.param(STORED[1].replace(object_name(STORED[1]), b'two\\"'), id="a name with a quote"),
    pytest.param(STORED[1].replace(b'"two-b"', b'"two-b","two-c"'), id="two nodes in one term"),
    pytest.param(STORED[1].replace(b'"weight":100', b'"weight":101'), id="another weight"),
    pytest.param(STORED[1].replace(b'"qosClass":"BestEffort"', b'"qosClass":"Guaranteed"'), id="another end"),
    pytest.param(with_record(b'{","evil":"'), id="a record that ends early"),
    pytest.param(with_record(b"\\"), id="a record that does not end"),
    pytest.param(with_record(b"\xff"), id="a record that is no text"),
    pytest.param(with_record(b"\n"), id="a record that is no JSON"),
    pytest.param(STORED[1][: STORED[1].index(RECORD)], id="nothing from the record on"),
]


@pytest.mark.parametrize("other", SAME)
def test_what_differs_from_pod_to_pod_may_be_longer_or_shorter(other: bytes) -> None:
    assert fits(stored_form(STORED[0]), other)


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_blank_may_not_differ(other: bytes) -> None:
    assert not fits(stored_form(STORED[0]), other)


def test_the_sample_of_a_form_fills_it_in_with_what_nobody_has() -> None:
    found = stored_form(STORED[0])
    blanks, mine = found.filled(found.sample()), found.filled(STORED[0])
    assert blanks is not None
    assert mine is not None
    assert not [blank for blank, own in zip(blanks, mine, strict=True) if blank == own]


@given(st.data())
def test_a_stored_pod_that_fits_is_the_same_but_for_the_blanks(data: st.DataObject) -> None:
    other = bytearray(STORED[1])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(other) - 1))
        other[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3)) + data.draw(
            st.sampled_from([b"", b'"', b"\\", b'","a":"', b"{", b"}"])
        )
    if fits(stored_form(STORED[0]), bytes(other)):
        assert _unsaid(orjson.loads(bytes(other))) == _unsaid(orjson.loads(STORED[0]))


def _unsaid(review: Any) -> Any:
    """A review without what the blanks say."""
    request = review["request"]
    metadata, spec = request["object"]["metadata"], request["object"]["spec"]
    assert request["name"] == metadata["name"]
    assert isinstance(metadata["annotations"].pop("gpu-admission.io/decision"), str)
    for key in ("uid", "name"):
        del request[key]
    for key in ("uid", "name", "creationTimestamp"):
        del metadata[key]
    del metadata["managedFields"][0]["time"]
    for volume in (*spec["volumes"], *spec["containers"][0]["volumeMounts"]):
        assert volume.pop("name").startswith("kube-api-access-")
    for term in spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]:
        (field,) = term["preference"]["matchFields"]
        (_,) = field.pop("values")
    return review


RECORD = {"policy": "p", "nodes": [["gpu-a1", 8, 0, 1.0], ["gpu-a2", 6, 1, 0.5]], "of": 2}


def promised(record: Any, *nodes: str) -> bytes:
    """A stored pod that names these nodes, by falling weight, with this record."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in nodes]
    annotations = {DECISION: record if isinstance(record, str) else orjson.dumps(record).decode()}
    own = {"name": "web-x", "generateName": "web-", "uid": "1", "annotations": annotations}
    request = {"uid": "u-1", "object": {"metadata": own, "spec": {"affinity": terms}}}
    found = orjson.dumps({"kind": "AdmissionReview", "request": request})
    return found.replace(b'"generateName":"web-","uid"', b'"generateName":"web-","namespace":"team","uid"')


@pytest.mark.parametrize(
    ("other", "node"),
    [
        pytest.param(promised(RECORD, "gpu-a1", "gpu-a2"), "gpu-a1", id="the first of both"),
        pytest.param(promised(RECORD | {"policy": "another"}, "gpu-a1", "gpu-a2"), "gpu-a1", id="a longer record"),
        pytest.param(promised(RECORD, "gpu-a2", "gpu-a1"), None, id="another order"),
        pytest.param(promised(RECORD, "gpu-a", "gpu-a2"), None, id="the beginning of its name"),
        pytest.param(promised(RECORD | {"nodes": []}, "gpu-a1", "gpu-a2"), None, id="no nodes"),
        pytest.param(promised({"policy": "nodes"}, "gpu-a1", "gpu-a2"), None, id="no list"),
        pytest.param(promised({"x": '"nodes":[["gpu-a1",8'}, "gpu-a1", "gpu-a2"), None, id="a text that looks so"),
        pytest.param(promised("", "gpu-a1", "gpu-a2"), None, id="an empty one"),
    ],
)
def test_the_first_node_is_known_where_record_and_spec_agree(other: bytes, node: str | None) -> None:
    first = promised(RECORD, "gpu-a1", "gpu-a2")
    mark = marked(first, stored=True)
    assert mark is not None
    known = Form(first, mark)
    where = known.where(first, "gpu-a1")
    blanks = known.filled(other)
    assert blanks is not None
    assert known.recorded(blanks, where) == node


@pytest.mark.parametrize("node", ["gpu-a3", "", None])
def test_a_node_that_no_blank_or_several_have_is_nowhere(node: str | None) -> None:
    twice = promised(RECORD, "gpu-a1", "gpu-a1")
    mark = marked(twice, stored=True)
    assert mark is not None
    assert Form(twice, mark).where(twice, node) == Form(twice, mark).where(twice, "gpu-a1") == -1
    assert Form(twice, mark).recorded(Form(twice, mark).filled(twice) or [], -1) is None

"""The decision record: its content, and what is read back from it."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.admission.record import MAX_RECORD_BYTES, encoded, record, refusal_message, warnings
from webhook.framework.cluster_view import Placement, Ranked
from webhook.framework.interface import Finding, Outcome

OUTCOMES = {"gpuResources": Outcome("equal"), "tolerations": Outcome("added", ["nvidia.com/gpu"], "a warning")}
START = (
    '{"policy":"1f0c","profile":"default","class":"inference",'
    '"units":{"gpuResources":["equal"],"tolerations":["added",["nvidia.com/gpu"]]}'
)


@pytest.mark.parametrize(
    ("placement", "rest"),
    [
        pytest.param(None, "}", id="nothing was placed"),
        pytest.param(
            Placement((), "off", "the policy leaves it to the scheduler"),
            ',"strategy":"off","why":"the policy leaves it to the scheduler"}',
            id="no node, and why",
        ),
        pytest.param(
            Placement((), "pack", "no node fits", total=9, rejected=(("too few free GPUs", 7), ("cordoned", 2))),
            ',"strategy":"pack","why":"no node fits","rejected":[["too few free GPUs",7],["cordoned",2]]}',
            id="no node fits: a histogram",
        ),
        pytest.param(
            Placement((Ranked("a1", 8, 0, 1 / 3), Ranked("a2", 6, 1, -2.0)), "spread", weights=(100, 60), total=12),
            ',"strategy":"spread","nodes":[["a1",8,0,0.333],["a2",6,1,-2.0]],"of":12}',
            id="nodes, best first, with the numbers used",
        ),
    ],
)
def test_the_record_is_small_json_in_a_fixed_order(placement: Placement | None, rest: str) -> None:
    assert encoded(record("1f0c", "default", "inference", OUTCOMES, placement)) == START + rest


def ranked(count: int, length: int = 10) -> Placement:
    return Placement(tuple(Ranked(f"{i:0{length}}", 8, 0, 1.0) for i in range(count)), "pack", total=count)


@pytest.mark.parametrize("length", [10, 100, 253], ids=["short names", "long names", "the longest names"])
def test_a_record_that_is_too_large_first_loses_its_last_nodes(length: int) -> None:
    text = encoded(record("p", "default", "c", OUTCOMES, ranked(40, length)))
    found = orjson.loads(text)
    assert len(text.encode()) <= MAX_RECORD_BYTES
    assert [n[0] for n in found["nodes"]] == [f"{i:0{length}}" for i in range(len(found["nodes"]))]
    assert len(found["nodes"]) > 1
    assert found["units"]["tolerations"] == ["added", ["nvidia.com/gpu"]], (
        "details of units stay if it is enough to leave out nodes"
    )
    assert found["of"] == 40


def test_a_record_that_is_still_too_large_loses_the_details_of_units() -> None:
    outcomes = {"priorityClass": Outcome("kept", "x" * 5000), "tolerations": Outcome("added", ["a"])}
    found = orjson.loads(encoded(record("p", "default", "c", outcomes, ranked(3))))
    assert found["units"] == {"priorityClass": ["kept"], "tolerations": ["added"]}
    assert len(found["nodes"]) == 1


def test_encoding_does_not_change_its_input() -> None:
    found = record("p", "default", "c", {"a": Outcome("b", "x" * 5000)}, ranked(40))
    before = orjson.dumps(found)
    encoded(found)
    assert orjson.dumps(found) == before


# --- words ------------------------------------------------------------------------------------------------------------


def test_warnings_have_the_form_that_the_api_server_accepts() -> None:
    texts = [None, "", "one", "one", "two\nlines", "x" * 200, "é\x1b[31m", "five", "six"]
    assert warnings(texts) == ["one", "two lines", "x" * 200, "é [31m", "five", f"1 more warning {LEFT_OUT}six: {ALL}"]


LEFT_OUT, ALL = "left out here, of ", "gpu-admission try shows all"


def test_a_warning_that_is_too_long_is_cut_and_of_too_many_the_last_are_counted() -> None:
    texts = ["a: 1", "long: " + "x" * 300, "longer: " + "x" * 400, "b: 2", "c: 3", "d: 4", "e: 5", "e: 6"]
    first = ["a: 1", "long: " + "x" * 300, "longer: " + "x" * 332 + "…", "b: 2", "c: 3"]
    assert warnings(texts) == [*first, f"3 more warnings {LEFT_OUT}d, e (2): {ALL}"]


@given(st.lists(st.none() | st.text() | st.integers(200, 500).map(lambda n: f"{n}" * n), max_size=20))
def test_warnings_are_few_short_lines(texts: list[str | None]) -> None:
    found = warnings(texts)
    assert len(found) <= 6
    assert len(set(found)) == len(found)
    assert all(line and line.isprintable() for line in found)
    assert sum(map(len, found)) <= 2048, "those of both hooks are no more than the API server shows whole"


def finding(number: int) -> tuple[str, Finding]:
    return "gpuLimit", Finding(f"spec.containers[{number}]", "9 GPUs", "at most 8", "Ask for fewer")


def test_one_finding_is_one_line() -> None:
    assert refusal_message([finding(0)], "1f0c") == (
        "spec.containers[0]: saw 9 GPUs, wanted at most 8. Ask for fewer. [gpuLimit] (policy 1f0c)"
    )


def test_several_findings_are_a_list() -> None:
    assert refusal_message([finding(0), finding(1)], "1f0c") == (
        "2 problems (policy 1f0c):\n"
        "- spec.containers[0]: saw 9 GPUs, wanted at most 8. Ask for fewer. [gpuLimit]\n"
        "- spec.containers[1]: saw 9 GPUs, wanted at most 8. Ask for fewer. [gpuLimit]"
    )


def test_of_very_many_findings_the_first_are_shown_and_the_rest_are_counted() -> None:
    lines = refusal_message(map(finding, range(100)), "1f0c").splitlines()
    assert lines[0] == "100 problems (policy 1f0c):"
    assert len(lines) == 22
    assert lines[-1] == "- … and 80 more"

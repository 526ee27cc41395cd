"""The answers of a Prometheus: which series tell of a node, and what is no sample."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.feeds.gpu_source import SourceFailed
from webhook.feeds.prometheus import node_of, series, vector
from webhook.nodes.gpu_metrics import GpuMetricsSettings


@pytest.mark.parametrize(
    ("labels", "node"),
    [
        pytest.param({}, None, id="no label"),
        pytest.param({"Hostname": 7}, None, id="a number"),
        pytest.param({"Hostname": "Node A"}, None, id="no valid node name"),
        pytest.param({"Hostname": "a\nb"}, None, id="a name with a line break"),
        pytest.param({"Hostname": "gpu-a-0"}, "gpu-a-0", id="Hostname of a newer exporter"),
        pytest.param({"Hostname": "nvidia-dcgm-exporter-cwbcm"}, "gpu-a-1", id="the pod's name, of an older exporter"),
        pytest.param({"node": "gpu-a-2", "Hostname": "x"}, "gpu-a-2", id="the label `node` before Hostname"),
        pytest.param({"node": "", "Hostname": "gpu-a-0"}, "gpu-a-0", id="a label without a value"),
        pytest.param({"Hostname": "a" * 254}, None, id="an endless name"),
        pytest.param({"instance": "10.0.0.7:9400"}, "gpu-a-1", id="the address of the exporter"),
        pytest.param({"instance": "[fd00::7]:9400"}, "gpu-a-3", id="its IPv6 address"),
        pytest.param({"instance": "gpu-a-4:9400"}, "gpu-a-4", id="a host name with a port"),
        pytest.param({"instance": "10.9.9.9:9400"}, "10.9.9.9", id="a node that is named by its address"),
    ],
)
def test_the_node_of_a_series_is_found_by_its_labels(labels: dict[str, Any], node: str | None) -> None:
    exporters = {"nvidia-dcgm-exporter-cwbcm": "gpu-a-1", "10.0.0.7": "gpu-a-1", "fd00::7": "gpu-a-3"}
    assert node_of(labels, GpuMetricsSettings(), exporters) == node


@pytest.mark.parametrize(
    "element",
    [
        pytest.param([], id="a list"),
        pytest.param({"metric": {"gpu": "0"}}, id="no value"),
        pytest.param({"metric": {}, "histogram": [1, {"count": "5"}]}, id="a histogram"),
        pytest.param({"metric": "x", "value": [1, "5"]}, id="labels that are a string"),
        pytest.param({"metric": {}, "value": [1, 5]}, id="a number that is not a string"),
        pytest.param({"metric": {}, "value": [1, "5", "6"]}, id="a value too many"),
        pytest.param({"metric": {}, "value": "15"}, id="a string of two characters"),
        pytest.param({"metric": {}, "value": [1, "many"]}, id="a word"),
        pytest.param({"metric": {}, "value": [1, "1_0"]}, id="a number that only Python accepts"),
        pytest.param({"metric": {}, "value": [1, "1" * 100]}, id="an endless number"),
    ],
)
def test_an_element_that_is_no_sample_is_left_out(element: Any) -> None:
    assert series(element) is None


def test_a_sample_is_read() -> None:
    assert series({"metric": {"gpu": "0"}, "value": [1763726000.123, "97.5"]}) == ({"gpu": "0"}, 97.5)


def answer(elements: list[Any], **more: Any) -> bytes:
    """An answer as Prometheus writes it."""
    return orjson.dumps({"status": "success", "data": {"resultType": "vector", "result": elements}, **more})


def in_parts(body: bytes, size: int) -> list[Any]:
    return [element for part in vector(body, size) for element in part]


LABELS = st.dictionaries(
    st.text(max_size=5), st.text(st.sampled_from('},{"metric":\\u0022[]ab😀\n'), max_size=30), max_size=3
)
ELEMENTS = st.lists(
    st.fixed_dictionaries({"metric": LABELS, "value": st.tuples(st.integers(0, 2**33), st.text(max_size=3))})
)


@given(ELEMENTS, st.integers(1, 60), st.booleans())
def test_the_parts_of_an_answer_are_the_answer(elements: list[Any], size: int, warns: bool) -> None:
    """Tenants write labels, and may choose them to look like JSON."""
    body = answer(elements, **({"warnings": ['},{"metric":{}']} if warns else {}))
    assert in_parts(body, size) == orjson.loads(body)["data"]["result"]


@given(ELEMENTS, st.integers(1, 60))
def test_an_answer_in_another_format_is_read_too(elements: list[Any], size: int) -> None:
    document = {"data": {"result": elements, "resultType": "vector"}, "status": "success"}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    assert in_parts(body, size) == orjson.loads(body)["data"]["result"]


def test_an_answer_is_parsed_in_parts() -> None:
    body = answer([{"metric": {}, "value": [1, "2"]}] * 100)
    assert max(map(len, vector(body, 100))) <= 4


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"", "no JSON", id="nothing"),
        pytest.param(b"<html>", "no JSON", id="a login page"),
        pytest.param(b"[]", "without status success", id="another API"),
        pytest.param(
            b'{"status":"error","errorType":"timeout","error":"x"}', "without status success", id="an error with 200"
        ),
        pytest.param(
            b'{"status":"error","data":{"resultType":"vector","result":[]},"errorType":"timeout","error":"x"}',
            "without status success",
            id="an error with a part of the data",
        ),
        pytest.param(answer([{"metric": {}, "value": [1, "2"]}] * 3)[:-40], "no JSON", id="cut short in a series"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},{"metric":', "no JSON", id="junk"
        ),
        pytest.param(
            b'{"status":"success","data":{"resultType":"vector","result":{"metric":1}}}', "wanted a list", id="no list"
        ),
    ],
)
def test_no_part_of_a_wrong_answer_is_used(body: bytes, says: str) -> None:
    for size in (7, 10_000):
        with pytest.raises(SourceFailed) as error:
            in_parts(body, size)
        assert says in str(error.value)

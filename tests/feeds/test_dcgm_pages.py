"""The pages of DCGM exporters: which GPU, on which node, of which pod; and what is no sample."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.feeds.exporters import DATA, MIG
from webhook.feeds import dcgm
from webhook.feeds.gpu_source import add_sample
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import UNKNOWN, NodeUse, PodUse, Reading, Utilisation

SETTINGS = GpuMetricsSettings(source="dcgm")
NAMES = {name: Reading[key.upper()] for key, name in SETTINGS.queries}


BUSY_USE = NodeUse(
    *(8, 0, 0.99, 68.0, 0, 0, 0, 8, 8), pods=(PodUse("research/llm-pretrain-worker-0", 8, 0, (0, 0, 0)),)
)


def read(page: str, node: str = "a") -> Utilisation:
    """Read a page of an exporter as one poll."""
    into = Utilisation(SETTINGS)
    for labels, reading, value in dcgm.parse_page(page, NAMES, into.ignored):
        add_sample(into, node, labels, reading, value, xids=SETTINGS.sick.xids)
    into.commit(0.0)
    return into


@pytest.mark.parametrize(
    ("page", "ignored"),
    [
        pytest.param("<html><body>404</body></html>", {}, id="a page of another program"),
        pytest.param('node_cpu_seconds_total{cpu="0"} 7\n', {}, id="other metrics"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL 7\n", {"no GPU label": 1}, id="no labels at all"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{Hostname="a"} 7\n', {"no GPU label": 1}, id="no label for the GPU"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID=""} 7\n', {"no GPU label": 1}, id="an empty UUID"),
        pytest.param(f'DCGM_FI_DEV_GPU_UTIL{{UUID="{"x" * 200}"}} 7\n', {"no GPU label": 1}, id="an endless UUID"),
        pytest.param(
            'DCGM_FI_DEV_GPU_UTIL{UUID="x"} 9223372036854775794\n', {"out of range": 1}, id="a blank value of DCGM"
        ),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="x"} busy\n', {"not in the text format": 1}, id="a word for a number"),
        pytest.param(
            'DCGM_FI_DEV_GPU_UTIL{UUID="x",UUID="y"} 7\n', {"not in the text format": 1}, id="a label given twice"
        ),
        pytest.param(
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="x",a="{"x" * 5000}"}} 7\n', {"line too long": 1}, id="an endless line"
        ),
    ],
)  # fmt: skip
def test_a_sample_without_a_gpu_is_counted_and_changes_nothing(page: str, ignored: dict[str, int]) -> None:
    into = read(page)
    assert into.ignored == ignored
    assert into.node("a") == UNKNOWN


def test_a_malformed_line_does_not_affect_the_others() -> None:
    page = (DATA / "dcgm-8-busy.txt").read_text().replace("DCGM_FI_DEV_GPU_UTIL{gpu=", "DCGM_FI_DEV_GPU_UTIL{gpu==", 1)
    assert read(page).ignored == {"not in the text format": 1}
    assert read(page).node("a").measured == 8, "the engine reading replaces the utilisation"


@given(st.text(st.sampled_from('DCGM_FI_DEV_GPU_UTIL{}=",\\ 07.e-#\nuUID'), max_size=300))
def test_any_page_is_read_without_an_error(text: str) -> None:
    read(f"DCGM_FI_DEV_GPU_UTIL{{{text}")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param("dcgm-8-idle.txt", NodeUse(8, 8, 0.0, 32.0, 0, 0, 0, 0, 8), id="eight idle GPUs"),
        pytest.param("dcgm-8-busy.txt", BUSY_USE, id="eight busy GPUs"),
        pytest.param("dcgm-mig.txt", MIG, id="a whole GPU and one split in three"),
    ],
)
def test_a_page_is_read(file: str, expected: NodeUse) -> None:
    into = read((DATA / file).read_text())
    assert into.node("a") == expected
    assert not into.ignored


def test_an_xid_that_needs_a_repair_makes_a_gpu_sick_and_one_of_an_application_does_not() -> None:
    page = (
        'DCGM_FI_DEV_XID_ERRORS{UUID="x"} 79\nDCGM_FI_DEV_XID_ERRORS{UUID="y"} 31\nDCGM_FI_DEV_XID_ERRORS{UUID="z"} 0'
    )
    assert read(page).node("a").sick == 1


# --- Which pod has a GPU ----------------------------------------------------------------------------------------------

SERVED = {"namespace": "gpu-operator", "pod": "nvidia-dcgm-exporter-x"}
"""The labels of a Prometheus for the pod that it scrapes."""


def exported(namespace: object, pod: object) -> dict[str, object]:
    return {"exported_namespace": namespace, "exported_pod": pod}


@pytest.mark.parametrize(
    ("labels", "pod"),
    [
        pytest.param({}, "", id="no labels"),
        pytest.param({"namespace": "", "pod": "", "container": ""}, "", id="empty ones, as of a free GPU"),
        pytest.param({"pod": "train"}, "", id="no namespace"),
        pytest.param({"namespace": "team", "pod": "x" * 254}, "", id="longer than a name can be"),
        pytest.param({"namespace": "team", "pod": "a/b"}, "", id="two names in one"),
        pytest.param({"namespace": "team", "pod": "train\n"}, "", id="a line break"),
        pytest.param({"namespace": "team", "pod": "train", "container": "main"}, "team/train", id="of an exporter"),
        pytest.param(exported("team", "train") | SERVED, "team/train", id="where Prometheus has labels of its own"),
        pytest.param({"exported_pod": "train", "namespace": "team", "pod": "x"}, "team/train", id="of its own for pods"),
        pytest.param(SERVED, "gpu-operator/nvidia-dcgm-exporter-x", id="only its own: a pod without GPUs"),
    ],
)  # fmt: skip
def test_the_pod_of_a_series_is_found_by_its_labels(labels: dict[str, object], pod: str) -> None:
    into = Utilisation(SETTINGS)
    add_sample(into, "a", {"UUID": "x", **labels}, Reading.UTILISATION, 1.0, xids=())
    into.commit(0.0)
    assert [each.pod for each in into.node("a").pods] == [pod][: bool(pod)]

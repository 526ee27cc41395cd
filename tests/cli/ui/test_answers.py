"""What the page is asked, and answers with the documents of the commands. What it shows of them: tests/cli/ui/test_asked.py."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.objects import document, write
from tests.cli.ui import world
from tests.controlplane.nodes import node
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.ui import answers, picture
from webhook.cli.ui.picture import Picture
from webhook.errors import BadInput
from webhook.whatif.offline import load_policy

GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.snapshot(tmp_path_factory.mktemp("answers"))


def test_nothing_is_known_of_another_question_or_with_wrong_words(cluster: Path) -> None:
    found = Picture(read_snapshot(cluster), load_policy())
    for question, given, wanted in (
        ("other", {}, 'saw the question "other", wanted one of drain, idle, start, preempt, health, audit'),
        ("start", {}, 'GPUs: saw "", wanted a number from 1 to 1024'),
        ("start", {"gpus": "9999999", "resource": GPU}, 'GPUs: saw "9999999", wanted a number from 1 to 1024'),
        ("start", {"gpus": "8", "resource": "cpu"}, 'resource: saw "cpu", wanted one that the policy calls GPUs'),
        ("start", {"gpus": "8", "resource": GPU, "namespace": "reserch"}, 'no namespace "reserch"'),
        ("start", {"gpus": "8", "resource": GPU, "model": "H100"}, 'no label of nodes with the model "H100"'),
        ("start", {"gpus": "8", "resource": GPU, "tolerates": "a=b=c"}, 'tolerations: saw "a=b=c", wanted taints'),
        ("audit", {}, "wanted the name of a namespace"),
        ("audit", {"namespace": "nowhere"}, 'no namespace "nowhere"'),
    ):
        with pytest.raises(BadInput, match=re.escape(wanted)):
            found.answer(question, given)


def test_a_pod_of_one_model_selects_its_nodes(cluster: Path) -> None:
    found = Picture(read_snapshot(cluster), load_policy())
    answer = found.answer("start", {"gpus": "2", "resource": GPU, "model": world.L4})
    assert answer["manifest"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.product": world.L4}
    (workload,) = answer["try"]["items"]
    assert [*workload["bound"]] == ["serve-2"]


def test_a_pod_tolerates_taints_as_kubectl_writes_them(tmp_path: Path) -> None:
    taints = ["workload=training:NoSchedule", "spot:NoExecute"]
    found = Picture(read_snapshot(write(tmp_path, node("a", 8, taints=taints))), load_policy())
    starts = {
        text: found.answer("start", {"gpus": "1", "resource": GPU, "tolerates": text})["try"]["good"]
        for text in ("", "workload=training:NoSchedule", "workload=training, spot", "workload,spot:NoSchedule")
    }
    assert list(starts.values()) == [False, False, True, False]
    answer = found.answer("start", {"gpus": "1", "resource": GPU, "tolerates": "a=b:NoSchedule, c"})
    assert answer["manifest"]["spec"]["tolerations"] == [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
        {"key": "c", "operator": "Exists"},
    ]


def test_without_a_namespace_the_pod_is_of_one_that_opted_in(cluster: Path) -> None:
    """That of the context, if it has opted in."""
    for own, wanted in (("default", "research"), ("search", "search"), (None, "research")):
        snapshot = replace(read_snapshot(cluster), namespace=own)
        found = Picture(snapshot, load_policy()).answer("start", {"gpus": "1", "resource": GPU})
        assert found["manifest"]["metadata"]["namespace"] == wanted


def test_an_answer_is_bounded(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER", 100)
    with pytest.raises(BadInput, match=r"the answer has [\d,]+ bytes, more than the page takes"):
        Picture(read_snapshot(cluster), load_policy()).answer("drain", {})
    monkeypatch.setattr(picture, "MAX_ANSWERS", 100)
    assert Picture(read_snapshot(cluster), load_policy()).for_file()["answers"] == {}


def test_a_question_leaves_what_is_shown_as_it_is(cluster: Path) -> None:
    found = Picture(read_snapshot(cluster), load_policy())
    first = [found.answer(name, {}) for name in ("drain", "idle", "health")]
    found.answer("start", {"gpus": "8", "resource": GPU})
    found.answer("audit", {"namespace": "team-b"})
    assert [found.answer(name, {}) for name in ("drain", "idle", "health")] == first
    wanted = document("drain", "--from", cluster)
    assert first[0]["drain"] == {key: value for key, value in wanted.items() if key not in ("apiVersion", "kind")}


@pytest.mark.parametrize(("named", "state"), [("default", "ok"), (None, "warn")])
def test_the_checks_are_of_the_policy_that_the_command_names(cluster: Path, named: str | None, state: str) -> None:
    """Without one, of that in the cluster, which has none here."""
    found = Picture(read_snapshot(cluster), load_policy(), named).answer("health", {})["doctor"]
    assert {each["state"] for each in found if each["check"] == "policy"} == {state}


def test_what_a_policy_without_metrics_does_not_know_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, node("a"), world.held("one", "a", 1))
    found = Picture(read_snapshot(file), load_policy()).answer("idle", {})
    assert found["unknown"] == "which GPUs are idle is not known: it has no GPU metrics"

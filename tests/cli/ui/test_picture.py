"""What the page shows, as data: the numbers add up, and are those of the other commands.

Covers cli.ui.picture, whatif.cluster.sums.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.objects import call, write
from tests.cli.objects import snapshot as read
from tests.cli.ui import world
from tests.controlplane.nodes import GPU_TAINT, node
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.ui.picture import Picture
from webhook.errors import BadInput
from webhook.feeds.access import Access
from webhook.state.gpu_amounts import GpuAmounts
from webhook.whatif.cluster.report import PARTS, counted
from webhook.whatif.offline import load_policy

POLICY = load_policy()
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Picture:
    return Picture(read_snapshot(world.snapshot(tmp_path_factory.mktemp("ui"))), POLICY)


def test_each_sum_is_that_of_its_parts_and_of_its_models(picture: Picture) -> None:
    totals = picture.document["totals"]
    for each in totals:
        assert each["total"] == sum(each[part] for part in PARTS), each
    for kind in ("whole", "slice"):
        (all_of_it,) = [each for each in totals if each["kind"] == kind and each["model"] is None]
        models = [each for each in totals if each["kind"] == kind and each["model"] is not None]
        for part in ("total", *PARTS):
            assert all_of_it[part] == sum(each[part] for each in models)
    whole = next(each for each in totals if each["kind"] == "whole")
    assert {part: whole[part] for part in ("total", *PARTS)} == {
        "total": 84,
        "allocated": 46,
        "promised": 2,
        "free": 19,
        "unusable": 17,  # the nodes that are cordoned and not ready, and one GPU that is not offered
    }


def test_whom_gpus_are_promised_to_is_named(picture: Picture) -> None:
    promised = {each["name"]: each["promises"] for each in picture.document["nodes"] if each["promises"]}
    ((on, (promise,)),) = promised.items()
    assert (promise["namespace"], promise["name"], promise["gpus"]) == ("research", "finetune-2", {GPU: 2})
    (there,) = [each for each in picture.document["nodes"] if each["name"] == on]
    assert there["gpus"][GPU]["promised"] == 2


def test_who_may_not_list_nodes_sees_the_gpus_of_his_own_pods(tmp_path: Path) -> None:
    """All else is not known, and nothing looks free."""
    all_of_it = read(tmp_path, world.held("one", "a", 3), world.held("two", "a", 1), world.held("waits", None, 2))
    access = Access("https://api", None, None, None, 60.0)
    mine = replace(all_of_it, missing={"Node": "no right to list nodes", "Pod": "no right to list pods"}, access=access)
    found = Picture(mine, POLICY).document
    (shown,) = found["nodes"]
    assert (shown["name"], shown["health"], shown["model"]) == ("a", "unknown", "")
    assert shown["gpus"] == {GPU: {"total": 4, "allocated": 4, "promised": 0, "free": 0, "unusable": 0}}
    assert [each["total"] for each in found["totals"]] == [4, 4]
    assert [(each["workload"], each["gpus"]) for each in found["holders"]["workload"]] == [
        ("research/job/one", {GPU: 3}),
        ("research/job/two", {GPU: 1}),
    ]
    assert found["largest"] == []


def test_an_owner_with_a_name_longer_than_names_are_is_cut(tmp_path: Path) -> None:
    """The API server takes any length in an owner reference."""
    long = world.held("long", "a", 1)
    long["metadata"]["ownerReferences"][0] |= {"kind": "K" * 10_000, "name": "n" * 100_000}
    (holder,) = Picture(read(tmp_path, node("a"), long), POLICY).document["holders"]["workload"]
    assert holder["workload"] == f"research/{'k' * 253}/{'n' * 253}"


def test_the_sums_of_the_terminal_are_those_of_the_page(tmp_path: Path) -> None:
    """Also where shares have the name of whole GPUs, and where GPUs are free that no pod can have."""
    shared = node("shared", 4, "Tesla-T4", replicas=4, labels={"node-pool": "shared"})
    file = write(tmp_path, *world.world(), shared, world.held("in-share", "shared", 3))
    found = Picture(read_snapshot(file), POLICY).document["totals"]
    printed = call("top", "--from", file)
    assert "unusable: on nodes that take no pods, sick, or not offered\n" in printed.stderr
    titles, *lines = [line.split() for line in printed.stdout.split("\n\n")[1].splitlines()]
    shown = {line[1]: dict(zip(titles[3:], line[4:], strict=False)) for line in lines if line[0] == "all"}
    words = {"whole": "GPUs", "slice": "slices", "share": "shares"}
    assert sorted(shown) == sorted(words.values())
    for each in found:
        if each["model"] is None:
            line = shown[words[each["kind"]]]
            assert {int(line[part.upper()]) - each[part] for part in ("total", *PARTS)} == {0}


def test_a_job_that_must_tolerate_more_than_the_webhook_adds_comes_after(tmp_path: Path) -> None:
    spot = "cloud.google.com/gke-spot=true:NoSchedule"
    objects = [
        node("a", 4, taints=[GPU_TAINT]),
        node("b", 8, taints=[GPU_TAINT, spot]),
        node("c", 8, taints=["x=y:PreferNoSchedule"]),
    ]
    found = Picture(read(tmp_path, *objects), POLICY).document["largest"]
    assert [(each["taints"], each["steps"][0]) for each in found] == [
        ([], {"nodes": 1, "gpus": 8}),
        ([spot], {"nodes": 1, "gpus": 8}),
    ]
    objects.pop()
    result = call("top", "--from", write(tmp_path, *objects))
    model, alone = "NVIDIA-A100-SXM4-80GB", "with no tolerations but the webhook's"
    assert result.stdout.splitlines()[-1] == (
        f"largest job that could start now: 1 node × 4 GPUs of {model}, {alone}; 1 node × 8 GPUs of {model}, if it tolerates {spot}"
    )


def test_shares_of_gpus_under_the_name_of_whole_ones_are_counted_as_shares(tmp_path: Path) -> None:
    found = Picture(read(tmp_path, node("a", 4, "Tesla-T4", replicas=4), node("b", 2)), POLICY).document
    sums = {each["kind"]: each["total"] for each in found["totals"] if each["model"] is None}
    assert (sums, found["nodes"][0]["sharing"]) == ({"whole": 2, "share": 16}, 4)


@pytest.mark.parametrize(
    ("amounts", "away", "wanted"),
    [
        pytest.param((8, 8, 3, 1), 0, (3, 1, 4, 0), id="healthy"),
        pytest.param((8, 8, 3, 0), math.inf, (3, 0, 0, 5), id="cordoned"),
        pytest.param((8, 8, 2, 0), 1, (2, 0, 6, 0), id="a sick one that a pod may have"),
        pytest.param((8, 8, 2, 0), 5, (2, 0, 3, 3), id="more sick ones than pods have"),
        pytest.param((7, 8, 2, 0), 0, (2, 0, 5, 1), id="one is not offered"),
        pytest.param((7, 7, 8, 0), 0, (8, 0, 0, 0), id="pods have more than is offered"),
    ],
)
def test_the_parts_of_a_node(amounts: Any, away: float, wanted: Any) -> None:
    of = GpuAmounts(*[np.array([each], float) for each in amounts])
    found = counted(of, 0, away, known=True)
    assert (found.pop("total"), found) == (sum(wanted), dict(zip(PARTS, wanted, strict=True)))


def test_a_workload_has_the_answer_of_its_first_pod_and_all_its_pods(picture: Picture) -> None:
    """Of each pod: tests/cli/ui/test_shown.py."""
    with pytest.raises(BadInput, match='no pod or workload "nobody"'):
        picture.about("research", "nobody")
    about = picture.about("research", "llm")["decision"]
    assert (about["name"], [each["pods"] for each in about["replicas"]["groups"]]) == ("llm-1", [["llm-1", "llm-2"]])
    (first, workload) = (picture.about("research", name)["why"] for name in ("pretrain-0", "job/pretrain"))
    assert first == workload
    assert first["name"] == "pretrain-0"


def test_the_last_decisions_have_what_was_written_and_refusals_their_reason(picture: Picture) -> None:
    found = {each["name"]: each for each in picture.document["decisions"]}
    assert sorted(found) == ["finetune-1", "finetune-2", "thief"]
    assert {"tolerations", "priorityClass"} < {each["name"] for each in found["finetune-1"]["units"]}
    assert found["finetune-1"]["nodes"][0]["name"]
    assert (found["thief"]["result"], found["thief"]["workload"]) == ("refused", "job/thief")
    assert "[deviceEnv]" in found["thief"]["text"]

"""Each fix is tried before it is marked as enough, and causes of nodes that are for the pod come first.

Covers whatif.waiting.diagnosis, whatif.waiting.nodes, whatif.waiting.resources, whatif.commands.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.objects import Json, call, document, placed, snapshot, unschedulable, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, pod, required
from tests.whatif.waiting.waits import answer, held, obj, waiting
from webhook.whatif.answers import answers, asked
from webhook.whatif.offline import load_policy
from webhook.whatif.waiting import diagnosis

A100, L4 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"
PRODUCT = "nvidia.com/gpu.product"
DEAD = {"labels": {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"}}


@pytest.mark.parametrize(
    ("objects", "first", "enough", "fix"),
    [
        pytest.param(
            [node("a", product=A100, taints=["team=x:NoSchedule"]), waiting(nodeSelector={PRODUCT: "A100"})],
            "untoleratedTaint", False, f"That is not enough: then nodeSelector {PRODUCT}=A100 is on no node", id="the nodes of the model are tainted",
        ),
        pytest.param(
            [node("a", product=A100), held(8, "a"), waiting(affinity=required(PRODUCT, "In", "A100"))],
            "nodeAffinity", False, "That is not enough: then all GPUs are taken", id="the nodes of the affinity are full",
        ),
        pytest.param(
            [node("a"), held(4, "a"), waiting(16)],
            "moreThanAnyNode", True, "ask for 4 nvidia.com/gpu at most, in more pods (8 when nothing else runs there), or", id="too many: as many as are free",
        ),
        pytest.param(
            [node("a"), held(8, "a"), waiting(16)],
            "moreThanAnyNode", False, "ask for 8 nvidia.com/gpu at most, in more pods, or add larger nodes. That is not enough: then all GPUs are taken: 8 ", id="too many, and none is free",
        ),
        pytest.param(
            [node("a"), held(6, "a"), node("b", taints=["team=x:NoSchedule"]), waiting(8)],
            "gpusTaken", True, "ask for 2 in place of 8, or wait for pod/on-a", id="as many as are free where it may run",
        ),
        pytest.param(
            [node("a", renamed=True, labels={"own": "yes"}), node("b"), waiting(2, nodeSelector={"own": "yes"})],
            "otherGpuResource", False, "ask for nvidia.com/gpu.shared if a part of a GPU is enough", id="one part is not two GPUs",
        ),
        pytest.param(
            [node("a", product=A100), waiting(nodeSelector={PRODUCT: "NVIDIA-H200"})],
            "nodeSelector", True, f"set spec.nodeSelector[{PRODUCT}] to {A100}: node a could take it then ({A100}), or add such a node", id="a model that no node has is no label to add",
        ),
        pytest.param(
            [node("a", 1, mig={"1g.10gb": 7}), waiting()],
            "unknownResource", True, "ask for nvidia.com/mig-1g.10gb in place of nvidia.com/gpu: these are slices of GPUs", id="a slice is no GPU",
        ),
    ],
)  # fmt: skip
def test_a_fix_is_marked_if_the_pod_would_run(
    tmp_path: Path, objects: list[Json], first: str, enough: bool, fix: str
) -> None:
    cause = answer(tmp_path, *objects).causes[0]
    assert (cause.cause, cause.helps > 0) == (first, enough)
    assert fix in cause.fix


SHARED = {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.count": "1"}


@pytest.mark.parametrize(
    ("objects", "fix"),
    [
        pytest.param(
            [node("a", product=A100), held(8, "a"), node("b", 1, L4), waiting(nodeSelector={PRODUCT: A100})],
            f"remove spec.nodeSelector[{PRODUCT}] if the pod may run elsewhere: node b could take it then ({L4}), or add such a node",
            id="another model, and no node is called what it is not",
        ),
        pytest.param(
            [node("a", labels={"pool": "x"}), held(8, "a"), node("t4", 4, labels=SHARED), waiting(nodeSelector={"pool": "x"})],
            "remove spec.nodeSelector[pool] if the pod may run elsewhere: node t4 could take it then (Tesla-T4, shared by several pods), "
            "or label more nodes: kubectl label node NAME pool=x",
            id="shared GPUs",
        ),
    ],
)  # fmt: skip
def test_where_the_pod_would_go_without_its_selector(tmp_path: Path, objects: list[Json], fix: str) -> None:
    (cause,) = [each for each in answer(tmp_path, *objects).causes if each.cause == "nodeSelector"]
    assert (cause.fix, cause.helps > 0) == (fix, True)


def test_of_several_labels_one_with_which_it_would_run_is_given(tmp_path: Path) -> None:
    """The first by name, A100, is on a node that is full."""
    nodes = [node("a", product=A100), held(8, "a"), node("b", 1, L4), node("cpu", 0)]
    causes = [
        each
        for each in answer(tmp_path, *nodes, waiting(nodeSelector={PRODUCT: "GPU-X"})).causes
        if each.cause == "nodeSelector"
    ]
    assert {each.fixes[1].line for each in causes} == {"add such a node"}
    assert {each.fixes[0].words.partition(":")[0] for each in causes} == {f"set spec.nodeSelector[{PRODUCT}] to {L4}"}
    assert [(each.nodes, each.helps) for each in causes] == [(("a", "b"), 1), (("cpu",), 0)]


def test_a_label_of_the_same_domain_is_not_like_it(tmp_path: Path) -> None:
    key = "node.kubernetes.io/flavour"
    (cause,) = answer(tmp_path, node("a"), waiting(nodeSelector={key: "large"})).causes
    assert "nearest" not in cause.text
    assert cause.fix.startswith(f"remove spec.nodeSelector[{key}]: node a could take it then")


def test_a_toleration_helps_only_on_nodes_that_could_take_the_pod(tmp_path: Path) -> None:
    """Tolerating both taints lets it go to the other node, for which one is enough."""
    more = [
        node("large", 16, taints=["gpu=:NoSchedule"]),
        node("small", 8, taints=["gpu=:NoSchedule", "team=x:NoSchedule"]),
    ]
    causes = {
        each.nodes: each for each in answer(tmp_path, *more, waiting(16)).causes if each.cause == "untoleratedTaint"
    }
    assert causes["large",].helps == 1
    assert causes["small",].helps == 0


@pytest.mark.parametrize(
    ("objects", "first", "others"),
    [
        pytest.param(
            [node("mine", renamed=True, labels={"pool": "mine"}), node("dead", 0, **DEAD), waiting(nodeSelector={"pool": "mine"})],
            "unknownResource", ["nodeSelector"], id="its own node offers something else",
        ),
        pytest.param(
            [node("mine"), held(8, "mine"), node("kept", taints=["team=x:NoSchedule"]), node("small", 1), node("cpu", 0), waiting(8)],
            "gpusTaken", ["noGpus", "nodesTooSmall", "untoleratedTaint"], id="tainted, small and GPU-less nodes",
        ),
        pytest.param(
            [node("mine"), held(8, "mine"), node("gpu", taints=["nvidia.com/gpu=:NoSchedule"]), waiting()],
            "untoleratedTaint", [], id="a taint that only pods without GPUs should mind",
        ),
        pytest.param([node("a", labels={"pool": "b"}), waiting(nodeSelector={"pool": "x"})], "nodeSelector", [], id="no node is its own"),
    ],
)  # fmt: skip
def test_nodes_that_are_for_the_pod_come_first(
    tmp_path: Path, objects: list[Json], first: str, others: list[str]
) -> None:
    causes = answer(tmp_path, *objects).causes
    assert causes[0].cause == first
    assert sorted({cause.cause for cause in causes if cause.elsewhere}) == others


SAID = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {team: x}."


@pytest.mark.parametrize(
    ("missing", "objects", "causes"),
    [
        pytest.param(
            "Node", [],
            [("gpusTaken", "1 node: Insufficient nvidia.com/gpu, says the scheduler"),
             ("untoleratedTaint", "3 nodes: node(s) had untolerated taint {team: x}, says the scheduler")],
            id="no nodes",
        ),
        pytest.param(
            "Pod", [node("a"), *[node(name, taints=["team=x:NoSchedule"]) for name in "bcd"]],
            [("untoleratedTaint", "nodes b, c, d: tainted team=x:NoSchedule, which the pod does not tolerate"),
             ("gpusTaken", "1 node: Insufficient nvidia.com/gpu, says the scheduler")],
            id="no pods of others",
        ),
    ],
)  # fmt: skip
def test_without_some_rights_the_scheduler_is_quoted(
    tmp_path: Path, missing: str, objects: list[Json], causes: list[tuple[str, str]]
) -> None:
    made = placed(pod("waits", 1), None, **unschedulable(SAID))
    found = snapshot(tmp_path, *objects, made)
    found.missing[missing] = "no right"
    (answer,) = answers(found, load_policy(), None)
    assert [(cause.cause, cause.text) for cause in answer.causes] == causes
    assert not any(cause.helps for cause in answer.causes), "nothing could be tried"


def test_without_rights_and_without_a_word_of_the_scheduler(tmp_path: Path) -> None:
    found = snapshot(tmp_path, waiting())
    found.missing["Node"] = "no right"
    (cause,) = answers(found, load_policy(), None)[0].causes
    assert cause.text == "the scheduler has said nothing yet, and nodes and pods may not be read"


def test_a_smaller_node_that_is_free_counts_for_a_pod_that_asks_for_less(tmp_path: Path) -> None:
    first = answer(tmp_path, node("a"), node("b", 4), held(6, "a"), waiting(8)).causes[0]
    assert (first.cause, first.helps > 0) == ("gpusTaken", True)
    assert first.fix.startswith("ask for 4 in place of 8 (free on node b), or wait for pod/on-a in team")


def test_any_workload_whose_end_makes_room_is_named(tmp_path: Path) -> None:
    nodes = [node(name) for name in "abcd"]
    taken = [placed(pod(f"on-{name}", gpus), name) for name, gpus in zip("abcd", (8, 6, 4, 8), strict=True)]
    first = answer(tmp_path, *nodes, *taken, waiting(8)).causes[0]
    ends = [fix.words.removeprefix("wait for ") for fix in first.fixes if fix.ends]
    assert [each.split()[0] for each in ends] == ["pod/on-c", "pod/on-b", "pod/on-a"]


def test_room_that_is_kept_on_a_node_that_is_not_for_the_pod_is_no_cause(tmp_path: Path) -> None:
    urgent = placed(pod("urgent", 8, priority=9), None, nominatedNodeName="a")
    found = answer(
        tmp_path, node("a"), held(4, "a"), node("b", 1, "NVIDIA-L4"), urgent, waiting(1, nodeSelector={"x": "y"})
    )
    assert "nominated" not in {cause.cause for cause in found.causes}


def of_group(made: Json, **labels: str) -> Json:
    return made | {"metadata": made["metadata"] | {"labels": labels}}


@pytest.mark.parametrize(
    ("labels", "theirs", "fix"),
    [
        pytest.param({"leaderworkerset.sigs.k8s.io/name": "vllm"}, {}, "add a node", id="groups of one set"),
        pytest.param({"leaderworkerset.sigs.k8s.io/name": "vllm", "controller-revision-hash": "2"}, {"controller-revision-hash": "1"}, "let the old ones go first: strategy Recreate or maxSurge 0, or add a node", id="pods of an older revision"),
    ],
)  # fmt: skip
def test_nobody_waits_for_his_own_workload(tmp_path: Path, labels: Json, theirs: Json, fix: str) -> None:
    (cause,) = answer(
        tmp_path, node("a"), of_group(held(8, "a"), **(labels | theirs)), of_group(waiting(8), **labels)
    ).causes
    assert (cause.cause, cause.fix, cause.helps) == ("gpusTaken", fix, 0)
    assert cause.text.endswith("; its own workload, leaderworkerset/vllm in team, has 8 of them")


def test_of_two_nodes_the_scheduler_preempts_where_no_budget_is_violated(tmp_path: Path) -> None:
    """Though the victim there has a higher priority (preemption, pickOneNodeForPreemption)."""
    low, mid = (
        placed(pod(name, 8, priority=value, labels={"app": name}), on)
        for name, value, on in (("low", 10, "a"), ("mid", 100, "b"))
    )
    spec = {"selector": {"matchLabels": {"app": "low"}}}
    budget = obj("PodDisruptionBudget", "keep", spec, {"disruptionsAllowed": 0})
    asks = [node("a"), node("b"), low, mid, waiting(8, priority=1000)]
    assert any("on node a: team/low (priority 10)" in note for note in answer(tmp_path, *asks).notes)
    assert any("on node b: team/mid (priority 100)" in note for note in answer(tmp_path, *asks, budget).notes)
    (note,) = [
        each
        for each in answer(tmp_path, *[each for each in asks if each is not mid][:1], low, budget, asks[-1]).notes
        if "preempt" in each
    ]
    assert note.endswith("team/low (priority 10, though PodDisruptionBudget keep allows none)")


def test_nodes_that_a_pod_does_not_tolerate_are_no_domains_if_the_constraint_says_so(tmp_path: Path) -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node(name, labels={zone: name}) for name in "ab"] + [
        node("c", labels={zone: "c"}, taints=["team=x:NoSchedule"])
    ]
    runs = [placed(pod(f"on-{on}", 1, labels={"app": "x"}), on) for on in "ab"]
    spread = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    made = of_group(waiting(1, topologySpreadConstraints=[spread]), app="x")
    (cause, *_) = [each for each in answer(tmp_path, *nodes, *runs, made).causes if each.cause == "topologySpread"]
    assert cause.fix.startswith("set nodeTaintsPolicy: Honor: ")
    assert cause.helps


def test_the_model_that_is_one_letter_off_is_put_in_its_place(tmp_path: Path) -> None:
    nodes = [node("a", product=A100), node("b", product="NVIDIA-H200")]
    (cause,) = answer(tmp_path, *nodes, waiting(nodeSelector={PRODUCT: "H20O"})).causes
    assert cause.fix.startswith(f"set spec.nodeSelector[{PRODUCT}] to NVIDIA-H200: node b could ")


def test_a_fix_that_the_webhook_would_refuse_is_not_marked(tmp_path: Path) -> None:
    """Six are free, and the policy allows four or eight."""
    policy = load_policy("{profiles: {default: {rules: {gpuLimit: {sizes: [4, 8]}}}}}")
    found = snapshot(tmp_path, node("a"), held(2, "a"), waiting(8))
    (cause,) = answers(found, policy, None)[0].causes
    assert cause.fixes[0].line == "wait for pod/on-a in team (2 nvidia.com/gpu on a) to end", (
        "that is enough, and first"
    )
    (less,) = [fix for fix in cause.fixes if fix.words.startswith("ask for 6")]
    assert (cause.helps, less.helps) == (1, 0)


@pytest.mark.parametrize(
    ("objects", "marked"),
    [
        pytest.param([node("a", cordoned=True), waiting()], ["kubectl", "uncordon", "a"], id="a cordon goes"),
        pytest.param([node("a", ready=False), waiting()], [], id="nobody can try a repair"),
        pytest.param([node("a", cordoned=True, taints=["x=y:NoSchedule"]), waiting()], [], id="a cordon is not all"),
    ],
)
def test_what_is_done_to_a_node_is_tried_there(tmp_path: Path, objects: list[Json], marked: list[str]) -> None:
    found = [fix for cause in answer(tmp_path, *objects).causes for fix in cause.fixes if fix.helps]
    assert [list(fix.command) for fix in found] == ([marked] if marked else [])


def test_the_end_of_a_pod_is_tried_with_all_that_it_holds(tmp_path: Path) -> None:
    """On a its end frees the GPUs, and a pod that the anti-affinity keeps away is still there."""
    apart = {
        "podAntiAffinity": {
            REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}]
        }
    }
    other = placed(pod("other", 0, labels={"app": "x"}), "a")
    causes = answer(tmp_path, node("a"), held(8, "a"), other, waiting(8, affinity=apart)).causes
    (taken,) = [cause for cause in causes if cause.cause == "gpusTaken"]
    assert (taken.helps, taken.then) == (0, "its pod anti-affinity keeps it from node a, where pod/other are")


UNKNOWN = "0/1 nodes are available: 1 node(s) did not have enough free storage."


@pytest.mark.parametrize(
    ("says", "causes"),
    [
        pytest.param(UNKNOWN, [("schedulerOther", 0)], id="a reason that no filter knows"),
        pytest.param("running PreFilter plugin Coscheduling: minMember is 4", [("schedulerOther", 0)], id="one that is about no node"),
        pytest.param("0/1 nodes are available: 1 Insufficient cpu.", [("fitsNow", 0), ("schedulerOther", 0)], id="one that is not true any more, as far as is known"),
        pytest.param("", [("fitsNow", 1)], id="it has said nothing yet"),
    ],
)  # fmt: skip
def test_a_node_that_the_scheduler_rules_out_is_not_called_fit(
    tmp_path: Path, says: str, causes: list[tuple[str, int]]
) -> None:
    waits = placed(pod("waits", 1), None, **(unschedulable(says) if says else {}))
    assert [(each.cause, each.helps) for each in answer(tmp_path, node("a"), waits).causes] == causes


def test_more_nodes_than_the_scheduler_rules_out_are_fit(tmp_path: Path) -> None:
    waits = placed(pod("waits", 1), None, **unschedulable(UNKNOWN.replace("0/1", "0/2")))
    first = answer(tmp_path, node("a"), node("b"), waits).causes[0]
    assert (first.cause, first.helps) == ("fitsNow", 1)


def test_a_scheduler_that_says_nothing_is_looked_at(tmp_path: Path) -> None:
    waits = placed(pod("waits", 1), None)
    waits["metadata"]["creationTimestamp"] = "2026-11-18T11:00:00Z"
    (first,) = answer(tmp_path, node("a"), waits).causes
    assert (first.cause, first.fix) == ("schedulerOther", "see whether default-scheduler runs, and what its log says")


@pytest.mark.parametrize(("resource", "word"), [("rdma/hca", "insufficientResource"), ("nvidia.com/gpu", "gpusTaken")])
def test_what_is_insufficient_is_named_without_the_right_to_list_nodes(
    tmp_path: Path, resource: str, word: str
) -> None:
    waits = placed(pod("waits", 1), None, **unschedulable(f"0/1 nodes are available: 1 Insufficient {resource}."))
    found = snapshot(tmp_path, waits)
    found.missing["Node"] = "no right"
    assert [cause.cause for cause in answers(found, load_policy(), None)[0].causes] == [word]


EVIL = "train-0\n! fitsNow: ok\n    → kubectl delete ns team; \u202e"


def test_no_name_makes_a_line_or_a_command_of_its_own(tmp_path: Path) -> None:
    owner = [{"kind": "Job", "name": EVIL, "uid": "x", "controller": True}]
    holds, waits = held(8, "a"), waiting(8)
    holds["metadata"]["ownerReferences"] = owner
    waits["metadata"]["name"] = EVIL
    waits["spec"]["schedulingGates"] = [{"name": EVIL}]
    file = write(tmp_path, node("a"), holds, waits, waiting(8), obj("Job", EVIL, {"suspend": True}))
    for arguments in ((), ("-o", "wide")):
        lines = call("why", *arguments, "--from", file).stdout.splitlines()
        assert [line for line in lines if "delete ns" in line and not line.startswith(("team/", "  ", "    "))] == []
        assert not any(line.strip().startswith(("! fitsNow", "→ kubectl delete", "\u202e")) for line in lines)
    commands = [
        fix["command"]
        for each in document("why", "--from", file)
        for cause in each["causes"]
        for fix in cause["fixes"]
        if "command" in fix
    ]
    assert all(part.isprintable() for command in commands for part in command)
    assert commands == []


def test_of_many_kinds_of_pods_not_all_are_tried_but_each_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "_MAX_TRIED", 1)
    more = {**waiting(8), "metadata": {**waiting(8)["metadata"], "name": "more", "labels": {"app": "more"}}}
    found = snapshot(tmp_path, node("a"), held(4, "a"), waiting(8), more)
    first, second = sorted(answers(found, load_policy(), None), key=lambda each: each.causes[0].helps, reverse=True)
    assert (first.causes[0].helps, second.causes[0].helps) == (1, 0)
    assert any("its fixes were not tried" in note for note in second.notes)
    (asked_for,) = asked(found, load_policy(), "team", second.name).answers
    assert asked_for.causes[0].helps == 1

    monkeypatch.setattr(diagnosis, "_MAX_LOOKED", 1)  # times as many
    by_word, seen = sorted(answers(found, load_policy(), None), key=lambda each: each.causes[0].cause, reverse=True)
    assert (by_word.causes[0].cause, seen.causes[0].helps) == ("schedulerOther", 1)
    assert any("its nodes were not looked at" in note for note in by_word.notes)
    (asked_for,) = asked(found, load_policy(), "team", by_word.name).answers
    assert asked_for.causes[0].helps == 1


@pytest.mark.parametrize(
    ("work", "left_out"),
    [
        (3, "of 3 pods the fixes were not tried, and of 1 pod the nodes were not looked at"),
        (6, "of 3 pods the fixes were not tried"),
        (15, ""),
    ],
)
def test_what_was_left_out_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: int, left_out: str
) -> None:
    """What one pod costs grows with the nodes and the pods on them: of more of these fewer pods are looked at."""
    kinds = [placed(pod(f"w{n}", 8, labels={"app": f"{n}"}), None) for n in range(5)]
    file = write(tmp_path, node("a"), node("b"), held(4, "a"), *kinds)
    monkeypatch.setattr("webhook.whatif.answers._MAX_WORK", work)
    said = [line for line in call("why", "--from", file).output.splitlines() if "not tried" in line]
    assert said == ([f"{left_out}, as pods of many kinds wait: ask for one by its name"] if left_out else [])
    call("ui", "--from", file, "--html", tmp_path / "page.html")
    assert f'"untried":"{left_out}' in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("quota", "commands"),
    [
        ("gpus", [["kubectl", "get", "pods"], ["kubectl", "edit", "quota", "gpus"]]),
        ("--all", [["kubectl", "get", "pods"]]),
    ],
)
def test_a_name_in_an_event_is_no_option_of_a_command(tmp_path: Path, quota: str, commands: list[list[str]]) -> None:
    """Anybody may write an Event."""
    about = {"kind": "Job", "namespace": "team", "name": "train"}
    message = f"exceeded quota: {quota}, requested: pods=1, used: pods=1, limited: pods=1"
    event = obj("Event", "e", involvedObject=about, reason="FailedCreate", message=message)
    (found,) = answers(snapshot(tmp_path, obj("Job", "train", {}, {"active": 0}), event), load_policy(), None)
    assert [[*fix.command[:-2]] for fix in found.causes[0].fixes if fix.command] == commands

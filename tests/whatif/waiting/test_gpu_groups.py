"""Parts of GPUs by KAI: `try` binds pods as KAI does, and `why` says where a part has room."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from tests.cli.objects import OPTED_IN, Json, call, placed, snapshot, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import job, pod
from tests.devices import dra
from tests.devices.kai import KAI_SCHEDULER, part, reservation
from tests.trying import tried
from webhook.policy.model import Policy
from webhook.whatif.answers import answers
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.manifests import Planned, planned_in
from webhook.whatif.offline import load_policy
from webhook.whatif.scheduler import Scheduler
from webhook.whatif.tried import Admission, Outcome
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.situation import Situation

GPU = "nvidia.com/gpu"
SCHEDULER = {"schedulerName": "kai-scheduler"}
SEEN = placed(pod("seen", 0, **KAI_SCHEDULER), "a")


def gpus(name: str, number: int = 2, memory: int = 16000) -> Json:
    return node(name, number, labels={"nvidia.com/gpu.memory": str(memory)})


def unlabelled(name: str, number: int) -> Json:
    found = node(name, number)
    del found["metadata"]["labels"]["nvidia.com/gpu.memory"]
    return found


def shared(group: str, on: str, *fractions: str) -> list[Json]:
    """A GPU of which pods have these parts."""
    return [reservation(group, on), *[part(f"{group}-{n}", each, group, on=on) for n, each in enumerate(fractions)]]


def parts(name: str, pods: int, **notes: str) -> Json:
    annotations = {f"gpu-{key.replace('_', '-')}": value for key, value in notes.items()}
    return job(name, pods, 0, annotations=annotations, **SCHEDULER)


def outcome(cluster: Snapshot, *objects: Json, policy: Policy | None = None, asks: bool = False) -> Outcome:
    return tried(cluster, policy or load_policy(), objects, "team", asks=asks)


def bound(found: Outcome) -> list[dict[str, int]]:
    return [dict(sorted(each.bound.items())) for each in found.tried]


def cause(tmp_path: Path, *objects: Json) -> Cause:
    found = [
        each for each in answers(snapshot(tmp_path, *objects), load_policy(), None) if each.name.startswith("waits")
    ]
    return found[0].causes[0]


def not_ready(made: Json) -> Json:
    """The node, on which what limits the parts of GPUs is not ready."""
    made["status"]["conditions"] = [
        *made["status"]["conditions"],
        {"type": "gpu-fractioning.nvidia.com/Ready", "status": "False"},
    ]
    return made


def waiting(name: str = "waits", **notes: str) -> Json:
    annotations = {key if "/" in key else f"gpu-{key.replace('_', '-')}": value for key, value in notes.items()}
    return placed(pod(name, 0, annotations=annotations, **SCHEDULER), None)


MIG = {"resources": {"nvidia.com/mig-1g.10gb": "7"}}
BY_LABEL = {"labels": {"node-role.kubernetes.io/mig-enabled": "true"}}
DRA = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **dra.gpus_of("a", 1)}
HALF, TWO = parts("half", 1, fraction="0.5"), {"fraction": "0.5", "fraction_num_devices": "2"}
CASES = [
    pytest.param([gpus("a"), gpus("b")], [parts("half", 5, fraction="0.5")], [{"a": 4, "b": 1}], id="one GPU is shared before another is taken"),
    pytest.param([gpus("a"), gpus("b", 1)], [parts("half", 2, fraction="0.5")], [{"b": 2}], id="the node with the fewest free GPUs"),
    pytest.param([gpus("a", 1), gpus("b", 3), *shared("g", "b", "0.5")], [HALF], [{"b": 1}], id="a node where a shared GPU has room, though the other has fewer free ones"),
    pytest.param([gpus("a"), gpus("b", 1), *shared("g", "b", "0.25")], [parts("most", 2, fraction="0.8")], [{"a": 2}], id="no room in the shared GPU: two whole ones"),
    pytest.param([gpus("a", 2), *shared("g", "a", "0.25"), *shared("h", "a", "0.5")], [HALF, parts("more", 1, fraction="0.75")], [{"a": 1}, {"a": 1}], id="the fullest GPU that has room"),
    pytest.param([gpus("a", 3), *shared("g", "a", "0.5"), *shared("h", "a", "0.5")], [parts("two", 1, **TWO), job("whole", 1, 1)], [{"a": 1}, {"a": 1}], id="parts of two shared GPUs leave the whole one"),
    pytest.param([gpus("a")], [parts("more", 2, fraction="0.6"), parts("less", 2, fraction="0.4")], [{"a": 2}, {"a": 2}], id="two GPUs that were opened"),
    pytest.param([gpus("a", 1)], [parts("mib", 5, memory="4000")], [{"a": 4}], id="by memory"),
    pytest.param([gpus("a", 1, memory=8000), gpus("b", 1)], [parts("mib", 2, memory="10000")], [{"b": 1}], id="more memory than a GPU has"),
    pytest.param([gpus("a", 3), *shared("g", "a", "0.5")], [parts("two", 3, **TWO)], [{"a": 2}], id="parts of several GPUs, shared ones and whole ones: 5 halves are free"),
    pytest.param([gpus("a")], [parts("half", 2, fraction="0.5"), job("whole", 2, 1)], [{"a": 2}, {"a": 1}], id="a GPU of which somebody has a part is no whole one"),
    pytest.param([gpus("a", 1)], [job("whole", 1, 1), HALF], [{"a": 1}, {}], id="a whole GPU has no part"),
    pytest.param([gpus("a", 1)], [parts("third", 4, fraction="0.3333333333333333")], [{"a": 3}], id="as Python writes a third"),
    pytest.param([gpus("a", 1)], [parts("most", 1, fraction="0.9"), parts("rest", 1, fraction="0.1")], [{"a": 1}, {"a": 1}], id="a tenth beside nine: of floats, less is left"),
    pytest.param([unlabelled("a", 1)], [parts("third", 4, fraction="0.335")], [{"a": 3}], id="MiB are cut off: 33 of 100"),
    pytest.param([unlabelled("a", 1)], [parts("mib", 1, memory="50")], [{}], id="memory where no label tells it"),
    *[pytest.param([*without, gpus("b")], [HALF], [{"b": 1}], id=f"no part of a node with {name}") for name, without in (
        ("MIG", [node("a", 2, **MIG)]), ("MIG by its label", [node("a", 2, **BY_LABEL)]), ("GPUs by DRA", [gpus("a", 1), DRA]), ("limits that are not ready", [not_ready(gpus("a", 2))]),
    )],
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "objects", "wanted"), CASES)
def test_where_parts_go(tmp_path: Path, cluster: list[Json], objects: list[Json], wanted: list[dict[str, int]]) -> None:
    assert bound(outcome(snapshot(tmp_path, SEEN, *cluster), *objects)) == wanted


def test_what_is_free_afterwards(tmp_path: Path) -> None:
    cluster = snapshot(tmp_path, SEEN, gpus("a", 3), *shared("g", "a", "0.5"))
    found = outcome(cluster, parts("quarter", 4, fraction="0.25"))
    free = {name: {view: amounts["free"][view] for view in ("before", "after")} for name, amounts in found.gpus.items()}
    assert free == {GPU: {"before": 2, "after": 1.5}, "kai.scheduler/gpu": {"before": 0.5, "after": 0}}


def test_what_is_left_is_told_of_the_whole_gpus_too(tmp_path: Path) -> None:
    """Though nobody asked for one."""
    path = tmp_path / "half.yaml"
    path.write_text(yaml.safe_dump(parts("half", 1, fraction="0.5")))
    cluster = write(tmp_path, SEEN, gpus("a", 2), *shared("g", "a", "0.75"))
    left = call("try", "-f", path, "-n", "team", "--from", cluster).stdout.partition("LEFT")[2]
    assert [line.split()[2:] for line in left.splitlines() if "free" in line] == [
        ["kai.scheduler/gpu", "0.25", "0.25"],
        [GPU, "1", "0.5"],
    ]


def test_a_pod_that_waits_for_a_part_is_tried_too(tmp_path: Path) -> None:
    cluster = snapshot(tmp_path, SEEN, gpus("a", 1), waiting(fraction="0.75"))
    found = outcome(cluster, parts("half", 1, fraction="0.5"))
    assert (found.waited["after"], bound(found)) == (0, [{}])


@pytest.mark.parametrize(
    ("first", "then", "wanted"),
    [
        pytest.param(parts("half", 4, fraction="0.5"), parts("more", 1, fraction="0.5"), [{"a": 3, "b": 1}, {"a": 1}], id="parts"),
        pytest.param(parts("half", 2, fraction="0.5"), job("whole", 1, 3, **SCHEDULER), [{"a": 1, "b": 1}, {"c": 1}], id="whole GPUs"),
        pytest.param(
            parts("two", 1, fraction="0.5", fraction_num_devices="2"), job("whole", 1, 2, **SCHEDULER), [{"a": 1}, {"c": 1}], id="several"
        ),
    ],
)  # fmt: skip
def test_the_webhook_knows_what_kai_reserves_meanwhile(
    tmp_path: Path, first: Json, then: Json, wanted: list[dict[str, int]]
) -> None:
    """It requires a node, for a part where a shared GPU has room. A node that is full then would never take the pod."""
    policy = load_policy("profiles: {default: {placement: {requiredFor: [kai-scheduler]}}}")
    cluster = snapshot(tmp_path, SEEN, OPTED_IN, gpus("a", 3), gpus("b", 1), gpus("c", 4), *shared("g", "b", "0.5"))
    admission, scheduler = Admission(cluster, policy), Scheduler(Situation(cluster, policy))
    found = []
    for plan in planned_in(yaml.safe_dump_all([first, then]).encode(), "-", policy, "team"):
        assert isinstance(plan, Planned)
        of, on = admission.tried(plan), Counter[str]()
        for made in [admission.admit(of) for _ in range(of.pods)]:
            admission.scheduled(made, now := scheduler.bind(made))
            on.update([now["spec"]["nodeName"]] if now else [])
        found.append(dict(sorted(on.items())))
    assert found == wanted


BY_CONTAINER = "nvidia.com/container.main.gpu-memory.request"
FULL = [*shared("g", "a", "1"), placed(pod("whole", 1), "a")]
PENDING = [
    pytest.param([gpus("a", 1)], {"fraction": "0.5"}, "fitsNow", "node a could take it now", "queues with quotas", 1, id="room"),
    pytest.param([gpus("a", 1), *shared("g", "a", "0.7")], {"fraction": "0.5"}, "noDevice", "node a: at most 0.3 of a GPU free for the part that it asks for", "ask for gpu-fraction: 0.3 at most", 1, id="too little of a shared GPU"),
    pytest.param([gpus("a", 2), *FULL], {"fraction": "0.5"}, "noDevice", "node a: at most 0 of a GPU free", "wait for a pod there to end", 0, id="nothing free"),
    pytest.param([gpus("a", 1)], {"memory": "20000"}, "noDevice", "node a: at most 1 of a GPU free", "ask for gpu-fraction: 0.99 at most", 1, id="more memory than any GPU has"),
    pytest.param([gpus("a", 1), *shared("g", "a", "0.7")], {BY_CONTAINER: "8000Mi"}, "noDevice", "node a: at most 0.3 of a GPU free", "ask for gpu-fraction: 0.3 at most", 1, id="memory for one container"),
    pytest.param([gpus("a", 1), *shared("g", "a", "0.5")], {BY_CONTAINER: "8000Mi"}, "fitsNow", "node a could take it now", "queues with quotas", 1, id="room for one container"),
    pytest.param([gpus("a", 2), *shared("g", "a", "0.75"), *shared("h", "a", "0.5")], TWO, "noDevice", "node a: at most 0.25 of 2 GPUs free", "ask for gpu-fraction: 0.25 at most", 1, id="two GPUs"),
    pytest.param([gpus("a", 2)], TWO | {"fraction_num_devices": "64"}, "noDevice", "node a: fewer GPUs than the 64 of which it asks for parts", "ask for gpu-fraction-num-devices: 2 at most", 1, id="parts of more GPUs than a node has"),
    pytest.param([node("a", 2, **MIG)], {"fraction": "0.5"}, "noDevice", "node a: kai-scheduler gives no parts of GPUs where there are MIG instances", "let the pod run on other nodes", 0, id="MIG"),
    pytest.param([node("a", 0)], {"fraction": "0.5"}, "noGpus", "node a: no nvidia.com/gpu", "they are for other pods", 0, id="no GPU"),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "notes", "word", "text", "fix", "helps"), PENDING)
def test_why_a_part_waits(
    tmp_path: Path, cluster: list[Json], notes: dict[str, str], word: str, text: str, fix: str, helps: int
) -> None:
    found = cause(tmp_path, SEEN, *cluster, waiting(**notes))
    assert (found.cause, found.text[: len(text)]) == (word, text)
    assert fix in found.fix
    assert (found.helps, "That is not enough" in found.fix) == (helps, False)


def test_no_other_scheduler_gives_a_part(tmp_path: Path) -> None:
    """By default-scheduler the pod would run, without a GPU."""
    found = cause(tmp_path, gpus("a", 1), waiting(fraction="0.5"))
    assert (found.cause, found.fix) == ("unknownScheduler", "install kai-scheduler")
    misspelt = waiting(fraction="0.5")
    misspelt["spec"]["schedulerName"] = "kai-schedular"
    found = cause(tmp_path, SEEN, gpus("a", 1), misspelt)
    assert (found.helps, found.fixes[0].words) == (1, "set spec.schedulerName to kai-scheduler in its template")


def test_nodes_that_are_not_for_a_part(tmp_path: Path) -> None:
    """Those without GPUs, and with fewer than it asks for."""
    cluster = [
        gpus("full"),
        *shared("g", "full", "0.75"),
        placed(pod("whole", 1), "full"),
        gpus("small", 1),
        node("cpu", 0),
    ]
    two = waiting(fraction="0.5", fraction_num_devices="2")
    [answer] = [
        each for each in answers(snapshot(tmp_path, SEEN, *cluster, two), load_policy(), None) if each.name == "waits"
    ]
    assert {each.nodes: each.elsewhere for each in answer.causes} == {
        ("full",): False,
        ("small",): True,
        ("cpu",): True,
    }


def test_pods_that_differ_in_their_annotations_are_told_apart(tmp_path: Path) -> None:
    cluster = snapshot(
        tmp_path,
        SEEN,
        gpus("a", 1),
        *shared("g", "a", "0.7"),
        waiting("large", fraction="0.5"),
        waiting("small", fraction="0.2"),
    )
    found = {answer.name: answer.causes[0].cause for answer in answers(cluster, load_policy(), None)}
    assert (found["large"], found["small"]) == ("noDevice", "fitsNow")

"""For any cluster and pod: the record of a decision and `why` exclude the same nodes, by the same words."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.cli.objects import Json, placed, snapshot
from tests.controlplane.nodes import node
from tests.placement.placed import affinity
from tests.state.objects import GPU, stored
from webhook.framework.cluster_view import Placement
from webhook.kube.asked import AskedPod
from webhook.placement.feasible import AFFINITY, CORDONED, NOT_READY, SELECTOR, TAINTED
from webhook.placement.placer import Placer
from webhook.placement.settings import Health, PlacementSettings
from webhook.whatif.answers import answers
from webhook.whatif.offline import load_policy

AS_THE_SCHEDULER = PlacementSettings(health=Health(labels={}, conditions={}))
"""Of nodes that are ready, and without reservations: then all switches of the record are those of `why`."""
WORDS = {
    "cordoned": CORDONED,
    "notReady": NOT_READY,
    "untoleratedTaint": TAINTED,
    "nodeSelector": SELECTOR,
    **dict.fromkeys(("nodeAffinity", "pinnedNode"), AFFINITY),
}
"""The words of the record for those of `why`. All others are about amounts: `why` has a cause for each resource that is
short, and the record one for each node."""
AMOUNTS = "amounts"
KEYS = st.sampled_from(["zone", "pool"])
VALUES = st.sampled_from(["a", "b"])
TAINTS = st.builds(
    lambda key, effect: {"key": key, "value": "", "effect": effect},
    st.sampled_from(
        [
            *("team", "nvidia.com/gpu", "node.kubernetes.io/disk-pressure", "node.kubernetes.io/unschedulable"),
            *("aws-node-termination-handler/spot-itn", "startup-taint.cluster-autoscaler.kubernetes.io/x"),
        ]
    ),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
TOLERATIONS = st.fixed_dictionaries(
    {"operator": st.just("Exists")},
    optional={
        "key": st.sampled_from(["team", "nvidia.com/gpu", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute"]),
    },
).filter(lambda each: "key" in each or "effect" in each)
PRIORITIES = st.sampled_from([0, 5, 9])
TERMS = st.one_of(
    st.builds(lambda k, v: {"matchExpressions": [{"key": k, "operator": "In", "values": [v]}]}, KEYS, VALUES),
    st.builds(
        lambda op, name: {"matchFields": [{"key": "metadata.name", "operator": op, "values": [name]}]},
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from(["n0", "n1", "gone"]),
    ),
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Json:
    gpus = draw(st.sampled_from([{}, {GPU: "0"}, {GPU: "2"}, {GPU: "8"}, {GPU: "8"}]))
    more = draw(st.sampled_from([{}, {}, {}, {"nvidia.com/mig-1g.10gb": "7"}]))
    return node(
        name,
        int(gpus.get(GPU, 0)),
        cpu=draw(st.sampled_from(["3", "96", "96"])),
        pods=draw(st.sampled_from(["0", "110", "110"])),
        labels=draw(st.dictionaries(KEYS, VALUES)),
        taints=draw(st.lists(TAINTS, max_size=2)),
        cordoned=draw(st.sampled_from([False, False, True])),
        resources=gpus | more,
    )


@st.composite
def pods(draw: st.DrawFn) -> Json:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(st.dictionaries(KEYS, VALUES, min_size=1))
    if draw(st.booleans()):
        spec["affinity"] = affinity(*draw(st.lists(TERMS, min_size=1, max_size=2)))
    if nominated := draw(st.sampled_from(["", "", "", "n0", "n1"])):
        spec["nominated"] = nominated
    asks = draw(
        st.sampled_from([{}, {}, {"nvidia.com/mig-1g.10gb": "1"}, {"ephemeral-storage": "2Ti"}, {"rdma/hca": "1"}])
    )
    spec |= {"priority": draw(PRIORITIES), "tolerations": draw(st.lists(TOLERATIONS, max_size=3))}
    return stored("waits", draw(st.integers(1, 8)), limits=asks, **spec)


def preempting(number: int, gpus: int, priority: int) -> Json:
    """A pod that waits on the node n0 for the end of those that it preempted."""
    return stored(f"next-{number}", gpus, nominated="n0", priority=priority)


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    count = draw(st.integers(1, 5))
    found = [draw(nodes(f"n{number}")) for number in range(count)]
    for number in range(draw(st.integers(0, 3))):
        made = stored(f"on-{number}", draw(st.integers(0, 8)))
        found.append(placed(made, f"n{draw(st.integers(0, count - 1))}"))
    for number in range(draw(st.integers(0, 2))):
        found.append(preempting(number, draw(st.sampled_from([1, 4, 8])), draw(PRIORITIES)))
    if draw(st.sampled_from([False, False, True])):
        devices = {"driver": "gpu.nvidia.com", "nodeName": "n0", "pool": {"name": "n0"}, "devices": [{"name": "gpu-0"}]}
        of = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "slice"}, "spec": devices}
        found.append({"kind": "ResourceSlice", **of})
    return found


def excluded(folder: Path, cluster: list[Json], made: Json) -> tuple[Placement, dict[str, set[str]], int]:
    """What the record says of a pod, which nodes `why` excludes by each word of the record, and the number of nodes."""
    waiting = placed(made, None, **made["status"])
    found = snapshot(folder, *cluster, waiting)
    state = found.state
    record = Placer(state).place(AskedPod(waiting, GPUS), state.view(found.taken), AS_THE_SCHEDULER, "pack")
    (answer,) = [each for each in answers(found, load_policy(), None) if each.name == "waits"]
    by_word: dict[str, set[str]] = {}
    for cause in answer.causes:
        if cause.cause != "fitsNow" and cause.nodes:
            by_word.setdefault(WORDS.get(cause.cause, AMOUNTS), set()).update(cause.nodes)
    return record, by_word, len(found.nodes)


NOMINATED = [
    pytest.param([preempting(0, 8, 9)], stored("waits", 4, priority=5), 0, id="by a pod of a higher priority"),
    pytest.param([preempting(0, 8, 5)], stored("waits", 4, priority=5), 0, id="by a pod of the same priority"),
    pytest.param([preempting(0, 8, 5)], stored("waits", 4, priority=9), 1, id="by a pod of a lower priority"),
    pytest.param(
        [preempting(n, 4, 9) for n in range(2)], stored("waits", 4), 0, id="by two pods, either of which leaves enough"
    ),
    pytest.param([], stored("waits", 8, nominated="n0"), 1, id="by the pod itself"),
]


@pytest.mark.parametrize(("others", "made", "fit"), NOMINATED)
def test_what_is_kept_for_a_pod_that_preempted_others(tmp_path: Path, others: list[Json], made: Json, fit: int) -> None:
    """As the scheduler keeps it: from pods of no higher priority, for all of them together."""
    record, by_word, _ = excluded(tmp_path, [node("n0"), *others], made)
    assert (len(record.nodes), by_word) == (fit, {} if fit else {AMOUNTS: {"n0"}})


@given(clusters(), pods())
def test_the_record_and_pending_exclude_the_same_nodes(cluster: list[Json], made: Json) -> None:
    with TemporaryDirectory() as folder:
        record, by_word, total = excluded(Path(folder), cluster, made)
    everywhere = set().union(*by_word.values())
    assert (record.reason == "no node fits") is (len(everywhere) == total)
    assert len(record.nodes) == total - len(everywhere)
    counts: dict[str, int] = {}
    for reason, number in record.rejected:
        word = reason if reason in WORDS.values() else AMOUNTS
        counts[word] = counts.get(word, 0) + number
    if record.rejected:
        assert counts == {word: len(names) for word, names in by_word.items()}


@pytest.mark.parametrize(
    "key", ["aws-node-termination-handler/spot-itn", "startup-taint.cluster-autoscaler.kubernetes.io/driver"]
)
def test_a_taint_that_passes_has_one_word(tmp_path: Path, key: str) -> None:
    tainted = node("n0", taints=[{"key": key, "value": "", "effect": "NoSchedule"}])
    record, by_word, _ = excluded(tmp_path, [tainted], stored("waits"))
    assert record.rejected == ((NOT_READY, 1),)
    assert by_word == {NOT_READY: {"n0"}}

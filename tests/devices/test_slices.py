"""Which nodes have GPUs in ResourceSlices of DRA."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.controlplane.nodes import node
from tests.devices import dra
from tests.placement.claiming import claiming, cluster
from tests.placement.placed import names, placed
from tests.state.objects import state


def piece(name: str, node: str | None = "gpu-a", driver: str = "gpu.nvidia.com") -> dict[str, Any]:
    spec = {"driver": driver, "pool": {"name": "p"}} | ({"nodeName": node} if node else {"allNodes": True})
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "of_no_node",
    [
        pytest.param(piece("s", driver="dra.cpu.example"), id="of another device"),
        pytest.param(piece("s", node=None), id="of devices that no node has alone"),
    ],
)
def test_a_slice_without_gpus_of_one_node_does_not_count(of_no_node: dict[str, Any]) -> None:
    of = state([node("gpu-a", 0)])
    of.slices.seen(of_no_node)
    assert of.nodes.dra == set()


def drawing(counter_set: str, counter: str = "memory") -> dict[str, Any]:
    return {"consumesCounters": [{"counterSet": counter_set, "counters": {counter: {"value": "1"}}}]}


def counters(*names: str, name: str = "counters", **spec: Any) -> dict[str, Any]:
    sets = [{"name": each, "counters": {"memory": {"value": "1"}}} for each in names]
    return dra.device_slice("gpu-a", [], name=name, slices=2, sharedCounters=sets, **spec)


@pytest.mark.parametrize(
    ("slices", "fits"),
    [
        pytest.param([dra.device_slice("gpu-a", [dra.gpu(0, **drawing("c"))], slices=2), counters("c")], True, id="sound"),
        pytest.param(
            [
                dra.device_slice("gpu-a", [dra.gpu(0, **drawing("c"))], slices=2),
                counters("c", nodeName=None, allNodes=True),
            ],
            True,
            id="counters of no single node",
        ),
        pytest.param(
            [dra.device_slice("gpu-a", [dra.gpu(0)]), dra.device_slice("gpu-a", [dra.gpu(1)], name="t", generation=2)],
            True,
            id="a former generation beside it",
        ),
        pytest.param([dra.device_slice("gpu-a", [dra.gpu(0, **drawing("c"))])], False, id="no such counter set"),
        pytest.param(
            [dra.device_slice("gpu-a", [dra.gpu(0, **drawing("c", "cores"))], slices=2), counters("c")],
            False,
            id="no such counter",
        ),
        pytest.param([dra.device_slice("gpu-a", [dra.gpu(0)], slices=2), counters("c", "c")], False, id="a counter set twice"),
        pytest.param(
            [
                dra.device_slice("gpu-a", [dra.gpu(0), dra.gpu(1)], slices=2),
                dra.device_slice("gpu-a", [dra.gpu(1)], name="t", slices=2),
            ],
            False,
            id="a device in two slices",
        ),
    ],
)  # fmt: skip
def test_an_invalid_pool_has_no_devices(slices: list[dict[str, Any]], fits: bool) -> None:
    """As buildPool of the scheduler's allocator says; the others of the node have theirs."""
    other = dra.device_slice("gpu-a", [dra.gpu(7)], name="other", pool={"name": "other", "resourceSliceCount": 1})
    templates = [dra.template("one", dra.exactly()), dra.template("two", dra.exactly(2))]
    of = cluster([*slices, other], templates, nodes=["gpu-a"])
    assert names(placed(of, claiming("one"))) == ["gpu-a"]
    assert names(placed(of, claiming("two"))) == (["gpu-a"] if fits else [])


def test_a_pool_of_many_nodes_tells_a_node_what_is_new_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice told all nodes of its pool, and searched the pool for each: 400 took 2.5 s, and 0.1 s at each event."""
    names_of = [f"n{number}" for number in range(40)]
    pool = {"name": "every", "generation": 1, "resourceSliceCount": len(names_of)}
    slices = [dra.device_slice(name, [dra.gpu(number)], pool=pool) for number, name in enumerate(names_of)]
    of = cluster([], [dra.template("one", dra.exactly())], nodes=names_of)
    told = list[str]()
    tell = of.nodes.devices.publish
    monkeypatch.setattr(of.nodes.devices, "publish", lambda node, *more: (told.append(node), tell(node, *more)))
    for each in slices[:-1]:
        of.seen("resourceslices", each, 0)
    assert not placed(of, claiming("one")).nodes, "one slice is missing"
    of.seen("resourceslices", slices[-1], 0)
    assert len(placed(of, claiming("one")).nodes) == 10
    assert len(told) == 39 + 40
    of.seen("resourceslices", dra.device_slice("n7", [dra.gpu(7), dra.gpu(77)], pool=pool), 0)
    assert told[79:] == ["n7"]
    rule = {"deviceSelector": {"pool": "every"}, "taint": {"key": "sick", "effect": "NoSchedule"}}
    of.seen("devicetaintrules", {"metadata": {"name": "r"}, "spec": rule}, 0)
    assert not placed(of, claiming("one")).nodes
    of.forget("devicetaintrules", "r")
    of.forget("resourceslices", "slice-n0")
    assert not placed(of, claiming("one")).nodes


@st.composite
def events(draw: st.DrawFn) -> tuple[str, str, Any]:
    """The kind of an object, its name, and the object; None if it is deleted."""
    kind, number = (
        draw(st.sampled_from(["resourceslices", "resourceslices", "resourceclaims", "nodes"])),
        draw(st.integers(0, 3)),
    )
    on, gone = draw(st.sampled_from(["a", "b"])), draw(st.integers(0, 3)) == 0
    if kind == "nodes":
        return kind, on, None if gone else node(on, 0)
    if kind == "resourceclaims":
        has = f"gpu-{draw(st.integers(0, 2))}"
        return kind, f"team-a/c{number}", None if gone else dra.claim(f"c{number}", on=on, has=[has], users=["uid-p"])
    devices = [dra.gpu(draw(st.integers(0, 2)), on=on) for _ in range(draw(st.integers(0, 2)))]
    pool = {"name": draw(st.sampled_from(["p", on])), "resourceSliceCount": draw(st.integers(1, 2))}
    pool["generation"] = draw(st.integers(1, 2))
    where = {"nodeName": None, "allNodes": True} if draw(st.integers(0, 7)) == 0 else {"nodeName": on}
    return kind, f"s{number}", None if gone else dra.device_slice(on, devices, name=f"s{number}", pool=pool, **where)


ONE = dra.device_slice("a", [dra.gpu(0)], name="s0")


@given(st.lists(events(), max_size=30))
@example([("nodes", "a", None), ("resourceslices", "s0", ONE), ("nodes", "a", node("a", 0))])
def test_what_was_seen_before_and_is_gone_leaves_nothing_behind(seen: list[tuple[str, str, Any]]) -> None:
    """Pods were left to the scheduler or not by devices of no single node that there had been at the first decision."""
    templates = [dra.template("one", dra.exactly()), dra.template("all", dra.exactly(allocationMode="All"))]
    of, now = cluster([], templates), dict[str, dict[str, Any]]()
    now["nodes"] = {name: node(name, 0) for name in "ab"}

    def decided(cluster: Any) -> list[Any]:
        found = [placed(cluster, claiming(name)) for name in ("one", "all")]
        return [(names(each), each.reason, [ranked.free for ranked in each.nodes]) for each in found]

    for kind, name, obj in seen:
        now.setdefault(kind, {}).pop(name, None)
        if obj is None and kind == "nodes":
            of.node_gone(name)
        elif obj is None:
            of.forget(kind, name)
        else:
            now[kind][name] = obj
            of.node_seen(obj) if kind == "nodes" else of.seen(kind, obj, 0)
        decided(of)
    fresh = cluster(
        now.get("resourceslices", {}).values(), templates, now.get("resourceclaims", {}).values(), nodes=now["nodes"]
    )
    assert (decided(of), of.nodes.dra, of.slices.drivers) == (decided(fresh), fresh.nodes.dra, fresh.slices.drivers)

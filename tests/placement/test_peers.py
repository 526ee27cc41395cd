"""An owner's pods are kept apart the same way however many there are, and the choice for one more costs no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import GPUS
from tests.cluster.objects import admitted, node, placer, pod, state
from webhook.cluster.state import ClusterState
from webhook.cluster.utilisation import UNKNOWN
from webhook.framework.cluster_view import Placement
from webhook.placement import peers as module
from webhook.placement import ranker
from webhook.placement.peers import Order
from webhook.placement.settings import PlacementSettings
from webhook.placement.top import Place

SETTINGS = PlacementSettings()


@pytest.fixture(autouse=True, params=[12, 192], ids=["short lists", "long lists"])
def _lists(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_WITHOUT", request.param)
        patched.setattr(module, "_WITH", request.param)
        yield


def placed(of: ClusterState, made: dict[str, Any], strategy: str, *, lists: bool) -> Placement:
    """As with lists kept for every owner, or for none."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranker, "SEVERAL", 0 if lists else 10**9)
        return placer(of).place(made, of.view(0), SETTINGS, strategy, GPUS)


_WISH = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 5, "preference": {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}}
        ]
    }
}


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_lists_of_an_owner_give_what_a_look_at_all_its_pods_gives(data: st.DataObject) -> None:
    number = data.draw(st.sampled_from([1, 5, 12, 45]))
    nodes = [node(f"n{i:02}", labels={"fast": "yes"} if i % 4 == 0 else {}) for i in range(number)]
    of = state(nodes, replica="a")
    strategy = data.draw(st.sampled_from(["apart", "spread"]))
    wish = data.draw(st.sampled_from([{}, {"affinity": _WISH}]))
    for step in range(data.draw(st.integers(1, 25))):
        name = f"n{data.draw(st.integers(0, number - 1)):02}"
        what = data.draw(st.integers(0, 9))
        if what == 0:
            of.pod_seen(pod(f"x{step}", data.draw(st.integers(0, 8)), on=name), 0)
        elif what == 1:
            of.pod_gone(pod(f"o{data.draw(st.integers(0, 25))}"), 0)
        elif what == 2:
            of.nodes.share(("a", "b") if data.draw(st.booleans()) else ("a",))
        elif what == 3:
            avoid = int(data.draw(st.booleans()))
            of.gpu_use_seen(name, UNKNOWN._replace(measured=8, idle=8, utilisation=0.0, avoid=avoid))
        elif what == 4:
            of.node_seen(node(name, cordoned=data.draw(st.booleans())))
        else:
            of.pod_seen(pod(f"o{step}", data.draw(st.integers(0, 2)), on=name, owner="o"), 0)
        made = admitted(pod(f"p{step}", 1, owner="o", **wish))
        kept = placed(of, made, strategy, lists=True)
        assert kept == placed(of, made, strategy, lists=False)
        if data.draw(st.booleans()):
            of.reserve_pod(made, kept, 0)


@pytest.mark.parametrize("strategy", ["apart", "spread"])
def test_the_work_for_one_more_replica_does_not_grow_with_those_on_their_way(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, looked = state([node(f"n{i:03}") for i in range(120)]), 0
    before = Order.place

    def counted(self: Order, row: int) -> Place | None:
        nonlocal looked
        looked += 1
        return before(self, row)

    monkeypatch.setattr(Order, "place", counted)
    monkeypatch.setattr(module, "_WITH", 1024)
    each: list[int] = []
    for number in range(900):
        start, made = looked, admitted(pod(f"p{number}", 1, owner="o"))
        of.reserve_pod(made, placer(of).place(made, of.view(0), SETTINGS, strategy, GPUS), 0)
        each.append(looked - start)
    assert sorted(each)[len(each) * 98 // 100] <= module.SEVERAL + 4 * SETTINGS.nodes

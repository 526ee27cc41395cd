"""The state depends on the objects that exist, not on the order of events."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.effort import times
from tests.nodes.test_ledger import A, B, C, chosen
from tests.state.objects import GPU, admitted, facts, state, stored
from webhook.kube.asked import AskedPod

NAMES = (A, B, C)
_NODES = st.builds(
    node,
    st.sampled_from(NAMES),
    st.sampled_from([None, 0, 4, 8]),
    labels=st.dictionaries(st.sampled_from(["zone", "nvidia.com/gpu.product"]), st.sampled_from(["x", "y"])),
    taints=st.lists(
        st.fixed_dictionaries({"key": st.sampled_from(["k", "l"]), "effect": st.just("NoSchedule")}), max_size=2
    ),
    conditions=st.dictionaries(st.sampled_from(["Ready", "GpuUnhealthy"]), st.sampled_from(["True", "False"])),
    cordoned=st.booleans(),
    provider=st.sampled_from(["", "gce://project/zone/name"]),
)
_PODS = st.builds(
    stored,
    st.sampled_from(["p", "q", "r", "s"]),
    st.integers(0, 3),
    on=st.sampled_from([None, *NAMES]),
    owner=st.sampled_from([None, "o1", "o2"]),
    phase=st.sampled_from(["", "Running", "Succeeded"]),
    ranked=st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
    unschedulable=st.booleans(),
    nominated=st.sampled_from(["", "", *NAMES]),
)


class AnyOrder(RuleBasedStateMachine):
    """After any events, the state equals one that was filled from a list of the existing objects."""

    def __init__(self) -> None:
        super().__init__()
        self.of = state()
        self.of.ledger.ttl, self.of.ledger.unseen_ttl = 10.0, 4.0
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.now = 0.0
        self.seen_from = ""
        """The namespace of the last review."""

    @rule(made=_NODES)
    def node_seen(self, made: dict[str, Any]) -> None:
        self.nodes[made["metadata"]["name"]] = made
        self.of.node_seen(made)

    @rule(name=st.sampled_from(NAMES))
    def node_gone(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.of.node_gone(name)

    @rule(made=_PODS)
    def pod_seen(self, made: dict[str, Any]) -> None:
        name = made["metadata"]["name"]
        before = self.pods.get(name)
        if before is not None and before["spec"].get("nodeName"):  # a binding is for ever
            made["spec"]["nodeName"] = before["spec"]["nodeName"]
        self.pods[name] = made
        self.of.pod_seen(made, self.now)

    @rule(name=st.sampled_from(["p", "q", "r", "s"]))
    def pod_gone(self, name: str) -> None:
        self.pods.pop(name, None)
        self.of.pod_gone(stored(name))

    @rule(made=_PODS, nodes=st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
    def reserve(self, made: dict[str, Any], nodes: list[str]) -> None:
        self.of.reserve(AskedPod(admitted(made), GPUS), chosen(*nodes), self.now)

    @rule(seconds=st.floats(0.0, 20.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.of.expire(self.now)

    @rule(namespace=st.sampled_from(["team-a", "team-b", ""]))
    def review_of(self, namespace: str) -> None:
        self.seen_from = namespace
        self.of.usage.seen_from(namespace)

    @rule(nodes=st.sets(st.sampled_from(NAMES)), pods=st.sets(st.sampled_from("pqrs")))
    def listed_again(self, nodes: set[str], pods: set[str]) -> None:
        """Some objects were deleted unseen."""
        self.nodes = {name: made for name, made in self.nodes.items() if name in nodes}
        self.pods = {name: made for name, made in self.pods.items() if name in pods}
        self.of.replace("pods", list(self.pods.values()), self.now)
        self.of.replace("nodes", list(self.nodes.values()), self.now)

    @invariant()
    def what_is_held_and_what_is_free_add_up(self) -> None:
        columns = self.of.nodes.columns
        held: dict[int, int] = {}
        for row, kind in [*self.of.ledger.holders(self.seen_from), *self.of.nominations.holders()]:
            held[row] = held.get(row, 0) + kind.pod_requests.amount(GPU)
        for name, row in self.of.nodes.row_of.items():
            if not columns.alive[row] or GPU not in columns.free:
                continue
            bound = sum(
                int(c["resources"]["limits"].get(GPU, 0))
                for p in self.pods.values()
                if p["spec"].get("nodeName") == name and p["status"].get("phase") != "Succeeded"
                for c in p["spec"]["containers"]
            )
            offered = int(self.nodes[name]["status"]["allocatable"].get(GPU, 0))
            assert columns.free[GPU][row] == offered - bound - held.get(row, 0)

    @invariant()
    def the_counts_of_the_ledger_are_what_it_holds(self) -> None:
        counts = self.of.ledger.counts
        assert counts.reserved + counts.seen == len(self.of.ledger.holders("team-a"))

    def teardown(self) -> None:
        self.of.expire(self.now + 1000.0)
        assert (self.of.usage._private, self.of.ledger.parts._shared, self.of.ledger.parts._all) == ({}, {}, 0)
        again = state(self.nodes.values(), self.pods.values())
        again.expire(1000.0)
        assert facts(self.of) == facts(again)
        self.of.replace("pods", [], self.now + 1000.0)
        self.of.replace("nodes", [], self.now + 1000.0)
        usage, columns = self.of.usage, self.of.nodes.columns
        assert (self.of.nodes.row_of, usage.peers, usage._kinds, self.of.holdings) == ({}, {}, {}, {}), (
            "no rest is kept"
        )
        assert not any(array.any() for array in columns.free.values())
        assert not [*self.of.nodes.labels.keys()]


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(times(1.5), stateful_step_count=30)


@given(st.permutations([f"node-{i}" for i in range(40)]), st.data())
@times(0.3)
def test_the_order_of_nodes_is_by_name_however_they_came(names: list[str], data: st.DataObject) -> None:
    of = state()
    for name in names:
        of.node_seen(node(name))
    for name in data.draw(st.lists(st.sampled_from(names), unique=True)):
        of.node_gone(name)
        of.node_seen(node(name + "x"))
    left = sorted(of.nodes.row_of)
    assert [of.nodes.columns.name[row] for row in of.nodes.by_name()] == left

"""What units see of the cluster: always the present state, although answers are cached.

Covers framework.cluster_view.
"""

from typing import Any

from tests.builders import GPUS
from tests.controlplane.nodes import node
from tests.devices.dra import gpus_of
from tests.state.objects import GPU, state
from webhook.framework.cluster_view import Cluster
from webhook.kube.gpus import GpuName, Gpus
from webhook.kube.taints import Taint
from webhook.state.state import ClusterState

ZONE = "topology.kubernetes.io/zone"
PRODUCT = "nvidia.com/gpu.product"
TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}


def test_nodes_with_gpus_by_dra_alone_are_nodes_with_gpus() -> None:
    taint = {"key": "sku", "value": "gpu", "effect": "NoSchedule"}
    of = state(
        [node("dra", 0, labels={ZONE: "x", PRODUCT: "H100"}, taints=[taint]), node("cpu", 0, labels={ZONE: "z"})]
    )
    assert of.view(0).gpu_taints(GPUS) == ()
    of.replace("resourceslices", [gpus_of("dra")], 0)
    view = of.view(0)
    assert view.gpu_taints(GPUS) == (Taint("sku", "gpu", "NoSchedule"),)
    assert (view.domains(ZONE, GPUS), view.label_values(PRODUCT, GPUS)) == (1, ("H100",))
    of.slices.gone("slice-dra")
    assert of.view(0).gpu_taints(GPUS) == ()


def pools() -> ClusterState:
    return state(
        [
            node("gpu-a", 8, labels={ZONE: "x", PRODUCT: "H100"}, taints=[TAINT]),
            node("gpu-b", 4, labels={ZONE: "y", PRODUCT: "L4"}, taints=[TAINT, {"key": "spot", "effect": "NoExecute"}]),
            node("gpu-c", 8, labels={ZONE: "y", PRODUCT: "H100"}),
            node("mig", 0, labels={PRODUCT: "A100", ZONE: None}, resources={"nvidia.com/mig-1g.10gb": "7"}),
            node("cpu", 0, labels={ZONE: "z"}, taints=[{"key": "infra", "effect": "NoSchedule"}]),
            node("odd", 0, labels={ZONE: None}, resources={"example.com/thing": "3"}),
        ]
    )


def test_a_view_is_the_cluster_of_units() -> None:
    seen: Cluster = pools().view(0)
    assert seen.fresh
    assert seen.knows_priority_classes


def test_nothing_is_known_of_an_empty_cluster() -> None:
    seen = ClusterState().view(0)
    assert not seen.fresh
    assert not seen.knows_priority_classes
    assert seen.gpu_taints(GPUS) == ()
    assert seen.domains(ZONE, GPUS) == 0
    assert seen.label_values(ZONE, GPUS) == ()
    assert seen.resources() == {}
    assert seen.namespace_labels("team-a") is None


def test_the_taints_are_those_of_nodes_with_gpus_each_once_and_sorted() -> None:
    assert pools().view(0).gpu_taints(GPUS) == (Taint(GPU, "present", "NoSchedule"), Taint("spot", "", "NoExecute"))


def test_domains_and_label_values_are_those_of_nodes_with_gpus() -> None:
    seen = pools().view(0)
    assert seen.domains(ZONE, GPUS) == 2
    assert seen.label_values(ZONE, GPUS) == ("x", "y")
    assert seen.label_values(PRODUCT, GPUS) == ("A100", "H100", "L4")
    assert seen.domains("no/such", GPUS) == 0


def test_each_set_of_gpus_has_its_own_answers() -> None:
    seen, others = pools().view(0), Gpus((GpuName("example.com/thing", "whole"),))
    assert seen.gpu_taints(GPUS) != seen.gpu_taints(others) == ()
    assert seen.domains(ZONE, GPUS) != seen.domains(ZONE, others) == 0
    assert seen.label_values(PRODUCT, GPUS) != seen.label_values(PRODUCT, others) == ()


def test_shared_gpus_count_once() -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    of = state([node("a", 0, labels=labels, resources={GPU: "10"})])
    assert of.view(0).resources() == {GPU: 3}


def test_resources_are_the_extended_ones_with_the_most_that_one_node_has() -> None:
    assert pools().view(0).resources() == {"example.com/thing": 3, "nvidia.com/mig-1g.10gb": 7, GPU: 8}


def test_cached_answers_change_with_the_nodes() -> None:
    of = pools()
    before = _answers(of)
    of.node_seen(
        node("gpu-d", 16, labels={ZONE: "w", PRODUCT: "B200"}, taints=[{"key": "new", "effect": "NoSchedule"}])
    )
    after = _answers(of)
    assert all(before[name] != after[name] for name in before)
    of.node_gone("gpu-d")
    assert _answers(of) == before


def _answers(of: ClusterState) -> dict[str, Any]:
    seen = of.view(0)
    return {
        "taints": seen.gpu_taints(GPUS),
        "domains": seen.domains(ZONE, GPUS),
        "values": seen.label_values(PRODUCT, GPUS),
        "resources": seen.resources(),
    }


def test_a_resource_of_which_all_nodes_list_0_is_still_listed() -> None:
    of = state([node("a", 8)])
    of.node_seen(node("a", 0, resources={GPU: "0"}))
    assert of.view(0).resources() == {GPU: 0}
    of.node_seen(node("a", 0))
    assert of.view(0).resources() == {}


def test_the_cluster_is_elastic_where_a_node_has_a_provider_or_dra_serves_gpus() -> None:
    """A provider has any form, as `cn-hangzhou.i-bp1a2b3c` on ACK."""
    of = state([node("a")])
    assert not of.view(0).elastic
    of.node_seen(node("b", provider="cn-hangzhou.i-bp1a2b3c"))
    assert of.view(0).elastic
    of.node_gone("b")
    assert not of.view(0).elastic
    of.slices.seen({"metadata": {"name": "s"}, "spec": {"nodeName": "a", "driver": "gpu.nvidia.com"}})
    assert of.view(0).elastic


def test_a_required_kind_that_is_withdrawn_makes_the_state_stale() -> None:
    known = state([node("a")])
    assert known.view(0.0).fresh
    known.withdraw("pods")
    assert not known.view(0.0).fresh

"""Karpenter is known by its NodePools before it has made a node, with the rights of the installation."""

from typing import Any

import pytest

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.nodes import node
from tests.controlplane.objects import custom, made, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.bare import bare
from tests.installed import Installed, decision, known, opt_in

pytestmark = pytest.mark.controlplane

NODES = [node("a"), node("b")]
REPLICA = {"labels": {"pod-template-hash": "5f6d", "workload-type": "inference"}, "owned_by": "ReplicaSet"}
AUTHORS = {
    "weight": 1,
    "preference": {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}]},
}


def node_pools() -> dict[str, Any]:
    found = custom("NodePool", "karpenter.sh", "v1")
    found["spec"]["scope"] = "Cluster"
    return found


async def test_replicas_are_spread_by_constraints_only_where_no_karpenter_makes_nodes(beside: ControlPlane) -> None:
    async with bare(beside) as api:
        with beside.serving(node_pools()):
            await api.create(made("NodePool", "gpu", spec={}))
            with Installed(beside):
                await clusters.apply(api, NODES)
                await api.namespace("ours")
                await opt_in(api, "ours")
                await known(api, NODES)

                async def told(result: str) -> dict[str, Any]:
                    found: dict[str, Any] = {}

                    async def seen() -> bool:
                        found.update(await tried_replica(api))
                        return decision(found)["units"]["topologySpread"][0] == result

                    await wait_until(seen, 120, f"the spread of a replica to be {result}")
                    return found

                stored = await told("autoscaler")
                assert "topologySpreadConstraints" not in stored["spec"]
                assert decision(stored)["karpenter"] == "1.5"
                terms = stored["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
                assert terms[0] == AUTHORS
                keys = [each["key"] for term in terms[1:] for each in term["preference"]["matchExpressions"]]
                assert set(keys) == {"kubernetes.io/hostname"}, "Karpenter reads labels"
                await api.delete("NodePool", "gpu")
                stored = await told("added")
                assert "karpenter" not in decision(stored)


async def tried_replica(api: Api) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [AUTHORS]}}
    created: dict[str, Any] = await api.create(pod("web", affinity=affinity, **REPLICA), "ours", dryRun="All")
    return created

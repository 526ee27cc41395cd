"""The first decisions of a process are as fast as later ones: they import nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PROGRAM = """
import sys
from tests.builders import GPUS
from tests.cluster.objects import admitted, node, pod, state
from webhook.cluster.pods import reservation_request
from webhook.placement.placer import Placer
from webhook.placement.settings import PlacementSettings

taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
of = state([node(f"gpu-{i}", labels={"topology.kubernetes.io/zone": "ab"[i % 2]}, taints=[taint]) for i in range(70)])
placer = Placer(of)
before = set(sys.modules)
toleration = {"operator": "Exists"}
required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["1"]}]}]}
wished = [{"weight": 70000, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}}]
affinities = [
    {},
    {"requiredDuringSchedulingIgnoredDuringExecution": required},
    {"preferredDuringSchedulingIgnoredDuringExecution": wished},
]
for strategy in ("pack", "spread", "off"):
    for number in range(60):
        affinity = {"nodeAffinity": affinities[number % 3]}
        made = admitted(pod("p", 1 + number % 9, owner="o", tolerations=[toleration], affinity=affinity))
        made["metadata"]["ownerReferences"][0]["kind"] = "Job"
        view = of.view(0)
        placement = placer.place(made, view, PlacementSettings(), strategy, GPUS)
        of.reserve(reservation_request(made), placement, 0)
        placer.obstacles(made, view, PlacementSettings(), GPUS)
        view.gpu_taints(GPUS), view.domains("topology.kubernetes.io/zone", GPUS), view.resources()
        view.label_values("rank", GPUS), view.elastic
of.expire(99)
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_decisions_import_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

"""What `gpu-admission why` marks as enough is enough: on random clusters the first fix is applied, and the real scheduler
binds the pod. Its numbers are those of the scheduler."""

import random
from collections.abc import Mapping
from contextlib import suppress

import pytest

from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, pod, required
from tests.controlplane.plane import ControlPlane
from tests.e2e.pending.fixes import Open, apply
from tests.e2e.pending.kit import CASE, HOSTNAME, PRODUCT, Case, Json, held
from tests.e2e.test_pending import Play, play
from webhook.whatif.answers import Answer

pytestmark = pytest.mark.controlplane

CLUSTERS = 60
MODELS = ("NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", "Tesla-T4")


def drawn(seed: int) -> tuple[list[Json], list[Json], Json]:
    """The nodes of a cluster, the pods that hold GPUs there, and a pod that may have to wait."""
    rng, nodes, holders = random.Random(seed), [], []
    for name in ("p-a", "p-b", "p-c")[: rng.randint(1, 3)]:
        gpus = rng.choice((0, 2, 4, 8))
        nodes.append(
            node(
                name,
                gpus,
                rng.choice(MODELS),
                labels={"pool": rng.choice("xy")},
                taints=rng.choice(([], [], ["team=x:NoSchedule"], ["nvidia.com/gpu=present:NoSchedule"])),
                cordoned=rng.random() < 0.15,
                renamed=bool(gpus) and rng.random() < 0.15,
            )
        )
        capacity = int(nodes[-1]["status"]["capacity"].get("nvidia.com/gpu", 0))
        if capacity and rng.random() < 0.6:
            holders.append(held(f"on-{name}", rng.randint(1, capacity), name, tolerations=[{"operator": "Exists"}]))
    spec: Json = {}
    if rng.random() < 0.4:
        spec["nodeSelector"] = rng.choice(({"pool": "x"}, {"pool": "z"}, {PRODUCT: "A100"}, {PRODUCT: MODELS[1]}))
    if rng.random() < 0.2:
        spec["affinity"] = rng.choice(
            (required("pool", "In", "y"), required(PRODUCT, "In", "T4"), required(HOSTNAME, "In", "p-a"))
        )
    if rng.random() < 0.2:
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if rng.random() < 0.15:
        spec["requests"] = {"cpu": rng.choice(("40", "100", "200")), "memory": rng.choice(("64Gi", "900Gi"))}
    if rng.random() < 0.15:
        term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "topologyKey": HOSTNAME}
        spec["affinity"] = {
            **spec.get("affinity", {}),
            rng.choice(("podAffinity", "podAntiAffinity")): {REQUIRED: [term]},
        }
    if rng.random() < 0.1:
        apart = {"labelSelector": {"matchLabels": {"app": "waits"}}, "maxSkew": 1, "minDomains": 3}
        spec["topologySpreadConstraints"] = [apart | {"topologyKey": "pool", "whenUnsatisfiable": "DoNotSchedule"}]
    if rng.random() < 0.05:
        spec["schedulerName"] = "default-sheduler"
    resource = rng.choice(("nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/gpus"))
    waits = pod("waits", rng.choice((1, 2, 4, 8, 16)), resource=resource, **spec)
    if rng.random() < 0.3:
        more = {**waits["spec"]["containers"][0], "name": "more"}
        kind = rng.choice(("initContainers", "containers"))
        sidecar = {"restartPolicy": "Always"} if kind == "initContainers" and rng.random() < 0.5 else {}
        waits["spec"][kind] = [*waits["spec"].get(kind, ()), more | sidecar]
    return nodes, holders, waits


class Tried(Play):
    """A pod that waits or not, and whose first fix is applied if it is marked as enough and leaves nothing open."""

    applied = False

    def is_settled(self, pods: Mapping[str, list[Json]]) -> None:
        """Each holder is bound, or the scheduler has said that it found no node."""
        for each in pods.get(self.namespace, ()):
            assert each["spec"].get("nodeName") or each["status"].get("conditions"), each

    def is_answered(self, found: Mapping[str, list[Answer]]) -> None:
        answer = next((each for each in found.get(self.namespace, ()) if each.name == "waits"), None)
        if answer is not None and (first := answer.causes[0]).cause != "bound":
            assert answer.says or first.cause == "unknownScheduler", first
            self.agrees(answer)

    async def mend(self) -> None:
        first = self.answer.causes[0] if self.answer else None
        if first and first.helps and CASE not in first.text:  # it stays on the nodes of its case
            with suppress(Open):  # a person has to look first
                await apply(self.kit, first)
                self.applied = True

    def is_bound(self, pods: Mapping[str, list[Json]]) -> None:
        if self.applied:
            super().is_bound(pods)


async def test_the_first_fix_alone_gets_the_pod_bound(control_plane: ControlPlane) -> None:
    cases = []
    for seed in range(CLUSTERS):
        nodes, holders, waits = drawn(seed)
        cases.append(Case(f"seed {seed}", "", "", nodes, waits, before=holders))
    plays = [each for each in await play(cases, control_plane, Tried) if isinstance(each, Tried)]
    assert {each.case.id: str(each.wrong) for each in plays if each.wrong} == {}
    applied = sum(each.applied for each in plays)
    assert applied >= CLUSTERS // 8  # of the others some are bound at once, and most need two fixes

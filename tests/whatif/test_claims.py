"""New pods with claims or parts of GPUs: where they would go, what they would wait for, and which move."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.mixed import (
    BARE,
    BY_KAI,
    CLASSES,
    DEVICES,
    DRIVER,
    GPU,
    PARTITIONS,
    PLUGIN,
    SHARED,
    VOLCANO_PART,
    claimed,
    claiming,
    shared_pod,
)
from tests.cli.objects import Json, document, namespace, of_kind, placed, snapshot, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.devices import dra
from tests.devices.kai import part
from tests.trying import tried
from webhook.devices.source_kai import KAI
from webhook.devices.source_vgpu import VGPUS
from webhook.whatif.answers import answers
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.moves import suggestions
from webhook.whatif.offline import load_policy
from webhook.whatif.waiting.situation import Situation

VOLCANO = VGPUS[1]

POLICY = load_policy()


def asking(name: str, *templates: str, **more: Any) -> Json:
    claims = [{"name": f"c{n}", "resourceClaimTemplateName": each} for n, each in enumerate(templates)]
    return pod(name, 0, resourceClaims=claims, **more)


def named(name: str, claim: str) -> Json:
    return pod(name, 0, resourceClaims=[{"name": "c", "resourceClaimName": claim}])


TEAM = namespace("team-a")
ONE_CLAIM = of_kind("ResourceClaim", dra.claim("one-for-all", dra.exactly(2)))


def test_an_added_node_has_the_devices_of_the_node_that_it_is_like(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_bytes(orjson.dumps({"kind": "List", "items": [asking(n, "four") for n in "ab"]}))
    given = ["try", "-f", tmp_path / "pods.json", "-n", "team-a", "--add-node", "dra=2"]
    found = document(*given, "--from", write(tmp_path, *CLASSES, *DEVICES, TEAM))
    assert [each["bound"] for each in found["items"]] == [{"dra-new-1": 1}, {"dra-new-2": 1}]


@pytest.mark.parametrize(
    ("pods", "bound", "left"),
    [
        pytest.param([asking("a", "one"), asking("b", "one")], {"dra": 2}, {DRIVER: 1.75}, id="one each, on two that are left"),
        pytest.param([asking(n, "one") for n in "abcd"], {"dra": 2, "mig": 1}, {DRIVER: 0.75}, id="a GPU of which a part is taken is not whole"),
        pytest.param([asking("a", "four")], {}, {DRIVER: 3.75}, id="more than are free"),
        pytest.param([asking("a", "part", "part"), asking("b", "one")], {"mig": 1, "dra": 1}, {DRIVER: 2.25}, id="parts"),
        pytest.param([pod("a", 2), pod("b", 5)], {"dra": 1, "plugin": 1}, {DRIVER: 1.75, GPU: 0}, id="an extended resource, by either"),
        pytest.param([named("a", "one-for-all"), named("b", "one-for-all")], {"dra": 2}, {DRIVER: 1.75}, id="a claim that pods share"),
    ],
)  # fmt: skip
def test_pods_with_claims_are_simulated(
    tmp_path: Path, pods: list[Json], bound: dict[str, int], left: dict[str, float]
) -> None:
    """The stock scheduler takes the emptiest node by CPU: all are alike, so it is the first that can take the pod."""
    objects = [*CLASSES, *PLUGIN, *DEVICES, *PARTITIONS, TEAM, ONE_CLAIM, node("a", 0)]
    for asks in (False, True):
        found = tried(snapshot(tmp_path, *objects), POLICY, pods, "team-a", asks=asks)
        assert sum([each.bound for each in found.tried], Counter[str]()) == bound
        assert {name: found.gpus[name]["free"]["after"] for name in left} == left


def test_gpus_that_a_plugin_and_claims_give_out_are_counted_once(tmp_path: Path) -> None:
    both = [
        node("both", 4),
        of_kind("ResourceSlice", dra.gpus_of("both", 4)),
        claimed("one-x", "both", "gpu-0", "uid-x"),
    ]
    found = tried(snapshot(tmp_path, *both, TEAM), POLICY, [pod("a", 1)], "team-a")
    assert found.gpus[GPU]["free"] == {"before": 3, "after": 2}


def test_templates_of_the_manifest_are_known(tmp_path: Path, file: Any) -> None:
    new = of_kind("ResourceClaimTemplate", dra.template("new", dra.exactly(2)))
    cluster = write(tmp_path, *CLASSES, *DEVICES, TEAM)
    pods = [asking(name, "new") for name in "ab"]
    found = document("try", "-f", file(new, *pods), "-n", "team-a", "--from", cluster)
    assert [(each["workload"], each["gpus"], each["bound"]) for each in found["items"]] == [
        ("pod/a", {DRIVER: 2}, {"dra": 1}),
        ("pod/b", {DRIVER: 2}, {}),
    ]
    (cause,) = found["items"][1]["causes"]
    assert cause["cause"] == "noDevice"


def test_a_part_of_a_shared_gpu_fits_where_one_gpu_has_enough(tmp_path: Path) -> None:
    full = shared_pod(
        "full",
        "volcano",
        VOLCANO_PART | {"volcano.sh/vgpu-memory": "12000"},
        {VOLCANO.said.assigned[0]: "GPU-0,NVIDIA,12000,0:;"},
    )
    waits = shared_pod("waits", None, VOLCANO_PART | {"volcano.sh/vgpu-memory": "9000"}, {})
    read = snapshot(tmp_path, *SHARED[2:], full, waits)
    (answer,) = answers(read, POLICY, None)
    assert [cause.cause for cause in answer.causes] == ["noDevice"]
    assert (
        "no GPU of node volcano has enough free for the part that it asks for (by volcano.sh/vgpu)"
        in answer.causes[0].text
    )
    assert PodGpus(read, POLICY).asked(waits) == {VOLCANO.name: 0.563}


def test_pods_with_claims_are_moved(tmp_path: Path) -> None:
    of = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "of-train", "controller": True}
    objects = [*CLASSES, *DEVICES, node("other", resources=BARE), of_kind("ResourceSlice", dra.gpus_of("other", 8))]
    for number in range(5):
        objects += [
            claimed(f"on-{number}", "other", f"gpu-{number}", f"uid-on-{number}"),
            claiming(f"on-{number}", f"on-{number}", "other"),
        ]
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"]["ownerReferences"] = [of]
    found = list(suggestions(Situation(snapshot(tmp_path, *objects), POLICY)))
    assert [each.document() for each in found] == [
        {"node": "dra", "moves": [{"pod": "team-a/by-claim", "to": "other"}, {"pod": "team/by-name", "to": "other"}]}
    ]


def test_parts_that_kai_placed_are_not_said_to_move(tmp_path: Path) -> None:
    """Where they would go is KAI's to say. It is said of the pod with a whole GPU beside them."""
    of = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "of-web", "controller": True}
    objects = [*BY_KAI[:-1], node("other", 4), placed(pod("moves", 2), "other")]
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"]["ownerReferences"] = [of]
    read = snapshot(tmp_path, *objects)
    found = list(suggestions(Situation(read, POLICY)))
    assert [each.document() for each in found] == [{"node": "other", "moves": [{"pod": "team/moves", "to": "kai"}]}]
    assert PodGpus(read, POLICY).asked(part("p", "0.3")) == {KAI.name: 0.3}

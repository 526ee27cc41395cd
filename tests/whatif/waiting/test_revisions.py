"""Pods of an older revision of their StatefulSet: their template was changed, and they wait as before."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.objects import Json, document, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.whatif.waiting.waits import obj

SERVING, MISSPELT = {"pool": "serving"}, {"pool": "servng"}


def of(ordinal: int, revision: str = "vllm-1", kind: str = "StatefulSet", **spec: Any) -> Json:
    made = placed(pod(f"vllm-{ordinal}", labels={"controller-revision-hash": revision}, **spec), None)
    made["metadata"]["ownerReferences"] = [{"kind": kind, "name": "vllm", "uid": "u", "controller": True}]
    return made


def owner(newest: str = "vllm-2", selector: Json | None = None, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "vllm"}}, "spec": pod("any", nodeSelector=selector or SERVING)["spec"]}
    return obj("StatefulSet", "vllm", {"template": template, **spec}, {"updateRevision": newest})


def causes(folder: Path, *objects: Json) -> list[Json]:
    (found,) = document("why", "-A", "--from", write(folder, node("a", labels=SERVING), *objects))
    return [*found["causes"]]


def test_it_is_to_be_deleted(tmp_path: Path) -> None:
    first, second = causes(tmp_path, owner(), of(0, nodeSelector=MISSPELT))
    assert (first["cause"], second["cause"]) == ("oldRevision", "nodeSelector")
    (fix,) = first["fixes"]
    assert fix["command"] == ["kubectl", "delete", "pod", "vllm-0", "-n", "team"]
    assert (fix["enough"], first["then"]) == (True, "")


def test_what_the_new_template_lacks_is_said(tmp_path: Path) -> None:
    first, *_ = causes(tmp_path, owner(selector={"pool": "training"}), of(0, nodeSelector=MISSPELT))
    assert (first["cause"], first["fixes"][0]["enough"]) == ("oldRevision", False)
    assert first["then"].startswith("nodeSelector pool=training is on no node")


def test_its_own_claims_come_with_it(tmp_path: Path) -> None:
    """The template does not name them."""
    templates = [{"metadata": {"name": "cache"}, "spec": {}}]
    volumes = [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache-vllm-0"}}]
    found = causes(tmp_path, owner(volumeClaimTemplates=templates), of(0, nodeSelector=MISSPELT, volumes=volumes))
    then = {each["cause"]: each["then"] for each in found}["oldRevision"]
    assert then == 'PersistentVolumeClaim "cache-vllm-0" does not exist in team'


@pytest.mark.parametrize(
    ("objects", "outdated"),
    [
        pytest.param([owner(), of(0, "vllm-2", nodeSelector=MISSPELT)], False, id="it is of the newest"),
        pytest.param([of(0, nodeSelector=MISSPELT)], False, id="its StatefulSet is not known"),
        pytest.param([owner(), of(0, kind="DaemonSet", nodeSelector=MISSPELT)], False, id="a DaemonSet replaces it"),
        pytest.param([owner(updateStrategy={"type": "OnDelete"}), of(0, nodeSelector=MISSPELT)], True, id="OnDelete"),
        pytest.param([owner(updateStrategy={"rollingUpdate": {"partition": 1}}), of(0, nodeSelector=MISSPELT)], False, id="below the partition"),
        pytest.param([owner(updateStrategy={"rollingUpdate": {"partition": 1}}), of(1, nodeSelector=MISSPELT)], True, id="above it"),
        pytest.param([owner(updateStrategy={"rollingUpdate": {"partition": 1}}, ordinals={"start": 5}), of(5, nodeSelector=MISSPELT)], False, id="ordinals that begin later"),
    ],
)  # fmt: skip
def test_which_pods_their_controller_would_make_by_the_new_template(
    tmp_path: Path, objects: list[Json], outdated: bool
) -> None:
    assert ("oldRevision" in [each["cause"] for each in causes(tmp_path, *objects)]) == outdated

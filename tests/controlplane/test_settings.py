"""The files that the programs are started with."""

import itertools
import json
from pathlib import Path

import yaml

from tests.controlplane import settings
from tests.controlplane.nodes import Json


def _exclude(one: Json, other: Json) -> bool:
    """Whether no object can match both expressions of a Stage."""
    if one["key"] != other["key"]:
        return False
    operators = {one["operator"], other["operator"]}
    if operators == {"In"}:
        return not set(one["values"]) & set(other["values"])
    return operators == {"Exists", "DoesNotExist"} or (
        operators == {"In", "NotIn"} and one["values"] == other["values"]
    )


def test_no_object_matches_two_stages_with_different_outcomes() -> None:
    """kwok would draw one of them by lot: a node that a test made not ready, or a heartbeat that keeps it Ready."""
    for one, other in itertools.combinations(yaml.safe_load_all(settings.STAGES.read_text()), 2):
        first, second = one["spec"], other["spec"]
        if first["resourceRef"] == second["resourceRef"] and first["next"] != second["next"]:
            pairs = itertools.product(first["selector"]["matchExpressions"], second["selector"]["matchExpressions"])
            assert any(_exclude(*pair) for pair in pairs), (one["metadata"], other["metadata"])


def test_a_scheduler_configuration_goes_into_a_file_with_its_connection(tmp_path: Path) -> None:
    options = settings.Options(scheduler=settings.most_allocated())
    (configuration, *_) = settings.scheduler(tmp_path, options)
    content = json.loads(Path(configuration.removeprefix("--config=")).read_text())
    assert content["clientConnection"]["kubeconfig"].startswith(str(tmp_path))
    strategy = content["profiles"][0]["pluginConfig"][0]["args"]["scoringStrategy"]
    assert strategy == {"type": "MostAllocated", "resources": [{"name": "nvidia.com/gpu", "weight": 1}]}


def test_a_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    file = settings.write_private(
        tmp_path / "kubeconfig", yaml.safe_dump(settings.kubeconfig("https://a", b"ca", "u", "t"))
    )
    assert file.stat().st_mode & 0o777 == 0o600

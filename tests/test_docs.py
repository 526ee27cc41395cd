"""docs/rules.md says of every rule what the rule says of itself; what docs/preferences.md shows is a policy that works."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.builders import GPUS
from tests.cluster.objects import node, placer, pod, state
from webhook.placement.settings import PlacementSettings, Preference
from webhook.policy.model import Policy, Rules

DOCS = Path(__file__).resolve().parent.parent / "docs"


def test_the_page_of_rules_has_every_rule_in_order_with_its_action_and_its_first_line() -> None:
    rules, expected = Rules(), []
    for name, field in Rules.model_fields.items():
        rule = getattr(rules, name)
        first, *_ = (sys.modules[type(rule).__module__].__doc__ or "").splitlines()
        expected.append(f"| [{field.alias}](../webhook/rules/{name}.py) | {rule.action} | {first.rstrip('.')} |")
    lines = (DOCS / "rules.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| [")] == expected


PREFERENCES = (DOCS / "preferences.md").read_text()
(WRITTEN,) = re.findall(r"```yaml\n(.+?)```", PREFERENCES, re.DOTALL)


WRITTEN_ONES = Policy.load(WRITTEN).file.profiles["default"].placement.preferences


@pytest.mark.parametrize("preference", WRITTEN_ONES, ids=str)
def test_each_preference_on_the_page_chooses_for_its_class_among_nodes_that_differ_in_its_label(
    preference: Preference,
) -> None:
    settings = PlacementSettings(preferences=(preference,))
    (requirement,), (workload,) = preference.nodes, preference.classes
    meant = {"In": dict.fromkeys([requirement.key], "".join(requirement.values)), "Gt": {requirement.key: "81559"}}
    of = state([node("a", labels={requirement.key: "1"}), node("b", labels=meant.get(requirement.operator, {}))])
    for asked, first in ((workload, "b"), ("development", "a")):
        assert placer(of).place(pod("p"), of.view(0), settings, "pack", GPUS, asked).nodes[0].node == first


def test_a_pod_with_an_annotation_of_the_page_gets_its_wish() -> None:
    policy = Policy.load(WRITTEN)
    settings = policy.file.profiles["default"].placement
    of = state(
        [node(name, labels={"nvidia.com/gpu.product": f"NVIDIA-{name.upper()}"}) for name in ("a100", "h100", "l4")]
    )
    for key, value, first in (("gpu-model", "H100", "h100"), ("preferred-nodes", "l4", "l4")):
        assert f"gpu-admission.io/{key}" in PREFERENCES
        wishing = pod("p")
        wishing["metadata"]["annotations"] = {f"gpu-admission.io/{key}": value}
        found = placer(of).place(wishing, of.view(0), settings, "pack", policy.gpus, "training")
        assert found.nodes[0].node == first

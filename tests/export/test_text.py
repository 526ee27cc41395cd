"""The exported objects, without a cluster.

Covers export, kube.cel.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.export import export, export_yaml
from webhook.framework.interface import Injector, Rule
from webhook.kube.cel import literal, matches
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.model import Injectors, Policy, PolicyFile, Rules, named
from webhook.server.settings import ServeSettings

Json = dict[str, Any]
DEFAULT = Policy.of(PolicyFile())


def policy(profiles: str) -> Policy:
    return Policy.load(f"profiles: {profiles}")


def one_of(found: list[Json], name: str, kind: str = "ValidatingAdmissionPolicy") -> Json:
    (one,) = [each for each in found if each["metadata"]["name"] == name and each["kind"] == kind]
    return one


def rules_of(found: Json) -> set[str]:
    said = (v.get("message") or v["messageExpression"] for v in found["spec"]["validations"])
    return {re.findall(r"\[(\w+)\]", text)[-1] for text in said}


@pytest.mark.parametrize(
    ("name", "unit"), [pytest.param(*one, id=one[0]) for section in (Injectors(), Rules()) for one in named(section)]
)
def test_a_unit_is_exported_or_says_why_not(name: str, unit: Rule | Injector) -> None:
    exported = [*unit.exported(DEFAULT.gpus)]
    assert bool(exported) is not bool(unit.not_exported)
    assert (f"\n#   {name}: {unit.not_exported}\n" in export_yaml(DEFAULT)) is not bool(exported)


def test_every_rule_for_everywhere_is_exported() -> None:
    assert [name for name, rule in named(Rules()) if rule.everywhere and rule.not_exported] == []


def test_names_agree_with_the_webhook() -> None:
    for binding in (each for each in export(DEFAULT) if each["kind"].endswith("Binding")):
        selector = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        (system,) = [each for each in selector if each["key"] == "kubernetes.io/metadata.name"]
        assert (system["operator"], system["values"]) == ("NotIn", [ServeSettings().namespace, "kube-system"])


def test_a_rule_that_warns_is_exported_as_a_warning() -> None:
    found = export(policy("{default: {rules: {privileged: {action: warn}}}}"))
    assert "privileged" not in rules_of(one_of(found, "gpu-admission.default.deny"))
    assert "privileged" in rules_of(one_of(found, "gpu-admission.default.warn"))
    binding = one_of(found, "gpu-admission.default.warn", "ValidatingAdmissionPolicyBinding")
    assert binding["spec"]["validationActions"] == ["Warn"]


def test_a_profile_in_shadow_changes_and_refuses_nothing() -> None:
    found = export(policy("{default: {dryRun: true}}"))
    assert {each["kind"] for each in found} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    actions = [each["spec"]["validationActions"] for each in found if each["kind"].endswith("Binding")]
    assert actions == [["Audit"], ["Audit"]]


def test_an_unknown_profile_is_the_default_one_here_too() -> None:
    found = export(policy("{default: {}, strict: {}, lax: {}}"))
    binding = one_of(found, "gpu-admission.default", "MutatingAdmissionPolicyBinding")
    assert binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][:2] == [
        {"key": PROFILE_LABEL, "operator": "Exists"},
        {"key": PROFILE_LABEL, "operator": "NotIn", "values": ["lax", "strict"]},
    ]
    binding = one_of(found, "gpu-admission.lax", "MutatingAdmissionPolicyBinding")
    expressions = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert expressions[0] == {"key": PROFILE_LABEL, "operator": "In", "values": ["lax"]}


def test_names_of_objects_are_valid_and_unique_for_any_names_of_profiles() -> None:
    found = export(policy("{default: {}, Team_A: {}, team-a: {}, team_a: {}, everywhere: {}}"), everywhere=True)
    names = [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name) for _, name in names)


def test_everywhere_means_the_bans_and_nothing_else() -> None:
    extra = [each for each in export(DEFAULT, everywhere=True, exclude=["gpu-operator"]) if each not in export(DEFAULT)]
    assert {each["kind"] for each in extra} == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    exported = {rule for each in extra if each["kind"] == "ValidatingAdmissionPolicy" for rule in rules_of(each)}
    assert exported <= {name for name, rule in named(Rules()) if rule.everywhere}
    for binding in (each for each in extra if each["kind"].endswith("Binding")):
        outside, system = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert outside == {"key": PROFILE_LABEL, "operator": "DoesNotExist"}
        assert "gpu-operator" in system["values"]


@given(st.text())
def test_text_of_a_policy_stays_text_in_cel(text: str) -> None:
    """CEL accepts the escapes of JSON, so no text of a policy can end a CEL string."""
    assert json.loads(literal(text)) == text
    assert not re.search(r"[\x00-\x1f]", literal(text))


@pytest.mark.parametrize(
    ("patterns", "expression"),
    [
        pytest.param([], "false", id="nothing"),
        pytest.param(["*"], "true", id="everything"),
        pytest.param(["a"], '(x in ["a"])', id="one name"),
        pytest.param(["a", "b*"], '(x in ["a"] || x.startsWith("b"))', id="a name and a prefix"),
    ],
)
def test_name_patterns_become_comparisons(patterns: list[str], expression: str) -> None:
    assert matches("x", patterns) == expression

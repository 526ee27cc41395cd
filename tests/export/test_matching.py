"""The match conditions that follow from a policy. What the shipped ones match is in tests/manifests/test_matching.py.

Covers export.variables.
"""

from tests.manifests import matching
from webhook.export.matching import MUTATE, OTHERS, UPDATES, VALIDATE, conditions_for, lacking
from webhook.policy.model import Policy
from webhook.whatif.offline import load_policy

SHIPPED = load_policy()


def of(text: str, hook: str = OTHERS) -> str:
    """The last condition of a webhook."""
    found: str = conditions_for(Policy.load(text))[hook][-1]["expression"]
    return found


def rules(text: str) -> str:
    return f"profiles: {{default: {{rules: {{{text}}}}}}}"


def test_the_manifests_have_the_conditions_of_the_shipped_policy() -> None:
    for path, text in matching.files().items():
        assert path.read_text() == text, "run `make manifests`"


def test_a_rule_that_does_not_deny_adds_nothing() -> None:
    for action in ("warn", "off"):
        assert "hostPID" not in of(rules(f"hostNamespaces: {{action: {action}}}"))
    assert "hostPID" in of(rules("hostNamespaces: {action: deny}"))


def test_a_policy_that_refuses_more_asks_about_more() -> None:
    assert '"night"' in of(rules("priorityClass: {reserved: {night: [a]}}"))
    assert 'request.namespace in ["a"]' in of(rules("priorityClass: {reserved: {night: [a]}}"))
    assert '"/data' not in of(rules("hostDevices: {allowed: [/models]}"))
    assert "tolerations" in of(rules("cpuPodOnGpuNode: {action: deny}"))
    assert "variables.tolerations.exists" in of(rules("cpuPodOnGpuNode: {action: deny}"), UPDATES)
    assert 'e.name in ["ONE"]' in of(rules("cudaVisibleDevices: {action: deny, names: [ONE]}"))


def test_who_is_entitled_to_a_class_of_workload_changes_no_condition() -> None:
    text = "classes: [{class: inference, labels: {a: [b]}, namespaces: [team]}, {class: training}]"
    assert conditions_for(Policy.load(text)) == conditions_for(SHIPPED)
    assert '"gpu-inference"' in of(text)


def test_the_conditions_are_those_of_all_profiles() -> None:
    text = "profiles: {default: {rules: {hostNamespaces: {action: off}}}, strict: {rules: {hostNamespaces: {action: deny}}}}"
    assert of(text).count("hostPID") == 1


def test_without_any_rule_that_denies_nothing_is_asked_about_in_a_pod_without_devices() -> None:
    every = SHIPPED.profile("default")[1].rules.model_dump(by_alias=True)
    text = rules(", ".join(f"{name}: {{action: off}}" for name in every))
    assert of(text).endswith("  false)")


def test_a_name_with_spaces_stays_whole() -> None:
    name = (
        "/with  two spaces and so much text that no line of the condition has room for all of it, whatever comes before"
    )
    assert f'"{name}/"' in of(rules(f'hostDevices: {{allowed: ["{name}"]}}'))


def test_the_mutating_webhook_is_asked_about_the_same_pods_with_devices() -> None:
    found = conditions_for(SHIPPED)
    assert found[MUTATE] == found[VALIDATE]


def test_what_a_policy_looks_for_beyond_the_shipped_conditions_is_named_by_its_rules() -> None:
    assert lacking(SHIPPED, SHIPPED) == []
    assert lacking(Policy.load(rules("hostNamespaces: {action: off}, gpuLimit: {perPod: 8}")), SHIPPED) == []
    more = rules("priorityClass: {reserved: {night: []}}, hostDevices: {allowed: []}, cpuPodOnGpuNode: {action: deny}")
    assert lacking(Policy.load(more), SHIPPED) == ["priorityClass", "hostDevices", "cpuPodOnGpuNode"]

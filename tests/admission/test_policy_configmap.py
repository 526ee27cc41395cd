"""The ConfigMap of the policy at `kubectl apply`.

Covers policy.references, policy.written_for.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import EMPTY, TWO_NODES, UNKNOWN, ClusterFacts, classes, request
from webhook.admission import policy_configmap
from webhook.admission.decision import Decision
from webhook.admission.response import warnings_of
from webhook.injectors.priority_class import PriorityClassName
from webhook.policy.written_for import LINE

SHIPPED_CLASSES = classes(*PriorityClassName().classes.values())
CLUSTER = replace(TWO_NODES, priority_classes=SHIPPED_CLASSES)


def judged(data: Any, cluster: ClusterFacts = CLUSTER, operation: str = "UPDATE") -> Decision:
    """The decision about a ConfigMap with this `data`; a string is the policy."""
    obj = {
        "metadata": {"name": "gpu-admission-policy"},
        "data": {"policy.yaml": data} if isinstance(data, str) else data,
    }
    named = {
        "kind": "ConfigMap",
        "resource": "configmaps",
        "namespace": "gpu-admission",
        "name": "gpu-admission-policy",
    }
    return policy_configmap.validate(request(obj, operation=operation, **named), cluster.view)


def test_a_deletion_of_the_config_map_is_ignored() -> None:
    assert judged("profiles: [", operation="DELETE").result == "ignored"


def test_a_forged_review_without_an_object_is_ignored() -> None:
    assert policy_configmap.validate(request(None, resource="configmaps"), CLUSTER).result == "ignored"


LATER = "# For gpu-admission 99.0.0.\n"
UNKNOWN_KEY = "profiles: {default: {rules: {ofTomorrow: {action: warn}}}}\n"


def test_a_policy_of_a_later_version_is_stored_and_the_author_told_who_cannot_use_it() -> None:
    decision = judged(LATER + UNKNOWN_KEY + "another: 1\n")
    assert (decision.result, decision.message) == ("allowed", "")
    (said,) = decision.warnings
    assert "the policy is for version 99.0.0, and a replica of" in said
    assert "ofTomorrow: unknown key" in said
    assert "another" not in said
    assert " and 1 more; it keeps" in said


@pytest.mark.parametrize(
    "first",
    ["", f"{LINE}\n", "# For gpu-admission 0.0.1.\n", f"\n{LATER}", "# For gpu-admission 99.\n"],
    ids=["none", "this version", "an earlier one", "not the first line", "no version"],
)
def test_only_the_first_line_of_a_later_shipped_policy_counts(first: str) -> None:
    assert judged(first + UNKNOWN_KEY).result == "denied"


GOOD = {
    "all defaults": ("{}", CLUSTER),
    "a cluster that is not known yet": (
        "profiles: {default: {injectors: {priorityClass: {classes: {inference: b}}}}}",
        UNKNOWN,
    ),
    "what a cluster may have again: its state is old": (
        "gpus: [{name: vendor.example/gpu}]",
        replace(CLUSTER, fresh=False),
    ),
    "a cluster without nodes": (
        "profiles: {default: {injectors: {topologySpread: {constraints: [{key: rack}]}}}}",
        replace(EMPTY, priority_classes=SHIPPED_CLASSES),
    ),
    "a class of an injector that is off": (
        "profiles: {default: {injectors: {priorityClass: {enabled: false, classes: {inference: b}}}}}",
        CLUSTER,
    ),
    "a taint for GPUs of a vendor that no node has yet": (
        "profiles: {default: {injectors: {tolerations: {taints: [{key: amd.com/gpu, effect: NoSchedule, vendor: amd.com}]}}}}",
        CLUSTER,
    ),
    "a pattern of a taint that GPU nodes carry": (
        "profiles: {default: {injectors: {tolerations: {allowed: [{key: nvidia.com/g*}]}}}}",
        CLUSTER,
    ),
    "a label that GPU nodes have": (
        "profiles: {default: {injectors: {topologySpread: {constraints: [{key: nvidia.com/gpu.product}]}}}}",
        CLUSTER,
    ),
}


@pytest.mark.parametrize(("text", "cluster"), GOOD.values(), ids=GOOD)
def test_there_is_no_warning_about(text: str, cluster: ClusterFacts) -> None:
    decision = judged(text, cluster)
    assert (decision.result, warnings_of(decision)) == ("allowed", [])


LACKING = {
    "a priority class": (
        "profiles: {default: {injectors: {priorityClass: {classes: {inference: gpu-inferrence, training: top}}}}}",
        [
            'the cluster has no PriorityClass "gpu-inferrence"; did you mean "gpu-inference"?',
            'the cluster has no PriorityClass "top"; pods will keep their priority',
        ],
    ),
    "GPUs of that name": (
        "gpus: [{name: vendor.example/gpu}]",
        ["no node offers a resource that `gpus` names; nodes offer nvidia.com/gpu"],
    ),
    "a taint, in the default profile and in one that inherits it": (
        "profiles: {default: {injectors: {tolerations: {taints: [{key: spot, effect: NoSchedule}]}}}, big: {}}",
        ["profile default: no GPU node carries the taint spot"],
    ),
    "labels of nodes": (
        "profiles: {default: {}, racks: {injectors: {topologySpread: {constraints: [{key: example.com/rack}]}},"
        " placement: {gangs: {keys: [example.com/row]}, preferences: [{nodes: [{key: example.com/pool, values: [a]}]}]}}}",
        ["profile racks: no GPU node has the label example.com/pool, example.com/rack, example.com/row"],
    ),
}


@pytest.mark.parametrize(("text", "warnings"), LACKING.values(), ids=LACKING)
def test_a_good_policy_is_accepted_with_a_warning_about_what_the_cluster_does_not_have(
    text: str, warnings: list[str]
) -> None:
    decision = judged(text)
    assert (decision.result, warnings_of(decision)) == ("allowed", warnings)


def test_a_bad_policy_is_refused_with_path_and_line_of_every_problem() -> None:
    decision = judged("profiles:\n  default:\n    shadow: maybe\n    injektors: {}\n")
    assert decision.result == "denied"
    assert decision.message.splitlines() == [
        'ConfigMap "gpu-admission-policy": 2 problems in policy.yaml; the policy in force stays:',
        '- line 3: profiles.default.shadow: saw "maybe"; wanted true or false',
        '- line 4: profiles.default.injektors: unknown key; did you mean "injectors"?',
    ]


def test_at_most_twenty_problems_are_shown() -> None:
    decision = judged("profiles:\n  default:\n" + "".join(f"    x{n}: 1\n" for n in range(30)))
    lines = decision.message.splitlines()
    assert (lines[0], lines[-1], len(lines)) == (
        'ConfigMap "gpu-admission-policy": 30 problems in policy.yaml; the policy in force stays:',
        "- … and 10 more",
        22,
    )


WITHOUT = {
    "another key": ({"policy.yml": "{}"}, 'saw "policy.yml"'),
    "no data": (None, "saw no data"),
    "data that is no map": ([], "saw no data"),
    "a policy that is no text": ({"policy.yaml": {"profiles": {}}}, 'saw "policy.yaml"'),
    "many other keys": (dict.fromkeys("abcdefghijklmnopqrstu", ""), '"d", "e" and 16 more'),
}


@pytest.mark.parametrize(("data", "saw"), WITHOUT.values(), ids=WITHOUT)
def test_a_config_map_without_a_policy_is_refused(data: Any, saw: str) -> None:
    decision = judged(data)
    assert decision.result == "denied"
    assert f'{saw}, wanted the key "policy.yaml" with the policy as text' in decision.message

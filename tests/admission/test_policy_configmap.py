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
    [
        pytest.param("", id="none"),
        pytest.param(f"{LINE}\n", id="this version"),
        pytest.param("# For gpu-admission 0.0.1.\n", id="an earlier one"),
        pytest.param(f"\n{LATER}", id="not the first line"),
        pytest.param("# For gpu-admission 99.\n", id="no version"),
    ],
)
def test_only_the_first_line_of_a_later_shipped_policy_counts(first: str) -> None:
    assert judged(first + UNKNOWN_KEY).result == "denied"


GOOD = [
    pytest.param("{}", CLUSTER, id="all defaults"),
    pytest.param(
        "profiles: {default: {injectors: {priorityClass: {classes: {inference: b}}}}}",
        UNKNOWN,
        id="a cluster that is not known yet",
    ),
    pytest.param(
        "gpus: [{name: vendor.example/gpu}]",
        replace(CLUSTER, fresh=False),
        id="what a cluster may have again: its state is old",
    ),
    pytest.param(
        "profiles: {default: {injectors: {topologySpread: {constraints: [{key: rack}]}}}}",
        replace(EMPTY, priority_classes=SHIPPED_CLASSES),
        id="a cluster without nodes",
    ),
    pytest.param(
        "profiles: {default: {injectors: {priorityClass: {enabled: false, classes: {inference: b}}}}}",
        CLUSTER,
        id="a class of an injector that is off",
    ),
    pytest.param(
        "profiles: {default: {injectors: {tolerations: {taints: [{key: amd.com/gpu, effect: NoSchedule, vendor: amd.com}]}}}}",
        CLUSTER,
        id="a taint for GPUs of a vendor that no node has yet",
    ),
    pytest.param(
        "profiles: {default: {injectors: {tolerations: {allowed: [{key: nvidia.com/g*}]}}}}",
        CLUSTER,
        id="a pattern of a taint that GPU nodes carry",
    ),
    pytest.param(
        "profiles: {default: {injectors: {topologySpread: {constraints: [{key: nvidia.com/gpu.product}]}}}}",
        CLUSTER,
        id="a label that GPU nodes have",
    ),
]


@pytest.mark.parametrize(("text", "cluster"), GOOD)
def test_there_is_no_warning_about(text: str, cluster: ClusterFacts) -> None:
    decision = judged(text, cluster)
    assert (decision.result, warnings_of(decision)) == ("allowed", [])


LACKING = [
    pytest.param(
        "profiles: {default: {injectors: {priorityClass: {classes: {inference: gpu-inferrence, training: top}}}}}",
        [
            'the cluster has no PriorityClass "gpu-inferrence"; did you mean "gpu-inference"?',
            'the cluster has no PriorityClass "top"; pods will keep their priority',
        ],
        id="a priority class",
    ),
    pytest.param(
        "gpus: [{name: vendor.example/gpu}]",
        ["no node offers a resource that `gpus` names; nodes offer nvidia.com/gpu"],
        id="GPUs of that name",
    ),
    pytest.param(
        "profiles: {default: {injectors: {tolerations: {taints: [{key: spot, effect: NoSchedule}]}}}, big: {}}",
        ["profile default: no GPU node carries the taint spot"],
        id="a taint, in the default profile and in one that inherits it",
    ),
    pytest.param(
        "profiles: {default: {}, racks: {injectors: {topologySpread: {constraints: [{key: example.com/rack}]}},"
        " placement: {gangs: {keys: [example.com/row]}, preferences: [{nodes: [{key: example.com/pool, values: [a]}]}]}}}",
        ["profile racks: no GPU node has the label example.com/pool, example.com/rack, example.com/row"],
        id="labels of nodes",
    ),
]


@pytest.mark.parametrize(("text", "warnings"), LACKING)
def test_a_good_policy_is_accepted_with_a_warning_about_what_the_cluster_does_not_have(
    text: str, warnings: list[str]
) -> None:
    decision = judged(text)
    assert (decision.result, warnings_of(decision)) == ("allowed", warnings)


def test_a_bad_policy_is_refused_with_path_and_line_of_every_problem() -> None:
    decision = judged("profiles:\n  default:\n    dryRun: maybe\n    injektors: {}\n")
    assert decision.result == "denied"
    assert decision.message.splitlines() == [
        'ConfigMap "gpu-admission-policy": 2 problems in policy.yaml; the policy in force stays:',
        '- line 3: profiles.default.dryRun: saw "maybe"; wanted true or false',
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


WITHOUT = [
    pytest.param({"policy.yml": "{}"}, 'saw "policy.yml"', id="another key"),
    pytest.param(None, "saw no data", id="no data"),
    pytest.param([], "saw no data", id="data that is no map"),
    pytest.param({"policy.yaml": {"profiles": {}}}, 'saw "policy.yaml"', id="a policy that is no text"),
    pytest.param(dict.fromkeys("abcdefghijklmnopqrstu", ""), '"d", "e" and 16 more', id="many other keys"),
]


@pytest.mark.parametrize(("data", "saw"), WITHOUT)
def test_a_config_map_without_a_policy_is_refused(data: Any, saw: str) -> None:
    decision = judged(data)
    assert decision.result == "denied"
    assert f'{saw}, wanted the key "policy.yaml" with the policy as text' in decision.message

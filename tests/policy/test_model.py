"""Policies that are refused, the shipped policy, and the parsed policy."""

from importlib.resources import files
from typing import Any

import pytest
import yaml

from tests.effort import elsewhere
from webhook.errors import PolicyError
from webhook.placement.strategies import STRATEGIES
from webhook.policy.model import Injectors, Policy, PolicyFile, named
from webhook.whatif.offline import load_policy

SHIPPED = files("webhook.defaults").joinpath("policy.yaml").read_text()
HARD = "topologySpread: {constraints: [{key: zone, whenUnsatisfiable: DoNotSchedule}]"
PINNED = "nodeAffinity: {mode: required}"
VOID = (
    "nodeAffinity.mode required makes a DoNotSchedule spread over zone void: the pinned node is the only domain. "
    "Use preferred, or ScheduleAnyway"
)
BAD = [
    pytest.param(
        "gpus: [{name: nvidia.com/*}]",
        "line 1: gpus[0].name: saw \"nvidia.com/*\"; wanted pattern '^[a-z0-9.-]+/[A-Za-z0-9._-]+\\*?$'",
        id="all resources of a vendor as GPUs: nvidia.com/gpumem is none",
    ),
    pytest.param(
        f"profiles:\n  default:\n    injectors:\n      {PINNED}\n      {HARD}}}",
        f"line 3: profiles.default.injectors: {VOID}",
        id="a required node and a hard spread",
    ),
    pytest.param(
        f"profiles:\n  default:\n    injectors:\n      {HARD}}}\n  pinned:\n    injectors: {{{PINNED}}}",
        f"line 6: profiles.pinned.injectors: {VOID}",
        id="a required node and a hard spread that is inherited",
    ),
    pytest.param(
        "profiles:\n  default:\n    injectors:\n      tolerations:\n        taints: [{key: ''}]",
        'line 5: profiles.default.injectors.tolerations.taints[0].key: saw ""; '
        "a toleration without a key tolerates every taint, control planes included: name one key",
        id="a wildcard toleration",
    ),
    pytest.param(
        "profiles:\n  default:\n    injectors:\n      tolerations:\n        allowed:\n        - key: '*'",
        'line 6: profiles.default.injectors.tolerations.allowed[0].key: saw "*"; '
        "this would tolerate nodes that are not ready, or control planes: name GPU taints only",
        id="a wildcard among the allowed taints",
    ),
    pytest.param(
        "profiles: {default: {placement: {otherwise: best}}}",
        'line 1: profiles.default.placement.otherwise: saw "best"; '
        f"wanted {', '.join(map(repr, STRATEGIES))} or 'off'",
        id="an unknown strategy",
    ),
]


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_a_bad_policy_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(text)
    assert caught.value.problems == [problem]


LABELS = {
    "[{key: pool, value: spot}]": 'nodes[0].value: unknown key; did you mean "values"?',
    "[{key: pool}]": "nodes[0]: In wants at least one value, saw none",
    "[{key: pool, operator: Exists, values: [a, b]}]": 'nodes[0]: Exists wants no values, saw "a", "b"',
    "[{key: pool, operator: Gt, values: [40Gi]}]": 'nodes[0]: Gt wants one whole number, as ["40000"], saw "40Gi"',
    "[]": "nodes: wanted at least one label: without any, all nodes are alike",
    "[{key: pool, operator: Exists}], weight: 101": 'weight: saw "101"; wanted less than or equal to 100',
}


@pytest.mark.parametrize("nodes", LABELS)
def test_a_bad_preference_is_refused(nodes: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(f"profiles: {{default: {{placement: {{preferences: [{{nodes: {nodes}}}]}}}}}}")
    assert caught.value.problems == [f"line 1: profiles.default.placement.preferences[0].{LABELS[nodes]}"]


@pytest.mark.parametrize(
    "injectors",
    [
        pytest.param(f"nodeAffinity: {{mode: preferred}}, {HARD}}}", id="a preferred node and a hard spread"),
        pytest.param(f"nodeAffinity: {{mode: required, enabled: false}}, {HARD}}}", id="node affinity is off"),
        pytest.param(f"{PINNED}, {HARD}, enabled: false}}", id="the spread is off"),
        pytest.param(f"{PINNED}, {HARD}, mode: antiAffinity}}", id="anti-affinity instead"),
        pytest.param(PINNED, id="a required node and a soft spread"),
    ],
)
def test_settings_that_agree_are_accepted(injectors: str) -> None:
    Policy.load(f"profiles: {{default: {{injectors: {{{injectors}}}}}}}")


# --- the shipped policy -----------------------------------------------------------------------------------------------


def test_the_shipped_policy_equals_the_defaults() -> None:
    shipped = load_policy()
    assert shipped.file == PolicyFile()
    assert shipped.hash == Policy.load("{}").hash


def written(part: dict[str, Any], path: str = "") -> set[str]:
    """Every key, with the path to it."""
    inner = [written(value, f"{path}{key}.") for key, value in part.items() if isinstance(value, dict)]
    return {f"{path}{key}" for key in part}.union(*inner)


def test_the_shipped_policy_names_every_key_of_the_default_profile() -> None:
    defaults = PolicyFile().model_dump(mode="json", by_alias=True)["profiles"]["default"]
    assert written(defaults) - written(yaml.safe_load(SHIPPED)["profiles"]["default"]) == set()


# --- the parsed policy ------------------------------------------------------------------------------------------------


def test_units_run_in_the_order_of_their_fields() -> None:
    names = [name for name, _ in Policy.load("{}").units["default"].injectors]
    assert names == [name for name, injector in named(Injectors()) if injector.enabled]
    assert names[:2] == ["gpuResources", "tolerations"], "the choice of a node reads what they write"
    assert names[-2:] == ["topologySpread", "nodeAffinity"], "injectors that need placement run last"


def test_units_that_are_off_do_not_run() -> None:
    policy = Policy.load(
        "profiles: {default: {injectors: {tolerations: {enabled: false}}, rules: {gpuZero: {action: 'off'}}}}"
    )
    assert "tolerations" not in dict(policy.units["default"].injectors)
    assert "gpuZero" not in dict(policy.units["default"].rules)
    assert "gpuZero" in dict(Policy.load("{}").units["default"].rules)


def test_a_profile_that_is_not_there_is_the_default_one() -> None:
    policy = Policy.load("profiles: {default: {}, quiet: {dryRun: true}}")
    assert policy.profile("quiet")[0] == "quiet"
    assert policy.profile("quiet")[1].dry_run
    assert policy.profile("nothing") == policy.profile("default")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("{}", "profiles: {default: {dryRun: false}}", True, id="a default that is written out"),
        pytest.param("{}", "# a comment\n{}", True, id="a comment"),
        pytest.param("{}", "profiles: {default: {dryRun: true}}", False, id="another setting"),
        pytest.param("profiles: {a: {}}", "profiles: {b: {}}", False, id="another name of a profile"),
        pytest.param(
            "profiles: {default: {rules: {priorityClass: {reserved: {a: [x], 'a*': []}}}}}",
            "profiles: {default: {rules: {priorityClass: {reserved: {'a*': [], a: [x]}}}}}",
            False,
            id="another order, where the first match decides",
        ),
    ],
)
def test_the_hash_depends_on_the_meaning_of_a_policy(one: str, other: str, same: bool) -> None:
    assert (Policy.load(one).hash == Policy.load(other).hash) is same
    assert len(Policy.load(one).hash) == 12


def said(text: str) -> str:
    made = Policy.load(text)
    return " ".join([made.hash, *made.profile("a")[1].rules.priority_class.reserved])


def test_policies_do_not_depend_on_the_hash_seed() -> None:
    names = ", ".join(f"c{i}: []" for i in range(20))
    text = (
        f"profiles: {{default: {{rules: {{priorityClass: {{reserved: {{{names}}}}}}}}}, "
        "a: {rules: {priorityClass: {reserved: {z: [], c3: [x]}}}}}"
    )
    assert elsewhere("tests.policy.test_model", "said", text) == said(text)

"""Policies that are refused, the shipped policy, and the parsed policy."""

import os
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from webhook.cli.offline import load_policy
from webhook.errors import PolicyError
from webhook.placement.strategies import STRATEGIES
from webhook.policy.model import Injectors, Policy, PolicyFile, named

SHIPPED = files("webhook.defaults").joinpath("policy.yaml").read_text()
HARD = "topologySpread: {constraints: [{key: zone, whenUnsatisfiable: DoNotSchedule}]"
PREFERENCES = "profiles: {default: {placement: {preferences:"

BAD = [
    pytest.param(
        "gpus: [{name: nvidia.com/*}]",
        "line 1: gpus[0].name: saw \"nvidia.com/*\"; wanted pattern '^[a-z0-9.-]+/[A-Za-z0-9._-]+\\*?$'",
        id="all resources of a vendor as GPUs: nvidia.com/gpumem is none",
    ),
    pytest.param(
        "gpus: [{name: cpu}]",
        "line 1: gpus[0].name: saw \"cpu\"; wanted pattern '^[a-z0-9.-]+/[A-Za-z0-9._-]+\\*?$'",
        id="CPUs as GPUs",
    ),
    pytest.param("classes: [{labels: {a: [b]}}]", "line 1: classes[0].class: this key is missing", id="a class without a name"),
    pytest.param(
        "profiles:\n  default:\n    injectors:\n      gpu_resources: {}",
        'line 4: profiles.default.injectors.gpu_resources: unknown key; did you mean "gpuResources"?',
        id="an injector as Python spells it",
    ),
    pytest.param(
        "profiles:\n  default:\n    rules:\n      gpuLimit: {perContainers: 4}",
        'line 4: profiles.default.rules.gpuLimit.perContainers: unknown key; did you mean "perContainer"?',
        id="a misspelt setting of a rule",
    ),
    pytest.param(
        f"profiles:\n  default:\n    injectors:\n      nodeAffinity: {{mode: required}}\n      {HARD}}}",
        "line 3: profiles.default.injectors: nodeAffinity.mode required makes a DoNotSchedule spread over zone void: "
        "the pinned node is the only domain. Use preferred, or ScheduleAnyway",
        id="a required node and a hard spread",
    ),
    pytest.param(
        f"profiles:\n  default:\n    injectors:\n      {HARD}}}\n  pinned:\n    injectors: {{nodeAffinity: {{mode: required}}}}",
        "line 6: profiles.pinned.injectors: nodeAffinity.mode required makes a DoNotSchedule spread over zone void: "
        "the pinned node is the only domain. Use preferred, or ScheduleAnyway",
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
        f'line 1: profiles.default.placement.otherwise: saw "best"; wanted {", ".join(map(repr, STRATEGIES))} or \'off\'',
        id="an unknown strategy",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool, value: spot}}]}}]}}}}}}",
        'line 1: profiles.default.placement.preferences[0].nodes[0].value: unknown key; did you mean "values"?',
        id="a misspelt key in a list of a list",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool}}]}}]}}}}}}",
        "line 1: profiles.default.placement.preferences[0].nodes[0]: In wants at least one value, saw none",
        id="a label without a value",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool, operator: Exists, values: [a, b]}}]}}]}}}}}}",
        "line 1: profiles.default.placement.preferences[0].nodes[0]: Exists wants no values, saw \"a\", \"b\"",
        id="values where there are none",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool, operator: Gt, values: [40Gi]}}]}}]}}}}}}",
        'line 1: profiles.default.placement.preferences[0].nodes[0]: Gt wants one whole number, as ["40000"], saw "40Gi"',
        id="Gt with a value that is no number",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool, values: [true]}}]}}]}}}}}}",
        "line 1: profiles.default.placement.preferences[0].nodes[0].values[0]: saw \"true\"; wanted text: put it in quotes",
        id="a label's value that YAML reads as another type",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: []}}]}}}}}}",
        "line 1: profiles.default.placement.preferences[0].nodes: wanted at least one label: without any, all nodes are alike",
        id="no label at all",
    ),
    pytest.param(
        f"{PREFERENCES} [{{nodes: [{{key: pool, operator: Exists}}], weight: 101}}]}}}}}}",
        'line 1: profiles.default.placement.preferences[0].weight: saw "101"; wanted less than or equal to 100',
        id="a weight that Kubernetes does not know",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_a_bad_policy_is_refused(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(text)
    assert caught.value.problems == [problem]


@pytest.mark.parametrize(
    "injectors",
    [
        pytest.param(f"{{nodeAffinity: {{mode: preferred}}, {HARD}}}}}", id="a preferred node and a hard spread"),
        pytest.param(f"{{nodeAffinity: {{mode: required, enabled: false}}, {HARD}}}}}", id="node affinity is off"),
        pytest.param(f"{{nodeAffinity: {{mode: required}}, {HARD}, enabled: false}}}}", id="the spread is off"),
        pytest.param(f"{{nodeAffinity: {{mode: required}}, {HARD}, mode: antiAffinity}}}}", id="anti-affinity instead"),
        pytest.param("{nodeAffinity: {mode: required}}", id="a required node and a soft spread"),
    ],
)
def test_settings_that_agree_are_accepted(injectors: str) -> None:
    Policy.load(f"profiles: {{default: {{injectors: {injectors}}}}}")


# --- the shipped policy -----------------------------------------------------------------------------------------------


def test_the_shipped_policy_equals_the_defaults() -> None:
    shipped = load_policy()
    assert shipped.file == PolicyFile()
    assert shipped.hash == Policy.load("{}").hash


def keys(settings: BaseModel, path: str = "") -> set[str]:
    """Every field of the settings."""
    found = set()
    for name, info in type(settings).model_fields.items():
        key, inner = info.alias or name, getattr(settings, name)
        found.add(f"{path}{key}")
        if isinstance(inner, BaseModel):
            found |= keys(inner, f"{path}{key}.")
    return found


def test_the_shipped_policy_names_every_key_of_the_default_profile() -> None:
    document = yaml.safe_load(SHIPPED)["profiles"]["default"]

    def written(part: dict[str, Any], path: str = "") -> set[str]:
        found = set()
        for key, value in part.items():
            found.add(f"{path}{key}")
            if isinstance(value, dict):
                found |= written(value, f"{path}{key}.")
        return found

    assert keys(PolicyFile().profiles["default"]) - written(document) == set()


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
    policy = Policy.load("profiles: {default: {}, quiet: {shadow: true}}")
    assert policy.profile("quiet")[0] == "quiet"
    assert policy.profile("quiet")[1].shadow
    assert policy.profile("nothing") == policy.profile("default")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("{}", "profiles: {default: {shadow: false}}", True, id="a default that is written out"),
        pytest.param("{}", "# a comment\n{}", True, id="a comment"),
        pytest.param("{}", "profiles: {default: {shadow: true}}", False, id="another setting"),
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


def test_policies_do_not_depend_on_the_hash_seed() -> None:
    names = ", ".join(f"c{i}: []" for i in range(20))
    text = (
        f"profiles: {{default: {{rules: {{priorityClass: {{reserved: {{{names}}}}}}}}}, "
        "a: {rules: {priorityClass: {reserved: {z: [], c3: [x]}}}}}"
    )
    program = (
        "import sys; from webhook.policy.model import Policy; p = Policy.load(sys.argv[1]); "
        "print(p.hash, *p.profile('a')[1].rules.priority_class.reserved)"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program, text],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1

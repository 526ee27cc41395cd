"""The contract of all rules: one file with one test file, and a page that names the fields read.

Covers framework.interface.
"""

import importlib
import pkgutil
import sys
from types import ModuleType

import pytest

import webhook.rules
from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.framework.interface import Rule
from webhook.policy.model import Rules

NAMES = sorted(module.name for module in pkgutil.iter_modules(webhook.rules.__path__))


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"webhook.rules.{name}")


def rule_of(name: str) -> type[Rule]:
    """The one rule of a file."""
    found = [v for v in vars(module_of(name)).values() if isinstance(v, type) and issubclass(v, Rule) and v is not Rule]
    assert len(found) == 1, f"webhook/rules/{name}.py: wanted one rule, saw {found}"
    return found[0]


RULES = {name: rule_of(name)() for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_page_of_a_rule_names_the_fields_it_reads_and_says_what_holds_for_dra(name: str) -> None:
    text = sys.modules[type(RULES[name]).__module__].__doc__ or ""
    assert "\nFields read: " in text
    assert any(word in text for word in ("\nRefused: ", "\nWarned about: "))
    assert "DRA" in text


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_the_name_of_its_file(name: str) -> None:
    assert type(RULES[name]).__name__.startswith("".join(word.capitalize() for word in name.split("_")))


@pytest.mark.parametrize("name", NAMES)
def test_a_rule_has_a_test_file_with_both_tables(name: str) -> None:
    tests = importlib.import_module(f"tests.rules.test_{name}")
    assert tests.ALLOWED
    assert tests.REFUSED


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_of_a_rule_can_be_written_and_read_again_and_each_is_documented(name: str) -> None:
    rule = RULES[name]
    written = rule.model_dump(mode="json", by_alias=True)
    assert type(rule).model_validate(written) == rule
    assert type(rule).model_validate({**written, "action": "off"}).action == "off"
    for setting, field in type(rule).model_fields.items():
        assert setting == "action" or field.description, f"{name}.{setting} has no docstring"


@pytest.mark.parametrize("name", NAMES)
def test_a_good_pod_passes(name: str) -> None:
    assert case(pod(requests={"cpu": "8", "memory": "32Gi"}, restartPolicy="Never")).messages(RULES[name]) == []


def test_the_policy_lists_every_rule_once() -> None:
    listed = [type(getattr(Rules(), name)) for name in Rules.model_fields]
    assert sorted(rule.__module__.rpartition(".")[2] for rule in listed) == NAMES


def test_findings_are_yielded_one_by_one_so_that_those_beyond_the_bound_cost_nothing() -> None:
    many = [container(str(n), gpu="500m", securityContext={"privileged": True}) for n in range(3)]
    for name in ("gpu_quantity", "privileged"):
        findings = iter(RULES[name].check((made := case(pod(containers=many)).context).pod, made))
        assert next(findings) != next(findings), name

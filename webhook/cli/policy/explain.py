"""`gpu-admission policy explain`: the documentation and settings of each unit of a policy."""

import sys
from collections.abc import Iterator
from inspect import cleandoc
from typing import Annotated, Any, NamedTuple

import typer

from webhook.cli import options
from webhook.cli.reading import policy_alone
from webhook.cli.terminal import out, say
from webhook.errors import BadInput
from webhook.framework.interface import Rule
from webhook.kube.yaml import to_yaml
from webhook.policy.model import DEFAULT_PROFILE, Policy, named
from webhook.text import quoted, suggestion


def explain(
    name: Annotated[str | None, typer.Argument(help="An injector or a rule, as the policy calls it.")] = None,
    policy: options.Policy = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """List the injectors and rules of a policy in run order. With a NAME, print the documentation and settings of that one.

    Example: `gpu-admission policy explain gpuFits`: what it means, which fields it reads, what it allows, its settings.
    """
    rules, whose = policy_alone(policy, file, kubeconfig, context)
    all_units = list(documented(rules))
    if name is None:
        for unit in all_units:
            out(f"{unit.name:20} {unit.state:8} {unit.summary}")
        return say(f"of {whose}", "dim")
    matching = [unit for unit in all_units if unit.name == name]  # priorityClass is an injector and a rule
    for unit in matching:
        out(f"{unit.name} ({unit.kind}, {unit.state})\n\n{unit.text}\n\nSettings:\n{to_yaml(unit.settings)}")
    if not matching:
        hint = suggestion(name, [unit.name for unit in all_units])
        raise BadInput(f"saw {quoted(name)}, wanted an injector or a rule{hint}")
    return say(f"of {whose}", "dim")


class Documented(NamedTuple):
    """One injector or rule of the default profile."""

    name: str
    kind: str
    """`injector` or `rule`."""
    state: str
    """Of an injector `on` or `off`; of a rule its action."""
    summary: str
    """The first line of `text`."""
    text: str
    """The documentation for cluster administrators: the docstring of the unit's module."""
    settings: dict[str, Any]


def documented(policy: Policy) -> Iterator[Documented]:
    """All units in run order, injectors first. Units that are off are included."""
    profile = policy.file.profiles[DEFAULT_PROFILE]
    for name, unit in (*named(profile.injectors), *named(profile.rules)):
        is_rule = isinstance(unit, Rule)
        state = unit.action if is_rule else "on" if unit.enabled else "off"
        text = documentation(unit)
        settings = unit.model_dump(mode="json", by_alias=True)
        kind = "rule" if is_rule else "injector"
        yield Documented(name, kind, state, text.partition("\n")[0], text, settings)


def documentation(unit: object) -> str:
    """The docstring of the module of an injector or a rule."""
    return cleandoc(sys.modules[type(unit).__module__].__doc__ or "")

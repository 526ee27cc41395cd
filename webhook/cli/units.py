"""What there is to know about each unit of a policy, from the unit itself: its module says it, its fields are its settings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, NamedTuple

from webhook.framework.interface import Injector, Rule, Settings
from webhook.policy.model import DEFAULT_PROFILE, Policy


class Documented(NamedTuple):
    """One injector or rule of the default profile."""

    name: str
    kind: str
    """`injector` or `rule`."""
    state: str
    """`on` or `off` of an injector; the action of a rule."""
    summary: str
    text: str
    """What it means to a cluster administrator: fields, allowed values, source."""
    settings: dict[str, Any]


def documented(policy: Policy) -> Iterator[Documented]:
    """Every unit, those that are off too, in run order: injectors first."""
    profile = policy.file.profiles[DEFAULT_PROFILE]
    sections: tuple[tuple[str, Settings], ...] = (("injector", profile.injectors), ("rule", profile.rules))
    for kind, section in sections:
        for field, info in type(section).model_fields.items():
            unit = getattr(section, field)
            assert isinstance(unit, (Injector, Rule))
            state = unit.action if isinstance(unit, Rule) else "on" if unit.enabled else "off"
            text = cleandoc(sys.modules[type(unit).__module__].__doc__ or "")
            summary = text.partition("\n")[0]
            yield Documented(
                info.alias or field, kind, str(state), summary, text, unit.model_dump(mode="json", by_alias=True)
            )

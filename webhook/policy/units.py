"""The units in a section of a profile (`injectors`, `rules`), by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from webhook.framework.interface import ProfileView, Settings

Model = TypeVar("Model", bound=Settings)


def named(section: Settings) -> Iterator[tuple[str, Any]]:
    """The fields of a section with their names in the policy, in run order."""
    for name, info in type(section).model_fields.items():
        yield info.alias or name, getattr(section, name)


def completed(profile: Model, entitled: Mapping[str, tuple[str, ...]]) -> Model:
    """The profile with the settings that units take over from other units or from the classes of workload (`entitled`)."""
    sections = {name: getattr(profile, name) for name in ("injectors", "rules")}
    injectors, rules = (dict(named(section)) for section in sections.values())
    view = ProfileView(injectors, rules, entitled)
    return profile.model_copy(update={name: _completed(section, view) for name, section in sections.items()})


def _completed(section: Model, view: ProfileView) -> Model:
    units = {name: getattr(section, name).completed(view) for name in type(section).model_fields}
    return section.model_copy(update=units)

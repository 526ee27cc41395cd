"""The units in a section of a profile (`injectors`, `rules`), by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from webhook.framework.interface import ProfileView, Settings

Section = TypeVar("Section", bound=Settings)


def named(section: Settings) -> Iterator[tuple[str, Any]]:
    """The fields of a section with their names in the policy, in run order."""
    for name, info in type(section).model_fields.items():
        yield info.alias or name, getattr(section, name)


def completed(section: Section, profile: ProfileView) -> Section:
    """The section, with units that have taken over their settings from other sections of the profile."""
    units = {name: getattr(section, name).completed(profile) for name in type(section).model_fields}
    return section.model_copy(update=units)

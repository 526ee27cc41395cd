"""The units of a section of a profile, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from webhook.framework.interface import ProfileView, Settings

Section = TypeVar("Section", bound=Settings)


def named(section: Settings) -> Iterator[tuple[str, Any]]:
    """What a section has, by its names in a policy, in run order."""
    for name, info in type(section).model_fields.items():
        yield info.alias or name, getattr(section, name)


def completed(section: Section, profile: ProfileView) -> Section:
    """The section with what its units take from elsewhere in the profile."""
    units = {name: getattr(section, name).completed(profile) for name in type(section).model_fields}
    return section.model_copy(update=units)

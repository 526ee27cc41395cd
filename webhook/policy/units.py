"""The units of a section of a profile: by name, completed, and sorted out for the pods that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from webhook.framework.interface import Injector, ProfileView, Rule, Settings

Section = TypeVar("Section", bound=Settings)


def named(section: Settings) -> Iterator[tuple[str, Any]]:
    """What a section has, by its names in a policy, in run order."""
    for name, info in type(section).model_fields.items():
        yield info.alias or name, getattr(section, name)


def completed(section: Section, profile: ProfileView) -> Section:
    """The section with what its units take from elsewhere in the profile."""
    units = {name: getattr(section, name).completed(profile) for name in type(section).model_fields}
    return section.model_copy(update=units)


class Units(NamedTuple):
    """The units of one profile that are not off, by name, in run order: sorted out once, not at each request."""

    injectors: tuple[tuple[str, Injector], ...]
    for_every_pod: tuple[tuple[str, Injector], ...]
    for_claims: tuple[tuple[str, Injector], ...]
    rules: tuple[tuple[str, Rule], ...]
    early: tuple[tuple[str, Rule], ...]

    @classmethod
    def of(cls, injectors: Settings, rules: Settings, *, placed: bool) -> Units:
        """`placed`: a node is chosen for pods without GPUs too."""
        on = tuple([(n, u) for n, u in named(injectors) if u.enabled])
        asked = tuple([(n, u) for n, u in named(rules) if u.action != "off"])
        every = [(n, u) for n, u in on if u.every_pod or (placed and u.needs_placement)]
        claims = [(n, u) for n, u in on if u.claims or (n, u) in every]
        early = [(n, u) for n, u in asked if u.early]
        return cls(on, tuple(every), tuple(claims), asked, tuple(early))

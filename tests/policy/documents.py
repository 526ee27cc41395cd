"""Small models that stand in for the policy in tests of the loader."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from webhook.framework.interface import Settings


class Unit(Settings):
    action: Literal["deny", "warn", "off"] = "deny"
    most_pods: int | None = Field(default=4, ge=1)
    names: tuple[str, ...] = ()
    reserved: dict[str, tuple[str, ...]] = {}


class Profile(Settings):
    shadow: bool = False
    first: Unit = Unit()
    second: Unit = Unit()

    @model_validator(mode="after")
    def _agree(self) -> Profile:
        if self.first.names and self.first.names == self.second.names:
            raise ValueError("first and second name the same")
        return self


class Entry(Settings):
    name: str = Field(alias="class", pattern="^[a-z]+$")


class Document(Settings):
    entries: tuple[Entry, ...] = ()
    profiles: dict[str, Profile] = {"default": Profile()}

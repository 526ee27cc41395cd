"""What is known of each vendor, for docs/vendors.md: a line for each kind of fact. The files have the sources."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.vendors import VENDORS, model

_ONE: Final = {
    "whole": "a GPU",
    "slice": "a slice",
    "share": "a share",
    "part": "a part that a scheduler counts",
    "all": "all GPUs of the node",
    "none": "no GPU",
}
_GIVES: Final = {
    "devices": "devices",
    "besideGpu": "devices for use with GPUs",
    "legacy": "all devices, if it is alone",
    "own": "some of the container's own GPUs",
    "nothing": "no device",
}


def _none(variable: model.Variable) -> str:
    if variable.none is None:
        return ""
    return f", none with {' or '.join([f'`{value}`' if value else 'an empty value' for value in variable.none]) or 'no value'}"


class Kind(NamedTuple):
    """A kind of fact: how it is called, and what is said of one."""

    noun: str
    says: Callable[[Any], str]


KINDS: Final[dict[type[Any], Kind]] = {
    model.Resource: Kind("resources", lambda of: f"`{of.name}`: {_ONE[of.one]}{f', of `{of.of}`' if of.of else ''}"),
    model.DeviceClass: Kind("classes of DRA", lambda of: f"`{of.name}`"),
    model.Divided: Kind("what makes it a part", lambda of: f"`{of.key}={of.value}`: `{of.resource}` is a {of.one}"),
    model.Taint: Kind("taints", lambda of: f"`{of.key}{f'={of.value}' if of.value else ''}`"),
    model.Variable: Kind("variables", lambda of: f"`{of.name}`: {_GIVES[of.gives]}{_none(of)}"),
    model.Annotation: Kind("annotations", lambda of: f"`{of.key}`: {_GIVES[of.gives]}"),
    model.Part: Kind("annotations for parts", lambda of: f"`{of.key}`"),
    model.RuntimeClass: Kind("runtime classes", lambda of: f"`{of.name}`"),
    model.Scheduler: Kind("schedulers", lambda of: f"`{of.name}`"),
}
"""Those that are on the page: what an operator compares with a cluster."""


def lines() -> Iterator[str]:
    """The generated part of docs/vendors.md."""
    for vendor in VENDORS:
        yield from (f"## {vendor.name}", "")
        for kind, (noun, says) in KINDS.items():
            if facts := [fact for of in vendor.facts.values() for fact in of if type(fact) is kind]:
                yield f"- {noun}: {_grouped([says(fact) for fact in facts])}"
        if vendor.unknown:
            yield f"- not known: {'; '.join(vendor.unknown)}"
        yield ""


def _grouped(known: list[str]) -> str:
    """Names of which the same is said stand together: `` `a`, `b`: a GPU; `c`: a slice ``."""
    groups: dict[str, list[str]] = {}
    for one in known:
        name, _, said = one.partition("`: ")
        groups.setdefault(said, []).append(f"{name}`" if said else one)
    return "; ".join([f"{', '.join(names)}{f': {said}' if said else ''}" for said, names in groups.items()])

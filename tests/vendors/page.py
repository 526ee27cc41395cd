"""What is known of each vendor, for docs/vendors.md: a row for each kind of fact, with the sources."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.vendors import VENDORS, model
from webhook.vendors.model import Fact, Vendor

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
    model.Label: Kind("labels of nodes", lambda of: f"`{of.key}`: {of.says}"),
    model.Divided: Kind("what makes it a part", lambda of: f"`{of.key}` = `{of.value}`: `{of.resource}` is a {of.one}"),
    model.Profile: Kind("sizes of slices", lambda of: f"`{of.size}`: {of.per_gpu} of a GPU"),
    model.Unhealthy: Kind("labels of sick nodes", lambda of: f"`{of.key}`: {', '.join(of.values)}"),
    model.Condition: Kind("conditions of sick nodes", lambda of: f"`{of.type}` = {of.sick}"),
    model.Taint: Kind("taints", lambda of: f"`{of.key}{f'={of.value}' if of.value else ''}`: {of.says}"),
    model.Variable: Kind("variables", lambda of: f"`{of.name}`: {_GIVES[of.gives]}{_none(of)}"),
    model.Annotation: Kind("annotations", lambda of: f"`{of.key}`: {_GIVES[of.gives]}"),
    model.Part: Kind("annotations for parts", lambda of: f"`{of.key}`"),
    model.ContainerPart: Kind(
        "annotations for parts of containers",
        lambda of: f"`{of.prefix}CONTAINER.`: {', '.join(f'`{word}`' for word in (*of.asks, *of.harmless))}",
    ),
    model.PartLimit: Kind(
        "limits of parts", lambda of: f"`{of.prefix}{'CONTAINER.' * bool(of.prefix)}{of.key}`: of `{of.of}`"
    ),
    model.SharedBy: Kind("who gets a part", lambda of: f"`{of.container}`, `{of.config_map}`"),
    model.SharedCards: Kind(
        "how parts are written", lambda of: f"`{of.registered}`, {', '.join(f'`{key}`' for key in of.assigned)}"
    ),
    model.SharedMemory: Kind("how parts are written", lambda of: f"`{of.index}`"),
    model.SharedGroups: Kind("how parts are written", lambda of: f"`{of.group}`, `{of.received}`"),
    model.HostPath: Kind(
        "paths of nodes", lambda of: f"`{of.path}`: {'the node' if of.gives == 'node' else of.label or 'data'}"
    ),
    model.DeviceMount: Kind("mounts that give devices", lambda of: f"`/var/run/{of.name}`"),
    model.RuntimeClass: Kind("runtime classes", lambda of: f"`{of.name}`"),
    model.Namespace: Kind("namespaces of the operator", lambda of: f"`{of.name}`"),
    model.Scheduler: Kind("schedulers", lambda of: f"`{of.name}`"),
    model.Gate: Kind("scheduling gates", lambda of: f"`{of.name}`: {of.until}"),
    model.CudaImage: Kind("images with CUDA", lambda of: f"`{of.name}`"),
    model.DriverVariable: Kind("variables about the driver", lambda of: f"`{of.name}`: {of.says}"),
    model.ForDesktops: Kind("models without cuda-compat", lambda of: f"`{of.model}`"),
    model.Collectives: Kind("libraries that use /dev/shm", lambda of: f"`{of.name}`"),
    model.Metric: Kind("metrics", lambda of: f"`{of.name}`: {of.measures}"),
    model.SeriesLabel: Kind("labels of metrics", lambda of: f"`{of.name}`: {of.says}"),
    model.MeasuringPods: Kind("pods that measure", lambda of: f"`app={of.app}` in `{of.namespace}`"),
    model.OwnQueues: Kind("orders pods by priority", lambda of: f"`{of.name}`"),
}
_OF_MAKERS: Final = (
    *(model.DeviceClass, model.Label, model.Taint, model.Condition, model.Variable, model.RuntimeClass, model.Metric),
)
"""What is to be known of whoever makes GPUs: of a vendor with a resource for a whole one."""


def lines() -> Iterator[str]:
    """The generated part of docs/vendors.md. Each source stands once, below the table of its vendor."""
    for vendor in VENDORS:
        yield from (f"## {vendor.name}", "", "| | known | from |", "|---|---|---|")
        numbers = {source: number for number, source in enumerate(vendor.facts, 1)}
        for kind, (noun, says) in KINDS.items():
            facts = [(source, fact) for source, of in vendor.facts.items() for fact in of if type(fact) is kind]
            if facts:
                known = _grouped([says(fact) for _, fact in facts]).replace("|", "\\|")
                yield f"| {noun} | {known} | {', '.join(f'{numbers[source]}' for source in dict(facts))} |"
        sources = " · ".join(f"{number} [{_short(source)}]({source})" for source, number in numbers.items())
        yield from ("", f"From: {sources}")
        if missing := [*vendor.unknown, *_missing(vendor)]:
            yield from ("", f"Not known: {'; '.join(missing)}.")
        yield ""


def _grouped(known: list[str]) -> str:
    """Names of which the same is said stand together: `` `a`, `b`: a GPU; `c`: a slice ``."""
    groups: dict[str, list[str]] = {}
    for one in known:
        name, _, said = one.partition("`: ")
        groups.setdefault(said, []).append(f"{name}`" if said else one)
    return "; ".join([f"{', '.join(names)}{f': {said}' if said else ''}" for said, names in groups.items()])


def _short(source: str) -> str:
    """The owner or host, and the page."""
    host, _, path = source.partition("://")[2].partition("/")
    parts = [part for part in path.split("/") if part]
    return "/".join(parts[:2]) if host in ("github.com", "gitlab.com") else host


def _missing(vendor: Vendor) -> Iterator[str]:
    facts = [fact for of in vendor.facts.values() for fact in of]
    known: set[type[Fact]] = {type(fact) for fact in facts}
    if any(isinstance(fact, model.Resource) and fact.one == "whole" for fact in facts):
        yield from [KINDS[kind].noun for kind in _OF_MAKERS if kind not in known]
    for fact in facts:
        if (
            isinstance(fact, model.Variable)
            and fact.gives == "devices"
            and fact.none is None
            and "VISIBLE" in fact.name
        ):
            yield f"which value of `{fact.name}` stands for no device"

"""What is known of each vendor, for docs/vendors.md: a line for each kind of fact, with its sources."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from webhook.vendors import VENDORS, model
from webhook.vendors.model import Fact, Vendor

_ONE: Final = {"whole": "GPU", "slice": "slice", "share": "share", "part": "part", "all": "all GPUs", "none": "no GPU"}
_GIVES: Final = {
    "devices": "devices",
    "besideGpu": "beside GPUs",
    "legacy": "all devices, if alone",
    "own": "own GPUs",
    "nothing": "no device",
}


def _none(variable: model.Variable) -> str:
    if variable.none is None:
        return ""
    return f", none with {' or '.join([f'`{value}`' if value else 'no text' for value in variable.none]) or 'no value'}"


class Kind(NamedTuple):
    """A kind of fact: how it is called, and what is said of one."""

    noun: str
    says: Callable[[Any], str]


KINDS: Final[dict[type[Any], Kind]] = {
    model.Resource: Kind("resources", lambda of: f"`{of.name}`: {_ONE[of.one]}{f', of `{of.of}`' if of.of else ''}"),
    model.DeviceClass: Kind("DRA classes", lambda of: f"`{of.name}`"),
    model.Label: Kind("node labels", lambda of: f"`{of.key}`: {of.says}"),
    model.Divided: Kind("labels that divide GPUs", lambda of: f"`{of.key}={of.value}`: {of.one} of `{of.resource}`"),
    model.Profile: Kind("slices per GPU, by size", lambda of: f"`{of.size}`: {of.per_gpu}"),
    model.Unhealthy: Kind("labels of sick nodes", lambda of: f"`{of.key}={{{','.join(of.values)}}}`"),
    model.Condition: Kind("conditions of sick nodes", lambda of: f"`{of.type}`: {of.sick}"),
    model.Taint: Kind("taints", lambda of: f"`{of.key}{f'={of.value}' if of.value else ''}`: {of.says}"),
    model.Variable: Kind("variables", lambda of: f"`{of.name}`: {_GIVES[of.gives]}{_none(of)}"),
    model.Annotation: Kind("annotations", lambda of: f"`{of.key}`: {_GIVES[of.gives]}"),
    model.Part: Kind("annotations for parts", lambda of: f"`{of.key}`"),
    model.ContainerPart: Kind(
        "annotations for parts of containers",
        lambda of: f"`{of.prefix}CONTAINER.{{{','.join((*of.asks, *of.harmless))}}}`",
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
        "paths of nodes",
        lambda of: (
            f"`{of.path}`: {'the node' if of.gives == 'node' else f'with the label {of.label}' if of.label else 'data'}"
        ),
    ),
    model.DeviceMount: Kind("mounts that give devices", lambda of: f"`/var/run/{of.name}`"),
    model.RuntimeClass: Kind("runtime classes", lambda of: f"`{of.name}`"),
    model.Namespace: Kind("namespaces of the operator", lambda of: f"`{of.name}`"),
    model.Scheduler: Kind("schedulers", lambda of: f"`{of.name}`"),
    model.Gate: Kind("scheduling gates", lambda of: f"`{of.name}`: until {of.until}"),
    model.CudaImage: Kind("images with CUDA", lambda of: f"`{of.name}`"),
    model.DriverVariable: Kind("variables about the driver", lambda of: f"`{of.name}`: {of.says}"),
    model.ForDesktops: Kind("models without cuda-compat", lambda of: f"`{of.model}`"),
    model.Collectives: Kind("libraries that use /dev/shm", lambda of: f"`{of.name}`"),
    model.Metric: Kind("metrics", lambda of: f"`{of.name}`: {of.measures}"),
    model.SeriesLabel: Kind("labels of metrics", lambda of: f"`{of.name}`: {of.says}"),
    model.MeasuringPods: Kind("pods that measure", lambda of: f"`app={of.app}` in `{of.namespace}`"),
    model.GangKind: Kind("gangs", lambda of: f"`{of.plural}` of `{of.api}`"),
    model.OwnQueues: Kind("orders pods by priority", lambda of: f"`{of.name}`"),
    model.UnnamedNode: Kind("refuses pods that name a node", lambda of: f"`{of.name}`"),
}
_VISIBLE: Final = "_VISIBLE_DEVICES"
_OF_MAKERS: Final = (
    *(model.DeviceClass, model.Label, model.Taint, model.Condition, model.Variable, model.RuntimeClass, model.Metric),
)
"""What is to be known of whoever makes GPUs: of a vendor with a resource for a whole one."""


def lines() -> Iterator[str]:
    """The generated part of docs/vendors.md. Each source stands once, at the end."""
    numbers: dict[str, int] = {}
    shared = Counter(text for vendor in VENDORS for text in vendor.unknown)
    for vendor in VENDORS:
        yield from (f"## {vendor.name}", "")
        for source in vendor.facts:
            numbers.setdefault(source, len(numbers) + 1)
        for kind, (noun, says) in KINDS.items():
            facts = [(source, fact) for source, of in vendor.facts.items() for fact in of if type(fact) is kind]
            if facts:
                sources = ", ".join(f"[{numbers[source]}]" for source in dict(facts))
                yield f"- {noun} {sources}: {_grouped([says(fact) for _, fact in facts])}"
        if missing := [text for text in vendor.unknown if shared[text] == 1]:
            yield f"- *Not known*: {'; '.join(missing)}"
        yield ""
    yield from ("## What is not known", "", "Of those that make GPUs, beside what is said above:", "")
    makers = {vendor.name: set(_missing(vendor)) for vendor in VENDORS if _makes_gpus(vendor)}
    for noun in [KINDS[kind].noun for kind in _OF_MAKERS]:
        of, but = (
            [name for name in makers if noun in makers[name]],
            [name for name in makers if noun not in makers[name]],
        )
        few = ", ".join(of) if len(of) <= len(but) else "all but " + ", ".join(but) if but else "all"
        yield f"- {noun}: {few}"
    for text in [text for text, count in shared.items() if count > 1]:
        yield f"- {text}: {', '.join(vendor.name for vendor in VENDORS if text in vendor.unknown)}"
    names = ",".join([name for vendor in VENDORS for name in _without_none(vendor)])
    yield f"- which value stands for no device: `{{{names}}}{_VISIBLE}`"
    yield from ("", *(f"[{number}]: {source}" for source, number in numbers.items()))


def _grouped(known: list[str]) -> str:
    """Names of which the same is said stand together: `` GPU: `a/{x,y}`; slice: `c` ``."""
    groups: dict[str, list[str]] = {}
    for one in known:
        name, _, said = one.partition("`: ")
        groups.setdefault(said, []).append(f"{name}`" if said else one)
    written = [(said, ", ".join(_braced(names)).replace("`, `", ", ")) for said, names in groups.items()]
    return "; ".join([f"{said}: {names}" if said else names for said, names in written])


def _braced(names: list[str]) -> Iterator[str]:
    """Names of one domain together, like in a shell."""
    domains: dict[str, list[str]] = {}
    for name in names:
        found = re.fullmatch(r"`([\w.-]+/)([^`]+)`", name)
        domains.setdefault(found[1] if found else name, []).append(found[2] if found else "")
    for domain, rests in domains.items():
        if rests == [""]:
            yield domain
        else:
            yield from [f"`{domain}{each}`" for each in _pairs(rests)]


def _pairs(rests: list[str]) -> Iterator[str]:
    """`{a,b}`; `{a,b}-{core,memory}` for names that go together so, and the others."""
    ends: dict[str, tuple[str, ...]] = {}
    for rest in rests:
        first, _, last = rest.rpartition("-")
        ends[first] = (*ends.get(first, ()), last)
    most = max(ends.values(), key=len)
    stems = [first for first, last in ends.items() if last == most and first]
    if min(len(stems), len(most)) > 1:
        yield f"{{{','.join(stems)}}}-{{{','.join(most)}}}"
        rests = [rest for rest in rests if rest.rpartition("-")[0] not in stems]
    if rests:
        yield f"{{{','.join(rests)}}}" if len(rests) > 1 else rests[0]


def _facts(vendor: Vendor) -> list[Fact]:
    return [fact for of in vendor.facts.values() for fact in of]


def _makes_gpus(vendor: Vendor) -> bool:
    return any(isinstance(fact, model.Resource) and fact.one == "whole" for fact in _facts(vendor))


def _missing(vendor: Vendor) -> Iterator[str]:
    known: set[type[Fact]] = {type(fact) for fact in _facts(vendor)}
    yield from [KINDS[kind].noun for kind in _OF_MAKERS if kind not in known]


def _without_none(vendor: Vendor) -> Iterator[str]:
    for of in _facts(vendor):
        if isinstance(of, model.Variable) and of.gives == "devices" and of.none is None and of.name.endswith(_VISIBLE):
            yield of.name.removesuffix(_VISIBLE)

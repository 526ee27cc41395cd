"""The requests of a ResourceClaim as rules read them: how many devices of what kind (resource.k8s.io/v1).

A request is for GPUs if its class or its own expressions name the driver of one, as the classes of all GPU drivers do:
`device.driver == "gpu.nvidia.com"`. Of any other it is not known what it is for.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.kube.other_gpus import CLASS_VENDORS
from webhook.text import quoted

MAX_REQUESTS: Final = 32
"""Maximum number of requests of a claim (DeviceRequestsMaxSize)."""
MAX_ALTERNATIVES: Final = 8
"""Maximum number of alternatives of a request (FirstAvailableDeviceRequestMaxSize)."""
_MAX_SELECTORS: Final = 32
"""Maximum number of expressions of a request (DeviceSelectorsMaxSize)."""
_MAX_READ: Final = 1 << 10
"""The driver is looked for at the beginning of an expression."""
_DRIVER: Final = re.compile(r"""\bdevice\s*\.\s*driver\s*==\s*["']([a-z0-9.-]{1,63})["']""")
_PARTITION: Final = re.compile(r"""\.\s*type\s*==\s*["'](?:mig|vgpu|partition)["']""")

SelectorsOf = Callable[[str], tuple[str, ...] | None]
"""The expressions of a DeviceClass by name; None if the class is not known."""


class ClaimRequest(NamedTuple):
    """One request of a claim. With alternatives (`firstAvailable`) the largest counts."""

    path: str
    """The field of the pod that names the claim, or of the claim: `spec.resourceClaims[0]`."""
    claim: str
    """`claim "train"`, `template "train"`, or "" in the claim itself."""
    name: str
    entry: str = ""
    """The name of the claim in the pod."""
    devices: int | None = 1
    """Number of devices; None: all of a node that match (`allocationMode: All`)."""
    kind: str = ""
    """`whole`, `slice`, `other` (no GPU), or "" if that is not known."""
    vendor: str = ""
    """The vendor of the GPUs: "nvidia.com"."""
    tolerates_all: bool = False
    """Whether it tolerates every taint of a device."""
    alternatives: tuple[tuple[str, ...], ...] = ()
    """The expressions of each alternative, with those of its class. () if a class is not known."""
    most: int | None = None
    """The largest number of devices on one node that it selects, taken or not. None if that is not known: no driver tells
    devices, devices may belong to no single node, or an expression cannot be decided."""

    @property
    def words(self) -> str:
        """What a message calls it: `request "gpu" of template "train"`."""
        return f"request {quoted(self.name)}{f' of {self.claim}' if self.claim else ''}"


def claim_requests(
    devices: Mapping[str, Any], selectors_of: SelectorsOf, path: str, claim: str = "", entry: str = ""
) -> Iterator[ClaimRequest]:
    """The requests in `spec.devices` of a claim. `path`: see `ClaimRequest`; with "{}" for the number of the request.

    Raises KeyError, TypeError, ValueError or AttributeError if it is malformed, which the API server does not let through.
    """
    for number, request in enumerate((devices.get("requests") or ())[:MAX_REQUESTS]):
        alternatives = (request.get("firstAvailable") or [request["exactly"]])[:MAX_ALTERNATIVES]
        counts = [_count(each) for each in alternatives]
        known = [selectors_of(str(each["deviceClassName"])) for each in alternatives]
        selectors = [(*(of or ()), *_expressions(each)) for of, each in zip(known, alternatives, strict=True)]
        kinds = [_kind(str(each["deviceClassName"]), of) for each, of in zip(alternatives, selectors, strict=True)]
        kind, vendor = max(kinds, key=lambda each: _RANK.index(each[0]))
        yield ClaimRequest(
            path=path.format(number),
            claim=claim,
            name=str(request.get("name") or ""),
            entry=entry,
            devices=None if None in counts else max([count for count in counts if count is not None]),
            kind=kind,
            vendor=vendor,
            tolerates_all=any([_tolerates_all(each) for each in alternatives]),
            alternatives=() if None in known else tuple(selectors),
        )


_RANK: Final = ("other", "", "slice", "whole")
"""Of several alternatives the one counts that takes most."""


def _count(request: Mapping[str, Any]) -> int | None:
    return None if request.get("allocationMode") == "All" else int(request.get("count") or 1)


def _expressions(request: Mapping[str, Any]) -> list[str]:
    selectors = (request.get("selectors") or ())[:_MAX_SELECTORS]
    return [str((selector.get("cel") or {}).get("expression")) for selector in selectors]


def _kind(name: str, selectors: tuple[str, ...]) -> tuple[str, str]:
    """The kind and the vendor of the devices of a class with these expressions."""
    selectors = tuple([text[:_MAX_READ] for text in selectors])
    drivers = {driver for text in selectors for driver in _DRIVER.findall(text)}
    if name in CLASS_VENDORS and not drivers:
        return "whole", CLASS_VENDORS[name]
    gpus = sorted([driver for driver in drivers if "gpu" in driver])
    if not gpus:
        return ("other" if drivers else ""), ""
    kind = "slice" if any([_PARTITION.search(text) for text in selectors]) else "whole"
    return kind, CLASS_VENDORS.get(gpus[0], gpus[0].removeprefix("gpu."))


def _tolerates_all(request: Mapping[str, Any]) -> bool:
    return any([not each.get("key") and each.get("operator") == "Exists" for each in request.get("tolerations") or ()])

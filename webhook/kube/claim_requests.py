"""The requests of a ResourceClaim as rules read them: how many devices of what kind (resource.k8s.io/v1).

What kind they are is told by the devices that the expressions select now. While no devices are known, or expressions cannot be
decided, the class tells it by the driver that it names: `device.driver == "gpu.nvidia.com"`. What a tenant writes besides may add
GPUs to that, and never takes any away.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from webhook.kube.other_gpus import CLASS_VENDORS, is_gpu_driver
from webhook.text import quoted

MAX_REQUESTS: Final = 32
"""Maximum number of requests of a claim (DeviceRequestsMaxSize)."""
MAX_ALTERNATIVES: Final = 8
"""Maximum number of alternatives of a request (FirstAvailableDeviceRequestMaxSize)."""
_MAX_SELECTORS: Final = 32
"""Maximum number of expressions of a request (DeviceSelectorsMaxSize)."""
_MAX_READ: Final = 1 << 10
"""The driver is looked for at the beginning of an expression."""
_DRIVER: Final = re.compile(r"""\bdevice\s*\.\s*(?:driver\s*==|attributes\s*\[)\s*["']([a-z0-9.-]{1,63})["']""")
_STANDARD: Final = "resource.kubernetes.io"
"""The domain of attributes that devices of any driver have."""
_PARTITIONS: Final = ("mig", "vgpu", "partition")
_PARTITION: Final = re.compile(r"""\.\s*type\s*==\s*["'](?:mig|vgpu|partition)["']""")
_ONLY_PARTITIONS: Final = re.compile(
    r"""\s*device\s*\.\s*attributes\s*\[\s*["'][a-z0-9.-]+["']\s*\]\s*\.\s*type\s*==\s*["'](?:mig|vgpu|partition)["']\s*"""
)
"""A whole expression that no device matches but a part of a GPU."""


class Selected(NamedTuple):
    """The devices in the cluster that a list of expressions selects, taken or not."""

    kinds: frozenset[tuple[str, str]]
    """Driver, and the attribute `type` of that driver, of each."""
    most: int | None
    """The largest number of them on one node; None if some are shared, or belong to no single node."""


class Known(Protocol):
    """What is known of classes and devices."""

    def class_selectors(self, name: str) -> tuple[str, ...] | None:
        """The expressions of a DeviceClass. None if it is not known."""

    def selected(self, selectors: tuple[str, ...]) -> Selected | None:
        """What expressions select. None if no devices are known, or if that cannot be decided."""


class Alternative(NamedTuple):
    """One way to meet a request: the only one of `exactly`, or one of `firstAvailable`."""

    devices: int | None = 1
    """Number of devices; None: all of a node that match (`allocationMode: All`)."""
    kind: str = ""
    """`whole`, `slice`, `other` (no GPU), or "" if that is not known."""
    vendor: str = ""
    """The vendor of the GPUs: "nvidia.com"."""
    most: int | None = None
    """The largest number of such devices on one node; None if that is not known."""
    unmet: str = ""
    """The expression, of the class or its own, with which no device is left; "" if there is none."""


class ClaimRequest(NamedTuple):
    path: str
    """The field of the pod that names the claim, or of the claim: `spec.resourceClaims[0]`."""
    claim: str
    """`claim "train"`, `template "train"`, or "" in the claim itself."""
    name: str
    entry: str = ""
    """The name of the claim in the pod."""
    alternatives: tuple[Alternative, ...] = (Alternative(),)
    admin: bool = False
    """It takes no device from others (`adminAccess`)."""
    tolerates_all: bool = False
    """Whether it tolerates every taint of a device."""

    @property
    def words(self) -> str:
        """What a message calls it: `request "gpu" of template "train"`."""
        return f"request {quoted(self.name)}{f' of {self.claim}' if self.claim else ''}"

    @property
    def vendor(self) -> str:
        """The vendor of its GPUs, whichever alternative is taken; "" if that is not known."""
        vendors = {each.vendor for each in self.alternatives}
        return vendors.pop() if len(vendors) == 1 else ""


def claim_requests(devices: Mapping[str, Any], known: Known, path: str) -> Iterator[ClaimRequest]:
    """The requests in `spec.devices` of a claim. `path`: see `ClaimRequest`; with "{}" for the number of the request.

    Raises KeyError, TypeError, ValueError or AttributeError if it is malformed, which the API server does not let through.
    """
    for number, request in enumerate((devices.get("requests") or ())[:MAX_REQUESTS]):
        alternatives = (request.get("firstAvailable") or [request["exactly"]])[:MAX_ALTERNATIVES]
        yield ClaimRequest(
            path=path.format(number),
            claim="",
            name=str(request.get("name") or ""),
            alternatives=tuple([_alternative(each, known) for each in alternatives]),
            admin=all([each.get("adminAccess") is True for each in alternatives]),
            tolerates_all=any([_tolerates_all(each) for each in alternatives]),
        )


def kind_of(name: str, known: Known, own: tuple[str, ...] = ()) -> tuple[str, str, int | None]:
    """Kind, vendor and largest number on one node, as in `Alternative`, of the devices of a class that `own` expressions select
    too."""
    of_class = known.class_selectors(name)
    found = None if of_class is None else known.selected((*of_class, *own))
    if found is not None and found.kinds:
        gpus = sorted([(driver, type_) for driver, type_ in found.kinds if is_gpu_driver(driver)])
        if not gpus:
            return "other", "", found.most
        parts = all([any([word in type_ for word in _PARTITIONS]) for _, type_ in gpus])
        return "slice" if parts else "whole", _vendor(driver for driver, _ in gpus), found.most
    kind, vendor = _said(name, of_class or (), own)
    return kind, vendor, None if found is None else found.most


def _alternative(request: Mapping[str, Any], known: Known) -> Alternative:
    count = None if request.get("allocationMode") == "All" else int(request.get("count") or 1)
    selectors = (request.get("selectors") or ())[:_MAX_SELECTORS]
    own = tuple([str((selector.get("cel") or {}).get("expression")) for selector in selectors])
    name = str(request["deviceClassName"])
    kind, vendor, most = kind_of(name, known, own)
    return Alternative(count, kind, vendor, most, _unmet(name, known, own) if most == 0 else "")


def _unmet(name: str, known: Known, own: tuple[str, ...]) -> str:
    every = (*(known.class_selectors(name) or ()), *own)
    for number, text in enumerate(every):
        if (found := known.selected(every[: number + 1])) is None:
            return ""
        if not found.kinds:
            return text
    return ""


def _said(name: str, of_class: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, str]:
    """Kind and vendor by what the expressions say."""
    only_parts = any([_ONLY_PARTITIONS.fullmatch(text) for text in own])
    of_class, own = tuple([text[:_MAX_READ] for text in of_class]), tuple([text[:_MAX_READ] for text in own])
    drivers = {driver for text in of_class for driver in _DRIVER.findall(text)} - {_STANDARD}
    if name in CLASS_VENDORS and not drivers:
        return "whole", CLASS_VENDORS[name]
    gpus = {
        driver
        for driver in drivers or [each for text in own for each in _DRIVER.findall(text)]
        if is_gpu_driver(driver)
    }
    if not gpus:
        return ("other" if drivers else ""), ""
    parts = only_parts or any([_PARTITION.search(text) for text in of_class])
    return "slice" if parts else "whole", _vendor(gpus)


def _vendor(drivers: Iterable[str]) -> str:
    """The vendor of all these drivers; "" if they have several."""
    vendors = {CLASS_VENDORS.get(driver, driver.removeprefix("gpu.")) for driver in drivers}
    return vendors.pop() if len(vendors) == 1 else ""


def _tolerates_all(request: Mapping[str, Any]) -> bool:
    return any([not each.get("key") and each.get("operator") == "Exists" for each in request.get("tolerations") or ()])

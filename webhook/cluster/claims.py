"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1): what is kept of them, and which devices claims have."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from webhook.cluster.device_table import DeviceTable
from webhook.cluster.devices import DRA, Use
from webhook.cluster.grouped import full_name
from webhook.cluster.slices import device_id
from webhook.errors import QuantityError
from webhook.kube.pod import Pod, namespace_of
from webhook.kube.quantity import parse_quantity

MAX_CLAIMS: Final = 32
"""Maximum number of claims of a pod that are looked at."""
MAX_SPEC: Final = 16 << 10
"""Maximum length of what is kept of a claim, and of the claims of a pod: tenants write them, and caches have them as keys."""
_SHORT, _MAX_LONG = 1 << 10, 1 << 20
"""Up to _SHORT bytes all are kept. Longer ones of a namespace take _MAX_LONG bytes together."""
_MAX_TEXTS: Final = 4096
NO_SPEC: Final = b"null"


PodClaims = tuple[tuple[str, str], ...]
"""The claims of a pod: (`ResourceClaim` or `ResourceClaimTemplate`, namespace and name) of each."""


def claims_of(pod: Pod, namespace: str = "") -> PodClaims:
    """The claims that a pod names. `namespace`: of a pod that names none."""
    if not (entries := pod["spec"].get("resourceClaims")):
        return ()
    names = []
    for entry in entries[: MAX_CLAIMS + 1]:
        claim = entry.get("resourceClaimName")
        kind = "ResourceClaim" if claim else "ResourceClaimTemplate"
        names.append((kind, f"{namespace or namespace_of(pod)}/{claim or entry.get('resourceClaimTemplateName')}"))
    return tuple(names)


def made_for(pod: Pod) -> list[str]:
    """Namespace and name of the claims that a pod names, and of those that were made for it."""
    status = pod.get("status") or {}
    entries = [*(pod["spec"].get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    entries.append(status.get("extendedResourceClaimStatus") or {})
    return [f"{namespace_of(pod)}/{name}" for entry in entries if (name := entry.get("resourceClaimName"))]


class _Claim(NamedTuple):
    spec: bytes
    """`spec.devices` as JSON."""
    terms: bytes | None
    """Where it is allocated: node selector terms as JSON, "" for any node; None if it is not."""


class DeviceClass(NamedTuple):
    selectors: tuple[str, ...]
    resource: str
    """The extended resource that it stands for; "" if none."""
    created: str


class Specs(dict[str, bytes]):
    """`spec.devices` by namespace and name, as JSON. The long ones of a namespace take _MAX_LONG bytes at most: what is more is
    not kept, so that no tenant fills the memory."""

    def __init__(self) -> None:
        super().__init__()
        self._long = Counter[str]()

    def put(self, name: str, text: bytes) -> bytes:
        """What is kept: `text`, or NO_SPEC."""
        self.gone(name)
        namespace = name.partition("/")[0]
        if len(text) > _SHORT:
            if self._long[namespace] + len(text) > _MAX_LONG:
                text = NO_SPEC
            else:
                self._long[namespace] += len(text)
        self[name] = text
        return text

    def seen(self, obj: Mapping[str, Any]) -> None:
        """A ResourceClaimTemplate was added or changed."""
        self.put(full_name(obj), _spec((obj.get("spec") or {}).get("spec") or {}))

    def gone(self, name: str) -> None:
        text = self.pop(name, b"")
        if len(text) > _SHORT:
            namespace = name.partition("/")[0]
            self._long[namespace] -= len(text)
            if not self._long[namespace]:
                del self._long[namespace]


class Claims:
    """All ResourceClaims. Tells `table` which devices they have. `allocated` is called with the uid of each pod whose claim has
    devices now."""

    def __init__(self, table: DeviceTable, allocated: Callable[[str], None]) -> None:
        self._table, self._on_allocated = table, allocated
        self._claims: dict[str, _Claim] = {}
        self._specs = Specs()

    def seen(self, obj: Mapping[str, Any]) -> None:
        name, status = full_name(obj), obj.get("status") or {}
        allocation = status.get("allocation")
        terms, node = None, ""
        if allocation is not None:
            selected = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms")
            terms, node = _kept(orjson.dumps(selected)) if selected else b"", _only_node(selected or ())
        users = [str(user.get("uid")) for user in status.get("reservedFor") or () if user.get("resource") == "pods"]
        self._claims[name] = _Claim(self._specs.put(name, _spec(obj.get("spec") or {})), terms)
        self._table.use(DRA, name, node, _uses(allocation) if allocation and node else ())
        for uid in users if allocation is not None else ():
            self._on_allocated(uid)

    def gone(self, name: str) -> None:
        self._specs.gone(name)
        if self._claims.pop(name, None) is not None:
            self._table.use(DRA, name, "", ())

    def allocated(self, pod: Pod) -> bool:
        """Whether the claims that were made for a pod, or that it names, are known and have devices."""
        known = [self._claims.get(name) for name in made_for(pod)]
        return bool(known) and all([claim is not None and claim.terms is not None for claim in known])

    def get(self, name: str) -> _Claim | None:
        return self._claims.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._claims)


def _only_node(terms: Any) -> str:
    """The node that node selector terms name; "" if they do not name one."""
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    if len(terms) != 1 or not fields or fields[0].get("operator") != "In":
        return ""
    values: list[Any] = fields[0].get("values") or []
    return str(values[0]) if len(values) == 1 else ""


def _uses(allocation: Mapping[str, Any]) -> tuple[Use, ...]:
    uses = []
    for result in ((allocation.get("devices") or {}).get("results") or ())[:MAX_CLAIMS]:
        if result.get("adminAccess"):
            continue
        try:
            amounts = [
                (name if "/" in name else f"{result['driver']}/{name}", parse_quantity(amount))
                for name, amount in (result.get("consumedCapacity") or {}).items()
            ]
        except QuantityError:
            amounts = []
        uses.append(Use(device_id(result["driver"], result["pool"], result["device"]), tuple(amounts)))
    return tuple(uses)


def device_class(obj: Mapping[str, Any]) -> DeviceClass:
    spec = obj.get("spec") or {}
    created = str(obj["metadata"].get("creationTimestamp") or "")
    return DeviceClass(selectors_of(spec), str(spec.get("extendedResourceName") or ""), created)


_texts: dict[bytes, bytes] = {}


def _spec(spec: Mapping[str, Any]) -> bytes:
    """`spec.devices` as JSON, without the configuration of devices. Equal texts are one object."""
    devices = spec.get("devices") or {}
    text = orjson.dumps({key: devices[key] for key in ("requests", "constraints") if devices.get(key)})
    if len(text) > MAX_SPEC:
        return NO_SPEC
    return _kept(text)


def _kept(text: bytes) -> bytes:
    """The same text, one object for equal ones. orjson allocates 4 kB for each."""
    if len(_texts) >= _MAX_TEXTS:
        _texts.clear()
    return _texts.get(text) or _texts.setdefault(copied := bytes(memoryview(text)), copied)


def selectors_of(of: Mapping[str, Any]) -> tuple[str, ...]:
    """The expressions of the selectors of a class or a request."""
    return tuple([str((selector.get("cel") or {}).get("expression")) for selector in of.get("selectors") or ()])

"""ResourceClaims, their templates and DeviceClasses (resource.k8s.io/v1): what is kept of them, which devices claims have, and
what pods ask for, by their claims and by extended resources that a DeviceClass stands for.

The scheduler makes a claim for such a resource on nodes whose device plugin does not offer it. It counts as any other claim.

resource.k8s.io/v1. Follows structured/internal/incubating/allocator_incubating.go.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from webhook.devices.search import Unknown
from webhook.devices.slices import device_id
from webhook.devices.table import DeviceTable
from webhook.devices.types import DRA, Constraint, DeviceClaim, DeviceRequest, Use
from webhook.errors import QuantityError
from webhook.kube.claim_requests import ClaimRequest, Selected, claim_requests, kind_of
from webhook.kube.other_gpus import DEVICE_CLASS
from webhook.kube.pod import Pod, namespace_of
from webhook.kube.pod_requests import PodRequests
from webhook.kube.quantity import parse_quantity
from webhook.kube.stores import full_name
from webhook.kube.taints import matched
from webhook.text import quoted

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
NO_CLAIM, NO_TEMPLATE = "its claim is not known", "the template of its claim is not known"
TOO_LARGE = "its claims are too large"


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


class Asked(NamedTuple):
    """The devices that a pod asks for. `reason`: why they are left to the scheduler; "" if they are not."""

    claims: tuple[DeviceClaim, ...] = ()
    terms: tuple[bytes, ...] = ()
    """For each claim that is allocated, the terms of its node selector as JSON, of which a node must match one."""
    reason: str = ""


class DeviceRequests:
    """Finds what pods ask for, by the claims, templates and classes of the cluster."""

    def __init__(
        self, table: DeviceTable, claims: Claims, templates: Mapping[str, bytes], classes: Mapping[str, DeviceClass]
    ) -> None:
        self._table, self._claims, self._templates, self._classes = table, claims, templates, classes

    def asked(self, pod: PodClaims) -> Asked:
        """What the claims of a pod ask for now."""
        if len(pod) > MAX_CLAIMS:
            return Asked(reason="it has too many claims")
        found, terms, size = [], [], 0
        for kind, name in pod:
            if kind == "ResourceClaim":
                claim = self._claims.get(name)
                if claim is None:
                    return Asked(reason=NO_CLAIM)
                if claim.terms is not None:
                    terms += [claim.terms] if claim.terms else []
                    continue
                spec, shared = claim.spec, name
            elif (template := self._templates.get(name)) is None:
                return Asked(reason=NO_TEMPLATE)
            else:
                spec, shared = template, ""
            if (size := size + len(spec)) > MAX_SPEC:
                return Asked(reason=TOO_LARGE)
            try:
                found.append(_device_claim(orjson.loads(spec), self._classes, shared))
            except _Left as left:
                return Asked(reason=str(left))
            except (KeyError, TypeError, AttributeError, ValueError, QuantityError):
                return Asked(reason="its claim cannot be read")
        return Asked(tuple(found), tuple(terms))

    def requests(self, pod: Pod, namespace: str) -> tuple[ClaimRequest, ...]:
        """The requests of the claims of a pod, for its rules. Claims that are not known, or are too large, are left out, and a
        claim that is named again."""
        found, named = list[ClaimRequest](), set[str]()
        read = dict[bytes, tuple[ClaimRequest, ...]]()
        for index, entry in enumerate(pod["spec"]["resourceClaims"]):
            if name := entry.get("resourceClaimName"):
                claim, word = self._claims.get(f"{namespace}/{name}"), "claim"
                spec = claim.spec if claim is not None and name not in named else NO_SPEC
                named.add(name)
            else:
                name, word = entry.get("resourceClaimTemplateName"), "template"
                spec = self._templates.get(f"{namespace}/{name}", NO_SPEC)
            if spec == NO_SPEC:
                continue
            if spec not in read:
                with suppress(KeyError, TypeError, AttributeError, ValueError):
                    read[spec] = tuple(claim_requests(orjson.loads(spec), self, ""))
            of = f"spec.resourceClaims[{index}]", f"{word} {quoted(name)}", str(entry.get("name"))
            found += [each._replace(path=of[0], claim=of[1], entry=of[2]) for each in read.get(spec, ())]
        return tuple(found)

    def class_selectors(self, name: str) -> tuple[str, ...] | None:
        """The expressions of a DeviceClass; None if it is not known."""
        known = self._classes.get(name)
        return None if known is None else known.selectors

    def selected(self, selectors: tuple[str, ...]) -> Selected | None:
        """What expressions select of the devices of all nodes; None if that is not known."""
        return self._table.selected(selectors)

    def kind(self, resource: str) -> str:
        """The kind, as in `Alternative`, of the devices of the class that a resource stands for; "" if there is no such class."""
        name = self.class_of(resource) if self._classes else ""
        return kind_of(name, self)[0] if name else ""

    def extended(self, pod_requests: PodRequests) -> dict[str, DeviceClaim]:
        """The claims that the scheduler makes where no device plugin offers a resource, by the name of the resource."""
        found = {}
        for name, amount in pod_requests.requests if self._classes else ():
            if "/" in name and (device_class := self.class_of(name)):
                request = DeviceRequest(devices=amount, selectors=self._classes[device_class].selectors)
                found[name] = DeviceClaim(((request,),))
        return found

    def class_of(self, resource: str) -> str:
        """The DeviceClass that a resource stands for: of several the newest, then the first by name. "" if there is none."""
        if resource.startswith(DEVICE_CLASS):
            name = resource.removeprefix(DEVICE_CLASS)
            return name if name in self._classes else ""
        named = sorted([name for name, each in self._classes.items() if each.resource == resource])
        return max(named, key=lambda name: self._classes[name].created, default="")

    def with_claims(self, pod_requests: PodRequests, claims: tuple[DeviceClaim, ...]) -> PodRequests:
        """The requests of a pod with these claims. Raises Unknown."""
        if not claims:
            return pod_requests
        amounts = self._table.asked(claims) or ()
        return PodRequests(tuple(sorted((*pod_requests.requests, *amounts))), claims)

    def of_pod(self, pod: Pod, pod_requests: PodRequests, node: str) -> PodRequests | None:
        """The requests of a pod on a node, with the devices that it asks for and may not have yet. None if its claims are
        not known: the scheduler does not look at it before they are."""
        asked = self.asked(claims_of(pod))
        if asked.reason in (NO_CLAIM, NO_TEMPLATE):
            return None
        claims = [*asked.claims]
        claims += [
            claim for name, claim in self.extended(pod_requests).items() if self._table.only_published(node, name)
        ]
        try:
            return self.with_claims(pod_requests, tuple(claims))
        except Unknown:
            return pod_requests


class _Left(Exception):
    """What is left to the scheduler, and why."""


def _device_claim(spec: Any, classes: Mapping[str, DeviceClass], name: str) -> DeviceClaim:
    if spec is None:
        raise _Left(TOO_LARGE)
    requests = spec.get("requests") or ()
    alternatives = [
        tuple([_request(each, classes) for each in request.get("firstAvailable") or (request.get("exactly"),)])
        for request in requests
    ]
    names = [str(each.get("name")) for each in requests]
    constraints = tuple([_constraint(each, names) for each in spec.get("constraints") or ()])
    return DeviceClaim(tuple(alternatives), constraints, name)


def _constraint(constraint: Mapping[str, Any], requests: list[str]) -> Constraint:
    """`requests`: the names of all requests of the claim."""
    only, distinct = constraint.get("requests") or (), "distinctAttribute" in constraint
    attribute = constraint.get("distinctAttribute" if distinct else "matchAttribute")
    if not attribute or not set(requests).issuperset(only):  # of a kind that is not known, or for single alternatives
        raise _Left("a constraint of its claim is left to the scheduler")
    return Constraint(str(attribute), distinct, frozenset([requests.index(each) for each in only]))


def _request(request: Mapping[str, Any], classes: Mapping[str, DeviceClass]) -> DeviceRequest:
    known = classes.get(request["deviceClassName"])
    if known is None:
        raise _Left("the class of its claim is not known")
    if request.get("derivedAttributes"):
        raise _Left("derived attributes of its claim are left to the scheduler")
    if request.get("adminAccess"):
        raise _Left("admin access of its claim is left to the scheduler")
    tolerations = [found for each in request.get("tolerations") or () if (found := matched(each)) is not None]
    amounts = ((request.get("capacity") or {}).get("requests") or {}).items()
    return DeviceRequest(
        devices=0 if request.get("allocationMode") == "All" else int(request.get("count") or 1),
        selectors=(*known.selectors, *selectors_of(request)),
        amounts=tuple([(each, parse_quantity(amount)) for each, amount in amounts]),
        tolerations=tuple(tolerations),
    )

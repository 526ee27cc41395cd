"""What pods ask for of devices: by their claims, and by extended resources that a DeviceClass stands for.

The scheduler makes a claim for such a resource on nodes whose device plugin does not offer it. It counts as any other claim.

resource.k8s.io/v1. Follows structured/internal/incubating/allocator_incubating.go.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from webhook.cluster.claims import (
    MAX_CLAIMS,
    MAX_SPEC,
    NO_SPEC,
    Claims,
    DeviceClass,
    PodClaims,
    claims_of,
    selectors_of,
)
from webhook.cluster.device_search import Unknown
from webhook.cluster.devices import Constraint, DeviceClaim, DeviceRequest
from webhook.cluster.nodes import Nodes
from webhook.errors import QuantityError
from webhook.kube.claim_requests import ClaimRequest, Selected, claim_requests, kind_of
from webhook.kube.other_gpus import DEVICE_CLASS
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import Demand
from webhook.kube.quantity import parse_quantity
from webhook.kube.taints import matched
from webhook.text import quoted

NO_CLAIM, NO_TEMPLATE = "its claim is not known", "the template of its claim is not known"
TOO_LARGE = "its claims are too large"


class Asked(NamedTuple):
    """The devices that a pod asks for. `reason`: why they are left to the scheduler; "" if they are not."""

    claims: tuple[DeviceClaim, ...] = ()
    terms: tuple[bytes, ...] = ()
    """For each claim that is allocated, the terms of its node selector as JSON, of which a node must match one."""
    reason: str = ""


class DeviceDemands:
    """Finds what pods ask for, by the claims, templates and classes of the cluster."""

    def __init__(
        self, nodes: Nodes, claims: Claims, templates: Mapping[str, bytes], classes: Mapping[str, DeviceClass]
    ) -> None:
        self._nodes, self._claims, self._templates, self._classes = nodes, claims, templates, classes

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
        return self._nodes.devices.selected(selectors)

    def kind(self, resource: str) -> str:
        """The kind, as in `Alternative`, of the devices of the class that a resource stands for; "" if there is no such class."""
        name = self.class_of(resource) if self._classes else ""
        return kind_of(name, self)[0] if name else ""

    def extended(self, demand: Demand) -> dict[str, DeviceClaim]:
        """The claims that the scheduler makes where no device plugin offers a resource, by the name of the resource."""
        found = {}
        for name, amount in demand.requests if self._classes else ():
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

    def told(self, demand: Demand, claims: tuple[DeviceClaim, ...]) -> Demand:
        """The demand of a pod with these claims. Raises Unknown."""
        if not claims:
            return demand
        amounts = self._nodes.devices.asked(claims) or ()
        return Demand(tuple(sorted((*demand.requests, *amounts))), claims)

    def of_pod(self, pod: Pod, demand: Demand, node: str) -> Demand | None:
        """The demand of a pod that goes to a node, with the devices that it asks for and may not have yet. None if its claims are
        not known: the scheduler does not look at it before they are."""
        asked = self.asked(claims_of(pod))
        if asked.reason in (NO_CLAIM, NO_TEMPLATE):
            return None
        claims = [*asked.claims]
        columns, row = self._nodes.columns, self._nodes.row_of.get(node)
        if row is not None and columns.devices[row]:
            for name, claim in self.extended(demand).items():
                if name not in columns.capacity or not columns.capacity[name][row]:
                    claims.append(claim)
        try:
            return self.told(demand, tuple(claims))
        except Unknown:
            return demand


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

"""The devices that a pod asks for one by one, as placement ranks by them.

A pod is ranked as it is written. If a DeviceClass stands for a resource that it requests, it is ranked as the claim that the
scheduler would make too: where no node fits, or a replica that it is kept apart from is on the first one. What cannot be decided
(an expression, an unknown class) is left to the scheduler.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from webhook.devices.search import Unknown
from webhook.devices.table import DeviceTable, States
from webhook.devices.types import PUBLISHED, WHOLE, DeviceClaim
from webhook.framework.cluster_view import Expression, Placement
from webhook.kube.gpus import Gpus
from webhook.kube.pod_requests import PodRequests
from webhook.nodes.table import Floats
from webhook.placement.constraints import Term, terms_of
from webhook.placement.request import NO_GPU, OTHERS_GPUS, PlacementRequest
from webhook.placement.volumes import VolumeTopology
from webhook.state.objects import DEVICE_KINDS
from webhook.state.state import ClusterState

UNDECIDED: Final = np.inf
"""The rank of a node of which it cannot be told whether it has devices for the pod."""
LEFT_ALONE: Final = "which devices it would get cannot be decided"


class Plan(NamedTuple):
    """One way to rank a pod."""

    request: PlacementRequest
    confined: VolumeTopology
    """To which nodes its volumes and its allocated claims confine it."""
    asked: PodRequests
    """What is reserved for it."""


def plans(
    request: PlacementRequest, confined: VolumeTopology, state: ClusterState, gpus: Gpus, *, every_pod: bool
) -> Iterator[Plan | Placement]:
    """The ways to rank a pod, the first that has nodes counts; or why no node is ranked."""
    found, known = state.device_requests, state.freshness.listed.issuperset(DEVICE_KINDS)
    every: tuple[DeviceClaim, ...] = ()
    claims = every
    if request.claims:
        if not known:
            yield Placement((), request.strategy, reason="no claim of devices is known here")
            return
        asked = found.asked(request.claims)
        if asked.reason:
            yield Placement((), request.strategy, reason=asked.reason)
            return
        every = claims = asked.claims
        terms = [terms_of(orjson.loads(each)) for each in asked.terms]
        holders = {claim: state.nodes.devices.holders_of(claim.name) for claim in claims if claim.name}
        terms += [tuple([_at(node) for node in nodes]) for nodes in holders.values() if nodes]
        claims = tuple([claim for claim in claims if not holders.get(claim)])  # the others are placed already
        if terms:
            key = blake2b(repr(terms).encode(), digest_size=16).digest()
            confined = confined._replace(claims=tuple(terms), key=confined.key + key)
    if request.shared:
        if not all([state.nodes.devices.publishes(claim.source) for claim in request.shared]):
            yield Placement((), request.strategy, reason=OTHERS_GPUS)
            return
        every, claims = (*every, *request.shared), (*claims, *request.shared)
    try:
        pod_requests = found.with_claims(request.pod_requests, claims)
        if claims and not (request.shared or every_pod):
            names = [name for name, _ in pod_requests.requests]
            published = any([name.startswith(PUBLISHED) for name in names])
            if not (published or gpus.among(names) or state.nodes.devices.asked(claims) is None):
                yield Placement((), request.strategy, reason=NO_GPU)
                return
        made = found.extended(request.pod_requests) if known and state.nodes.dra else {}
        capacity, devices = state.nodes.columns.capacity, state.nodes.columns.devices
        if all([name in capacity and capacity[name].any() for name in made]):
            yield Plan(_of(request, pod_requests), confined, PodRequests(pod_requests.requests, every))
        if any([claim.published_only for claim in request.shared]):
            yield Placement((), request.strategy, reason=OTHERS_GPUS)
            return
        if any([((capacity[name] > 0) & (devices > 0)).any() for name in made if name in capacity]):
            raise Unknown  # no claim is made for a node whose device plugin offers the resource, whatever devices it has
        if made:
            left = PodRequests(tuple([each for each in request.pod_requests.requests if each[0] not in made]))
            pod_requests = found.with_claims(left, (*claims, *made.values()))
            everything = tuple(sorted({*pod_requests.requests, *request.pod_requests.requests}))
            yield Plan(_of(request, pod_requests), confined, PodRequests(everything, (*every, *made.values())))
    except Unknown:
        yield Placement((), request.strategy, reason=LEFT_ALONE)


def _at(node: str) -> Term:
    return (Expression("metadata.name", "In", (node,), field=True),)


def _of(request: PlacementRequest, pod_requests: PodRequests) -> PlacementRequest:
    if pod_requests is request.pod_requests:
        return request
    key = blake2b(repr(pod_requests).encode(), digest_size=16).digest()
    return request._replace(pod_requests=pod_requests, key=request.key + key)


class Found(NamedTuple):
    """What devices there are for a pod, by row."""

    ranks: Floats
    """Which alternatives are free there: the most wanted ones are 0; -1: none are; UNDECIDED."""
    left: Floats
    """What would stay free of the devices that are not taken whole, in devices."""
    spoiled: Floats
    """See `Fit.spoiled`."""


def found_devices(
    table: DeviceTable, states: States, numbers: NDArray[Any], claims: tuple[DeviceClaim, ...], *, every: bool = False
) -> Found:
    """The devices for these claims on nodes whose states have these `numbers`. Where one is undecided, all are, since the pod is
    left to the scheduler then; but not with `every`."""
    unique, of = np.unique(numbers, return_inverse=True)
    found = np.zeros((3, len(unique)))
    found[0] = -1
    for index, number in enumerate(unique.tolist()):
        try:
            if (fit := table.find(states[number], claims)) is not None:
                found[:, index] = fit.rank, fit.left / WHOLE, fit.spoiled
        except Unknown:
            found[0, index if every else slice(None)] = UNDECIDED
            if not every:
                break
    return Found(*found[:, of])

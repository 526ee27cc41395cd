"""What is free of the devices of each node, as the scheduler counts it, and which nodes have devices for a pod.

It is read from the device table of the webhook, so that `why` and `try` find devices as placement does.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from webhook.devices.claims import Asked
from webhook.devices.layout import Amounts, Layout
from webhook.devices.search import Unknown
from webhook.devices.sources import shared_claims
from webhook.devices.table import State, States
from webhook.devices.types import DRA, WHOLE, DeviceClaim
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import PodRequests
from webhook.placement.constraints import Mask
from webhook.placement.devices import UNDECIDED, found_devices
from webhook.state.state import ClusterState

SIMULATED: Final = "simulated/"
"""Begins the uid of a pod that is tried."""


class Wants(NamedTuple):
    """The devices that a pod needs."""

    claims: tuple[DeviceClaim, ...] = ()
    """Anywhere."""
    extended: Mapping[str, DeviceClaim] = {}
    """By extended resource: where no device plugin offers it."""
    reason: str = ""
    """Why it is not known what it needs; "" if it is."""


class Found(NamedTuple):
    """Rows of nodes."""

    few: Mask
    """No devices are free for the pod."""
    unknown: Mask
    """It cannot be told."""


class FreeDevices:
    """What is free on each node. Reservations of the webhook are free; what pods that are bound will get is not."""

    def __init__(self, state: ClusterState) -> None:
        self._cluster, self._table = state, state.nodes.devices
        self._states = States()
        self._number = np.zeros(state.nodes.columns.rows, np.intp)
        """The number of the state of each row."""
        self._placed: dict[str, int] = {}
        """The rows of claims that pods share."""
        reserved: dict[int, list[DeviceClaim]] = {}
        for row, kind in state.promised():
            reserved.setdefault(row, []).extend(kind.pod_requests.devices)
        for row, node, layout, remaining in self._table.published():
            left = remaining
            if row in reserved:
                held = node.held.copy()
                for claim in reserved[row]:
                    if claim in held:
                        held.remove(claim)
                left = self._after(layout, layout.used(node.all_placed()), [(claim,) for claim in held])
            self._number[row] = self._states.number(layout, left)

    @property
    def published(self) -> Mask:
        """The rows of nodes whose devices are told."""
        return self._number > 0

    def asked(self, pod: Pod, entries: Iterable[tuple[Mapping[str, Any], str | None]]) -> Asked:
        """What these of its claims ask for. One that is not made yet is as its template says."""
        names, namespace = [], pod["metadata"]["namespace"]
        for entry, claim in entries:
            template = entry.get("resourceClaimTemplateName")
            if template and not (claim and self._cluster.claims.get(f"{namespace}/{claim}")):
                names.append(("ResourceClaimTemplate", f"{namespace}/{template}"))
            else:
                names.append(("ResourceClaim", f"{namespace}/{claim}"))
        return self._cluster.device_requests.asked(tuple(names))

    def wants(self, pod: Pod, pod_requests: PodRequests) -> Wants:
        """What a pod needs."""
        asked = self.asked(pod, claim_entries(pod))
        shared = [part for part in shared_claims(pod) if not part.published_only and self._table.publishes(part.source)]
        parts = [part._replace(published_only=True) for part in shared]  # its scheduler knows no other nodes
        extended = self._cluster.device_requests.extended(pod_requests)
        every = (*asked.claims, *parts)
        if self._table.may_roam((*every, *extended.values())):
            return Wants(every, extended, "its devices may be of several nodes")
        return Wants(every, extended, asked.reason)

    def search(self, wants: Wants, alive: Mask) -> Found:
        """Where a pod gets what it needs."""
        found = Found(np.zeros_like(alive), np.full_like(alive, bool(wants.reason)))
        if wants.reason or not (wants.claims or wants.extended):
            return found
        self._table.allow()
        offers = [np.zeros_like(alive), *[self._offered(name, len(alive)) for name in wants.extended]]
        _, first, kind = np.unique(np.stack(offers), axis=1, return_index=True, return_inverse=True)
        for index, row in enumerate(first.tolist()):
            if claims := self._claims(wants, row):
                of = kind.ravel() == index
                ranks = found_devices(self._table, self._states, self._number[of], claims, every=True).ranks
                found.few[of], found.unknown[of] = ranks < 0, ranks == UNDECIDED
        for claim in wants.claims:
            if claim.name in self._placed:  # the node of a claim that has its devices
                found.few[np.arange(len(alive)) != self._placed[claim.name]] = True
        return found

    def most(self, claim: Callable[[int], DeviceClaim], enough: int, rows: Mask, *, free: bool) -> int:
        """How many devices a claim for a number of them could have on one of these nodes, of those that are free or of all."""
        found = 0
        for layout, left in self._at(rows):
            with suppress(Unknown):
                while found < enough and self._look(layout, left if free else layout.totals, (claim(found + 1),)):
                    found += 1
        return found

    def holders(self, rows: Mask) -> list[tuple[str, str]]:
        """Namespace and name of the claims that have devices of these nodes."""
        published = [node for row, node, _, _ in self._table.published() if rows[row]]
        every = [str(holder).partition("/") for node in published for source, holder in node.uses if source == DRA]
        return [(namespace, name) for namespace, _, name in every]

    def taints(self, rows: Mask) -> list[str]:
        """The keys of the taints of devices of these nodes."""
        return sorted({taint.key for layout, _ in self._at(rows) for slot in layout.slots for taint in slot.taints})

    def _at(self, rows: Mask) -> list[State]:
        """The states of these nodes."""
        return [state for number in np.unique(self._number[rows]).tolist() if (state := self._states[number])]

    def _look(self, layout: Layout, left: Amounts, claims: tuple[DeviceClaim, ...]) -> Amounts | None:
        """What is left with them; None if there are no devices for them. Raises Unknown."""
        self._table.allow()
        fit = self._table.look(layout, left, claims)
        return None if fit is None else fit.remaining

    def _offered(self, resource: str, rows: int) -> Mask:
        capacity = self._cluster.nodes.columns.capacity.get(resource)
        offered: Mask = np.zeros(rows, bool) if capacity is None else capacity[:rows] > 0
        return offered

    def _claims(self, wants: Wants, row: int) -> tuple[DeviceClaim, ...]:
        """The claims that need devices on this node."""
        capacity = self._cluster.nodes.columns.capacity
        made = [c for name, c in wants.extended.items() if name not in capacity or not capacity[name][row]]
        return (*[claim for claim in wants.claims if claim.name not in self._placed], *made)

    def bind(self, wants: Wants, row: int) -> None:
        """A pod that needs these is bound to a node. What cannot be told changes nothing."""
        claims, state = self._claims(wants, row), self._states[int(self._number[row])]
        if state is not None and claims:
            layout, left = state
            self._number[row] = self._states.number(layout, self._after(layout, left, [claims]))
        self._placed |= {claim.name: row for claim in wants.claims if claim.name}

    def __copy__(self) -> "FreeDevices":
        made = object.__new__(FreeDevices)
        made.__dict__ |= self.__dict__
        made._number, made._placed = self._number.copy(), self._placed.copy()
        return made

    def release(self, row: int, holders: Collection[tuple[str, Hashable]]) -> None:
        """These pods and claims give back what they have of the devices of a node."""
        for at, node, layout, _ in self._table.published():
            if at == row:
                uses = [each for of, has in node.uses.items() if of not in holders for each in node.placed(of[0], has)]
                self._number[row] = self._states.number(layout, layout.used(uses))

    def gpus(self, row: int) -> dict[str, tuple[float, float]]:
        """How many GPUs of each driver a node has, and how many are free."""
        if (state := self._states[self._number[row]]) is None:
            return {}
        layout, left = state
        return {of: (layout.free(of, layout.totals) / WHOLE, layout.free(of, left) / WHOLE) for of in layout.drivers}

    def each(self, source: str) -> dict[int, dict[str, float]]:
        """What is free of each device of a source that pods share, by row and name: a part of it."""
        found = {}
        for row, node, *_ in self._table.published():
            if (state := self._states[self._number[row]]) is None:
                continue
            layout, left = state
            slots = {name: layout.slots[number] for (of, name), number in node.slots.items() if of == source}
            if slots:
                found[row] = {
                    name: float(min([left[b] / (total or 1) for _, b, total, _ in slot.parts]))
                    for name, slot in slots.items()
                }
        return found

    def _after(self, layout: Layout, left: Amounts, together: Iterable[tuple[DeviceClaim, ...]]) -> Amounts:
        """What is left once these claims have devices, those of a pod together, as far as there are any."""
        for claims in together:
            with suppress(Unknown):
                left = self._look(layout, left, claims) or left
        return left


def claim_entries(pod: Pod) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Each entry of spec.resourceClaims with the name of its claim; None if the claim does not exist yet."""
    claim_names = {
        status["name"]: status.get("resourceClaimName") for status in pod["status"].get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        if entry["name"] in claim_names and claim_names[entry["name"]] is None:
            continue  # its template makes no claim
        yield entry, entry.get("resourceClaimName") or claim_names.get(entry["name"])


def is_simulated(pod: Pod) -> bool:
    """Whether the pod is one that is tried: nobody has made its claims."""
    return str(pod["metadata"].get("uid")).startswith(SIMULATED)


def again(pod: Pod) -> Pod:
    """The pod as it will be if it is created again."""
    metadata = {**pod["metadata"], "uid": f"{SIMULATED}{pod['metadata'].get('uid')}"}
    return {**pod, "metadata": metadata, "status": {"phase": "Pending"}}

"""The GPUs that pods have, and those that they ask for: of a device plugin by resource, devices by driver.

As `webhook.state.gpu_amounts` counts them. A claim that pods share counts for each of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.devices.claims import claims_of, made_for
from webhook.devices.search import Unknown
from webhook.devices.source_kai import reserved_group
from webhook.devices.sources import SOURCES
from webhook.devices.types import DRA, PUBLISHED, WHOLE, DeviceClaim
from webhook.kube.other_gpus import is_gpu_driver
from webhook.kube.pod import Pod, pod_id
from webhook.kube.pod_requests import counted_requests
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_amounts, gpu_number, parts
from webhook.whatif.cluster.snapshot import Snapshot

Counts = dict[str, int | float]
"""Numbers of GPUs by resource or driver."""


class PodGpus:
    """The GPUs of the pods of one snapshot."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self._state, self._gpus, self._blind = snapshot.state, policy.gpus, "Node" in snapshot.missing
        self.amounts = gpu_amounts(snapshot.state, policy.gpus, claims_known="Pod" not in snapshot.missing)
        self._parts = {(part.source, part.holder): part.gpus for part in parts(snapshot.state)}
        self._claims: dict[str, list[str]] = {}
        """The claims that are reserved for a pod, by its uid."""
        self._users: dict[str, int] = {}
        """The number of pods for which a claim is reserved."""
        for claim in snapshot.of("ResourceClaim") if self._parts else ():
            name = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            users = claim["status"].get("reservedFor") or ()
            self._users[name] = len(users)
            for user in users:
                self._claims.setdefault(str(user.get("uid")), []).append(name)

    def of(self, pod: Pod) -> Counts:
        """What a bound pod has. Where nodes are not known, what it asked for as a resource."""
        if self._blind:
            return {name: n for name, n in counted_requests(pod).requests if self._gpus.kind(name) is not None}
        found: Counts = {}
        row = None if reserved_group(pod) else self._state.nodes.row_of.get(pod["spec"].get("nodeName") or "")
        for name, amount in counted_requests(pod).requests if row is not None else ():
            if name in self.amounts and self.amounts[name].allocated[row]:
                found[name] = amount
        for source, holder in self.holders(pod):
            _add(found, self._parts.get((source, holder), {}))
        return found

    def shared(self, pod: Pod) -> dict[str, Counts]:
        """What it has together with others, by namespace and name of the claim."""
        return {
            str(holder): {driver: gpu_number(amount) for driver, amount in self._parts[source, holder].items()}
            for source, holder in self.holders(pod)
            if self._users.get(str(holder), 0) > 1 and (source, holder) in self._parts
        }

    def asked(self, pod: Pod, namespace: str = "") -> Counts:
        """What a pod asks for, which may name no namespace itself. Where it is not known of which driver the GPUs of a claim will
        be, they are called devices."""
        if pod["spec"].get("nodeName"):
            return self.of(pod)
        pod_requests, shared = (
            counted_requests(pod),
            [claim for source in SOURCES if (claim := source.claim(pod)) is not None],
        )
        shared = [claim for claim in shared if self._state.nodes.devices.publishes(claim.source)]
        slots = {source.resource for source in SOURCES for claim in shared if claim.source == source.name}
        found: Counts = {
            name: amount
            for name, amount in pod_requests.requests
            if self._gpus.kind(name) is not None and name not in slots
        }
        _add(found, self._of_claims(self._state.device_requests.asked(claims_of(pod, namespace)).claims))
        for claim in shared:
            _add(found, self._of_parts(claim))
        return found

    def _of_claims(self, claims: tuple[DeviceClaim, ...]) -> Mapping[str, float]:
        """How many GPUs claims of DRA ask for."""
        try:
            known = self._state.nodes.devices.asked(claims) if claims else ()
        except Unknown:
            known = None
        if known is not None:
            return {name.removeprefix(PUBLISHED): amount / WHOLE for name, amount in known}
        first = [alternatives[0] for claim in claims for alternatives in claim.requests]
        asked = sum([max(1, each.devices) for each in first if any(map(is_gpu_driver, each.selectors))])
        return {"devices": asked} if asked else {}

    def _of_parts(self, claim: DeviceClaim) -> Mapping[str, float]:
        """How much of a GPU a claim takes, as counted on the first node that is large enough."""
        table = self._state.nodes.devices
        table.allow()
        for layout in table.layouts:
            if claim.source in layout.gpus and (fit := table.look(layout, layout.totals, (claim,))) is not None:
                return {driver: amount / WHOLE for driver, amount in layout.given(fit.remaining).items()}
        return {claim.source: sum([alternatives[0].devices for alternatives in claim.requests])}

    def holders(self, pod: Pod) -> Iterator[tuple[str, Any]]:
        """The claims of a pod, and the pod itself, as the device table names who has devices: with their source."""
        if not self._parts:
            return
        metadata = pod["metadata"]
        for claim in dict.fromkeys([*made_for(pod), *self._claims.get(str(metadata.get("uid")), ())]):
            yield DRA, claim
        for source in SOURCES:
            yield source.name, pod_id(metadata)


def _add(to: Counts, more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        to[name] = gpu_number(to.get(name, 0) + amount)

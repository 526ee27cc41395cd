"""The decision about one request, as plain values that are not yet encoded for the API server."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from webhook.framework.cluster_view import Placement
from webhook.framework.interface import Finding, Outcome
from webhook.kube.asked import AskedPod

Result = Literal["ignored", "patched", "unchanged", "allowed", "denied", "dryRun"]
"""`ignored`: the request is not decided by us. `dryRun`: the object would be refused or changed if the profile were not in
dry run."""


class UnitFinding(NamedTuple):
    """A finding, with the unit that yielded it and the action."""

    unit: str
    action: str
    """`deny`; `warn`; or `foretold`: the workload is allowed, but its pods will be refused."""
    finding: Finding


class Decision(NamedTuple):
    """What is answered and recorded and, if a node was chosen, what is reserved."""

    result: Result
    profile: str = ""
    workload: str = ""
    """The class of workload of the pod."""
    policy: str = ""
    """The hash of the policy that decided."""
    patch: bytes | None = None
    """A JSON Patch; None if the object stays as it is."""
    message: str = ""
    """The reason of a refusal, for the user; "" if the request is allowed."""
    warnings: tuple[str, ...] = ()
    """Warnings that do not come from findings."""
    record: str = ""
    """The decision record as JSON: see `admission.record`."""
    outcomes: Mapping[str, Outcome] = MappingProxyType({})
    findings: tuple[UnitFinding, ...] = ()
    placement: Placement | None = None
    reservation: AskedPod | None = None
    """The pod to reserve the first node of `placement` for; None if this call wrote no term for it."""
    unknown_profile: bool = False
    """The namespace's label names a profile that the policy does not have."""
    quiet: bool = False
    """The client gets no warnings, since the profile is in dry run."""
    would: str = ""
    """Under a profile in dry run: what would be changed in the pod, as the end of a sentence; "" if nothing."""


IGNORED = Decision("ignored")

"""What was decided for one request: plain values, nothing encoded for the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from webhook.admission.earlier import Outgrown
from webhook.cluster.pods import ReservationRequest
from webhook.framework.cluster_view import Placement
from webhook.framework.interface import Finding, Outcome

Result = Literal["ignored", "patched", "unchanged", "allowed", "denied", "shadow", "gated"]
"""`ignored`: not for us to decide. `shadow`: would be refused or changed if the profile were not in shadow. `gated`: our own
patch does not apply, so the pod is allowed without it."""


class UnitFinding(NamedTuple):
    """A finding, the unit that yielded it, and what is done about it."""

    unit: str
    action: str
    """`deny`, `warn`, or `foretold`: the pods of this workload will be refused."""
    finding: Finding


@dataclass(frozen=True, slots=True)
class Decision:
    """What is answered, recorded and, where a node was chosen, reserved."""

    result: Result
    profile: str = ""
    workload: str = ""
    """The class of the pod's workload."""
    policy: str = ""
    """The hash of the policy that decided."""
    patch: bytes | None = None
    """A JSON Patch; None where the pod is left as it is."""
    message: str = ""
    """Why it is refused, for the user; "" where it is not."""
    warnings: tuple[str, ...] = ()
    """Warnings besides those of findings."""
    record: str = ""
    """The decision record: see `admission.record`."""
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    findings: tuple[UnitFinding, ...] = ()
    placement: Placement | None = None
    reservation: ReservationRequest | None = None
    """What is to be reserved on the first node of `placement`; None where this call chose none."""
    gang: tuple[str, int] | None = None
    """A workload that is created, as `cluster.jobs.workload_key` names it, and how many pods with GPUs it is to have."""
    outgrown: Outgrown | None = None
    """What an earlier call chose for the pod when it was smaller, and has reserved."""
    unknown_profile: bool = False
    quiet: bool = False
    """The profile is in shadow: nothing is said to the client."""


IGNORED = Decision("ignored")

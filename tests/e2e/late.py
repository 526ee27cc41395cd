"""What the webhook's process runs before it starts, by `Installed(before=...)`: it hears of pods late, or waits for longer."""

import asyncio
from typing import Any

from webhook.nodes.ledger import Ledger
from webhook.server import http
from webhook.state.state import ClusterState

PATIENT = "from tests.e2e.late import be_patient; be_patient()"


def be_patient() -> None:
    """A busy machine decides nothing: reviews wait for Jobs that are on their way and for their turn, and reservations last, for
    as long as that may take there."""
    http.EARLY_SECONDS, http.LATE_SECONDS, Ledger.unseen_ttl = 20.0, 20.0, 300.0  # type: ignore[misc]


def delay_pods(seconds: float) -> None:
    """Each event of a pod reaches the state so many seconds late, in the same order."""
    be_patient()
    seen, forget = ClusterState.seen, ClusterState.forget

    def late_seen(state: ClusterState, kind: Any, obj: dict[str, Any], now: float) -> None:
        if kind == "pods":
            asyncio.get_running_loop().call_later(seconds, seen, state, kind, obj, now + seconds)
        else:
            seen(state, kind, obj, now)

    def late_forget(state: ClusterState, kind: Any, key: Any) -> None:
        if kind == "pods":
            asyncio.get_running_loop().call_later(seconds, forget, state, kind, key)
        else:
            forget(state, kind, key)

    ClusterState.seen, ClusterState.forget = late_seen, late_forget  # type: ignore[method-assign]

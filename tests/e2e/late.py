"""Delays what the webhook learns of pods: run in its process before it starts, by `Installed(before=...)`."""

import asyncio
from typing import Any

from webhook.nodes.ledger import Ledger
from webhook.state.state import ClusterState


def delay_pods(seconds: float) -> None:
    """Each event of a pod reaches the state so many seconds late, in the same order. Reservations last for as long as the
    burst may take on a busy machine."""
    Ledger.unseen_ttl = 300.0
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

"""Writes Events on objects of tenants: few, each once, and never in the way of a review.

Events wait here, in bounded space, for a task that writes them. Replicas share nothing: an Event has the same
name whoever writes it, so one that exists is not made again (409), and one that repeats is counted up.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from webhook.admission.context import PROFILE_LABEL
from webhook.admission.decision import Decision
from webhook.admission.events import Event, Involved, bound_elsewhere, refused
from webhook.cluster.state import ClusterState
from webhook.errors import ApiError
from webhook.feeds.api import Api, Object
from webhook.kube.review import Request
from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

MAX_WAITING: Final = 256
MAX_WAITING_OF_NAMESPACE: Final = 32
GATHER_SECONDS: Final = 1.0
"""How long an Event waits for its repetitions: a controller tries several times in the first second."""
TURN_SECONDS: Final = 0.1
BURST, EVERY_SECONDS = 50, 0.5
NAMESPACE_BURST, NAMESPACE_EVERY_SECONDS = 20, 10.0
"""So many at once, then one in so many seconds: in all, and in one namespace. An API server keeps an Event for an hour: one
namespace has 380 of ours at most, of 6 kB at most."""
_TRIES: Final = 3
"""To count up what another replica counts up at the same time."""
_MAX_NAME_LENGTH: Final = 200
_MAX_COUNT: Final = 2**31 - 1


class Allowance:
    """`burst` at once, then one in `seconds`."""

    __slots__ = ("_at", "_burst", "_left", "_seconds")

    def __init__(self, burst: int, seconds: float, now: float) -> None:
        self._burst, self._seconds, self._left, self._at = burst, seconds, float(burst), now

    def left(self, now: float) -> float:
        self._left, self._at = min(self._burst, self._left + (now - self._at) / self._seconds), now
        return self._left

    def take(self) -> None:
        self._left -= 1

    def whole(self, now: float) -> bool:
        return self.left(now) >= self._burst


class _Waiting:
    __slots__ = ("count", "due", "event", "first")

    def __init__(self, event: Event, due: float, first: datetime) -> None:
        self.event, self.due, self.first, self.count = event, due, first, 0


class Events:
    """`refused` and `bound` never await and never raise. `clock` gives monotonic seconds, `today` the time of day."""

    def __init__(
        self,
        state: ClusterState,
        metrics: Metrics,
        log: Logger,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._state, self._metrics, self._log, self._clock, self._today = state, metrics, log, clock, today
        self._waiting: dict[tuple[Involved, str], _Waiting] = {}
        self._allowances: dict[str, Allowance] = {}
        """By namespace; one that has its whole allowance is forgotten."""
        self._all = Allowance(BURST, EVERY_SECONDS, clock())
        self._failing = False

    def refused(self, request: Request, decision: Decision) -> None:
        """A pod was refused."""
        self._note(lambda: refused(request, decision))

    def bound(self, pod: Object) -> None:
        """A pod was bound."""
        self._note(lambda: bound_elsewhere(pod, self._state))

    def _note(self, make: Callable[[], Event | None]) -> None:
        try:
            event = make()
        except Exception as error:  # by what a tenant wrote; an Event is no reason to fail a review
            self._count("failed")
            self._log.error("event not made", **cause(error))
            return
        if event is None or PROFILE_LABEL not in self._state.namespaces.get(event.involved.namespace, ()):
            return
        key = (event.involved, event.reason)
        if key not in self._waiting:
            namespace = event.involved.namespace
            waiting_of_namespace = sum([involved.namespace == namespace for involved, _ in self._waiting])
            if len(self._waiting) >= MAX_WAITING or waiting_of_namespace >= MAX_WAITING_OF_NAMESPACE:
                self._count("dropped")
                return
            self._waiting[key] = _Waiting(event, self._clock() + GATHER_SECONDS, self._today())
        waiting = self._waiting[key]
        waiting.event = event
        waiting.count += 1

    async def run(self, api: Api) -> None:
        """Write what waits. For ever."""
        while True:
            if not await self.turn(api):
                await asyncio.sleep(TURN_SECONDS)

    async def turn(self, api: Api) -> bool:
        """Write one that is due. False where none is. One that cannot be written is given up, and counted."""
        waiting = self._next(self._clock())
        if waiting is None:
            return False
        try:
            await self._write(api, waiting)
        except ApiError as error:
            self._count("failed")
            if not self._failing:  # once for each outage
                self._failing = True
                self._log.warning("event not written", why=str(error))
        else:
            self._count("written")
            self._failing = False
        return True

    def _next(self, now: float) -> _Waiting | None:
        if not self._waiting or self._all.left(now) < 1:
            return None
        for key, waiting in self._waiting.items():
            namespace = key[0].namespace
            allowance = self._allowances.get(namespace) or Allowance(NAMESPACE_BURST, NAMESPACE_EVERY_SECONDS, now)
            if waiting.due <= now and allowance.left(now) >= 1:
                self._allowances = {name: other for name, other in self._allowances.items() if not other.whole(now)}
                self._allowances[namespace] = allowance
                allowance.take()
                self._all.take()
                return self._waiting.pop(key)
        return None

    async def _write(self, api: Api, waiting: _Waiting) -> None:
        event, now = waiting.event, self._today()
        involved = event.involved
        about = {
            "apiVersion": involved.api_version,
            "kind": involved.kind,
            "namespace": involved.namespace,
            "name": involved.name,
            "uid": involved.uid,
        }
        identity = f"{involved} {event.reason}"
        obj = event_object(about, identity, event.type, event.reason, event.message, now)
        obj |= {"count": waiting.count, "firstTimestamp": _stamp(waiting.first)}
        path = f"/api/v1/namespaces/{involved.namespace}/events"
        try:
            await api.post(path, obj)
        except ApiError as error:
            if error.status != 409:
                raise
            if event.repeats:
                await _count_up(api, f"{path}/{obj['metadata']['name']}", obj)

    def _count(self, result: str) -> None:
        self._metrics.events.labels(result).inc()


async def _count_up(api: Api, path: str, obj: Object) -> None:
    """The Event exists. `count` of it rises by that of `obj`, though another replica may do the same: without the right to read
    it, an answer to a patch says what it is."""
    for attempt in range(_TRIES):
        event = await api.patch(path, {key: obj[key] for key in ("message", "lastTimestamp")})
        count, version = event.get("count"), event["metadata"].get("resourceVersion")
        count = min(_MAX_COUNT, (count if isinstance(count, int) else 0) + obj["count"])
        try:
            await api.patch(path, {"metadata": {"resourceVersion": version}, "count": count})
        except ApiError as error:
            if error.status != 409 or attempt == _TRIES - 1:
                raise
        else:
            return


def event_object(
    involved: Mapping[str, Any], identity: str, type_: str, reason: str, message: str, now: datetime
) -> Object:
    """An Event of core/v1 on an object, which may be gone. Its name follows from the object's and from `identity`."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    name = involved["name"][:_MAX_NAME_LENGTH].rstrip("-.")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": involved["namespace"], "name": f"{name}.{digest}"},
        "involvedObject": dict(involved),
        "type": type_,
        "reason": reason,
        "message": message,
        "source": {"component": "gpu-admission"},
        "firstTimestamp": _stamp(now),
        "lastTimestamp": _stamp(now),
        "count": 1,
    }


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"

"""Writes Events on objects of tenants: few of them, each once, and without delaying reviews.

Events wait in a bounded queue for a task that writes them. All replicas give an Event the same name. If another replica has
created it already (409), a repeated Event gets a higher count, and any other is not written again.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from webhook.admission.decision import Decision
from webhook.admission.events import Event, Involved, bound_elsewhere, refused
from webhook.errors import ApiError
from webhook.feeds.api import Api, Object
from webhook.feeds.tasks import TokenBucket
from webhook.kube.pod import PROFILE_LABEL
from webhook.kube.review import Request
from webhook.state.state import ClusterState
from webhook.telemetry.logs import Logger, cause
from webhook.telemetry.metrics import Metrics

MAX_WAITING: Final = 256
MAX_WAITING_OF_NAMESPACE: Final = 32
GATHER_SECONDS: Final = 1.0
"""Time that an Event waits for its repetitions. A controller tries several times in the first second."""
TURN_SECONDS: Final = 0.1
BURST, EVERY_SECONDS = 50, 0.5
"""Number of Events that may be written at once; after that, one in EVERY_SECONDS."""
NAMESPACE_BURST, NAMESPACE_EVERY_SECONDS = 20, 10.0
"""The same for one namespace. An API server keeps an Event for an hour, so a namespace has at most 380, of up to 6 kB each."""
_TRIES: Final = 3
"""Attempts to raise a count that another replica raises at the same time."""
_MAX_NAME_LENGTH: Final = 200
_MAX_COUNT: Final = 2**31 - 1


@dataclass(slots=True)
class _Waiting:
    """An Event that waits: when to write it, when it was first queued, and how often."""

    event: Event
    due: float
    first: datetime
    count: int = 0


class Events:
    """The queue of Events. `refused` and `bound` never await and never raise.

    `clock`: monotonic seconds. `today`: the current date and time.
    """

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
        self._buckets: dict[str, TokenBucket] = {}
        """One bucket per namespace. Full ones are removed."""
        self._all = TokenBucket(BURST, EVERY_SECONDS, clock())
        self._failing = False

    def refused(self, request: Request, decision: Decision) -> None:
        """Queue the Event for a pod that is refused, or that a profile in dry run would refuse or change."""
        self._add(lambda: refused(request, decision))

    def bound(self, pod: Object) -> None:
        """Queue the Event for a bound pod, if its node is not the first choice."""
        self._add(lambda: bound_elsewhere(pod, self._state))

    def _add(self, make: Callable[[], Event | None]) -> None:
        try:
            event = make()
        except Exception as error:  # it depends on text of tenants, and must not fail a review
            self._count("failed")
            self._log.error("event not made", **cause(error))
            return
        if event is None or PROFILE_LABEL not in self._state.namespaces.get(event.involved.namespace, ()):
            return
        key = (event.involved, event.reason)
        if key not in self._waiting:
            if not self._has_place(event.involved.namespace):
                self._count("dropped")
                return
            self._waiting[key] = _Waiting(event, self._clock() + GATHER_SECONDS, self._today())
        waiting = self._waiting[key]
        waiting.event = event
        waiting.count += 1

    def _has_place(self, namespace: str) -> bool:
        """Whether one more Event of a namespace may wait. If the queue is full, the namespace with most loses its newest."""
        waiting = Counter([involved.namespace for involved, _ in self._waiting])
        if waiting[namespace] >= MAX_WAITING_OF_NAMESPACE:
            return False
        if len(self._waiting) < MAX_WAITING:
            return True
        (most, count), *_ = waiting.most_common(1)
        if count <= waiting[namespace] + 1:
            return False
        del self._waiting[next(key for key in reversed(self._waiting) if key[0].namespace == most)]
        self._count("dropped")
        return True

    async def run(self, api: Api) -> None:
        """Write the waiting Events. Never returns."""
        while True:
            if not await self.turn(api):
                await asyncio.sleep(TURN_SECONDS)

    async def turn(self, api: Api) -> bool:
        """Write one Event that is due. False if there is none. If it cannot be written, it is counted and dropped."""
        waiting = self._next(self._clock())
        if waiting is None:
            return False
        try:
            await self._write(api, waiting)
        except ApiError as error:
            self._count("failed")
            if not self._failing:  # one line per outage
                self._failing = True
                self._log.warning("event not written", why=str(error))
        else:
            self._count("written")
            self._failing = False
        return True

    def _next(self, now: float) -> _Waiting | None:
        """The next Event to write: of the namespace that had fewest Events written lately, its oldest."""
        due = [key for key, waiting in self._waiting.items() if waiting.due <= now]
        if not due or self._all.tokens(now) < 1:
            return None
        full = TokenBucket(NAMESPACE_BURST, NAMESPACE_EVERY_SECONDS, now)
        key = max(due, key=lambda key: self._buckets.get(key[0].namespace, full).tokens(now))
        bucket = self._buckets.get(key[0].namespace, full)
        if bucket.tokens(now) < 1:
            return None
        self._buckets = {name: other for name, other in self._buckets.items() if not other.is_full(now)}
        self._buckets[key[0].namespace] = bucket
        bucket.take()
        self._all.take()
        return self._waiting.pop(key)

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
    """Raise the count of an existing Event by that of `obj`. Another replica may do the same at the same time.

    A first patch returns the Event, because the webhook has no permission to read Events.
    """
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
    """An Event of core/v1 on an object, which may be deleted. Its name depends on the name of the object and on `identity`."""
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

"""Builds the long-lived objects of one server. `app` starts and stops them."""

import asyncio
import math
import os
import time
from datetime import UTC, datetime
from typing import Final

from webhook.admission.decision import Decision
from webhook.errors import BadInput, BadReview
from webhook.feeds.certificates import read
from webhook.feeds.events import Events
from webhook.feeds.policy import CurrentPolicy
from webhook.feeds.watch import Watches
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.written_for import PROGRAM
from webhook.server import gpu_gauges
from webhook.server.handlers import Handlers
from webhook.server.http import Edge, ops
from webhook.server.listener import Listener
from webhook.server.load import Turns
from webhook.server.settings import ServeSettings
from webhook.state.objects import REQUIRED
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.logs import fields
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.refused import Refused
from webhook.tls.serve import LiveContext

STOP_SECONDS: Final = 2.0
"""Time for requests in progress at shutdown."""
MAX_OPS_CONNECTIONS: Final = 64
"""Maximum number of connections to the port of probes and metrics."""
MAX_DECISION_LINES: Final = 2000
"""Maximum number of decisions logged per second: twice what an API server on two cores can ask for."""
MAX_BAD_REVIEW_LINES: Final = 10
"""Maximum number of log lines per second about bad reviews. No API server sends one."""


class Recorder:
    """Counts each decision, logs it unless the request was ignored, and reports it as an Event if `events` is given: a refusal,
    or what a profile in dry run would do. `refused` counts refusals by namespace."""

    def __init__(
        self, metrics: Metrics, log: logs.Logger, events: Events | None = None, refused: Refused | None = None
    ) -> None:
        self._metrics = metrics
        self._refused = refused
        self._log = log
        self._events = events
        self._decisions = logs.LineLimit(log, "decisions", MAX_DECISION_LINES)
        self._bad_reviews = logs.LineLimit(log, "bad reviews", MAX_BAD_REVIEW_LINES)

    def decided(self, hook: str, request: Request, decision: Decision, seconds: float) -> None:
        self._metrics.decided(hook, decision, seconds)
        if self._refused is not None and decision.result == "denied":
            self._refused.add(request.namespace)
        if decision.result != "ignored" and self._decisions.allowed():
            self._log.info(decision.result, **fields(hook, request, decision, seconds))
        if self._events is not None and (decision.result == "denied" or (decision.quiet and hook == "validate")):
            self._events.refused(request, decision)

    def bad_review(self, hook: str, error: BadReview) -> None:
        if self._bad_reviews.allowed():
            self._log.warning("bad review", hook=hook, why=str(error))


class Process:
    """The long-lived objects of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        offline = settings.cluster is not None
        self.settings = settings
        self.metrics = Metrics()
        self.log = logs.configure()
        self.policies = CurrentPolicy(self.metrics, self.log)
        max_age = math.inf if offline else settings.max_age
        self.state = ClusterState(
            max_age=max_age, trusted=settings.authenticated, sibling=settings.replica, namespace=settings.namespace
        )
        self.watches = Watches((*REQUIRED, "policy"), max_age, time.monotonic)
        self.placer = Placer(self.state)
        self.live = LiveContext(read(settings.client_ca, "--client-ca") if settings.client_ca else None)
        self.events = Events(self.state, self.metrics, self.log) if settings.events and not offline else None
        self.refused = Refused(self.state.namespaces)
        recorder = Recorder(self.metrics, self.log, self.events, self.refused)
        handlers = Handlers(self.policies, self.state, self.placer, recorder, time.monotonic)
        routes = {"/mutate": handlers.mutate, "/validate": handlers.validate}
        turns = Turns()
        self.edge = Edge(routes, self.metrics, self.log, turns)
        self.listener = Listener(
            self.edge.handle,
            self.metrics,
            turns,
            self.live.context,
            authenticated=settings.authenticated,
        )
        probes = ops(self.metrics, self.missing, lambda: self.policies.remark)
        self.ops_listener = Listener(probes, self.metrics, turns, limit=MAX_OPS_CONNECTIONS)
        self._add_gauges()

    def missing(self) -> list[str]:
        """The reasons why the server is not ready; empty if it is."""
        missing = [f"{kind} were not listed yet" for kind in REQUIRED if kind not in self.state.freshness.listed]
        for name in self.watches.stuck():
            missing.append(f"the watch of {name} is silent, although the API server answers")
        if self.policies.current is None:
            missing.append(f"there is no policy: {self.policies.error}")
        if self.live.seconds_left(datetime.now(UTC)) <= 0:
            missing.append("there is no valid certificate")
        if self.edge.draining:
            missing.append("terminating")
        return missing

    def _add_gauges(self) -> None:
        """Add the metrics that are read from the state of the server."""
        metrics, state = self.metrics, self.state
        metrics.gauges(
            "feed_age_seconds",
            "Seconds since each watch last heard of the API server.",
            "feed",
            lambda: {kind: time.monotonic() - at for kind, at in state.freshness.heard_at.items()},
        )
        metrics.gauge("cluster_fresh", "1 if nodes may be chosen.", lambda: float(state.fresh(time.monotonic())))
        metrics.gauges(
            "reservations",
            "Pods with reserved resources: reserved (not seen yet) or seen.",
            "state",
            lambda: dict(state.ledger.counts._asdict()),
        )
        bound = "Bound pods with a reservation: on the first ranked node, on another ranked one, or elsewhere."
        metrics.counters("choices", bound, "outcome", lambda: state.ledger.honoured)
        refused = "Refused objects, by the namespace that has opted in."
        metrics.counters("refusals", refused, "namespace", self.refused.counts)
        declined = "Reservations not made: too many of one namespace wait for their pods to be seen."
        metrics.counters("reservations_declined", declined, "reason", lambda: {"unseen": state.ledger.parts.declined})
        metrics.counters(
            "reservations_ended",
            "How reservations ended: bound, gone, expired, unschedulable, or left for another node.",
            "end",
            lambda: state.ledger.ended,
        )
        left = "Seconds until the certificate that is served ends."
        metrics.gauge("certificate_seconds_left", left, lambda: self.live.seconds_left(datetime.now(UTC)))
        lifetime = "Lifetime of the certificate that is served."
        metrics.gauge("certificate_lifetime_seconds", lifetime, lambda: self.live.lifetime)
        metrics.gauges("build_info", "The version of the program.", "version", lambda: {PROGRAM: 1})
        served = "The certificate that is served, by its SHA-256."
        metrics.gauges("certificate_info", served, "sha256", lambda: {self.live.fingerprint: 1})
        gpu_gauges.add(metrics, state, lambda: self.policies.current)
        metrics.gauge("connections", "Open connections of API servers.", lambda: len(self.listener.open))

    async def listen(self) -> dict[str, int]:
        """Open both ports. Returns their numbers. Raises BadInput if one cannot be opened."""
        settings = self.settings
        return {
            "port": await self._listen(self.listener, settings.port, "--port"),
            "opsPort": await self._listen(self.ops_listener, settings.ops_port, "--ops-port"),
        }

    async def _listen(self, listener: Listener, port: int, option: str) -> int:
        try:
            return await listener.start(self.settings.host, port)
        except OSError as error:
            address = f"{self.settings.host}:{port}"
            reason = os.strerror(error.errno or 0)
            raise BadInput(f"cannot listen on {address}: {reason}. Give another {option}") from None

    async def stop(self, drain: float) -> None:
        """Stop being ready, answer for `drain` more seconds, then close all connections."""
        self.edge.draining = True
        self.log.info("terminating", drain=drain, connections=len(self.listener.open))
        await asyncio.sleep(drain)
        await asyncio.gather(self.listener.stop(STOP_SECONDS), self.ops_listener.stop(STOP_SECONDS))

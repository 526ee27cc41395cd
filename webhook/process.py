"""The long-lived objects of one server: built and wired here, started and stopped by `app`."""

from __future__ import annotations

import asyncio
import math
import os
import time
from datetime import UTC, datetime
from typing import Final

from webhook import logs
from webhook.cluster.state import REQUIRED, ClusterState
from webhook.decision import Decision
from webhook.errors import BadInput, BadReview
from webhook.feeds.certificates import read
from webhook.feeds.policy import PolicyHolder
from webhook.handlers import Handlers
from webhook.lines import Told, line
from webhook.listen import Listener
from webhook.metrics import Metrics
from webhook.placement import Placer
from webhook.review import Request
from webhook.server import Edge, ops
from webhook.settings import ServeSettings
from webhook.tls.serve import LiveContext
from webhook.warmup import warm_up

STOP_SECONDS: Final = 2.0
"""For requests that are under way when we close."""


_WAIT: Final = 0.05
"""Seconds. A crash loses the lines of the decisions since; a write for each of them would take a tenth of all our time."""
_MOST_WAITING: Final = 32
"""Few enough to be in the caches still: with 256 a decision takes 7 % longer."""


class Recorder:
    """What becomes of a decision: counters, and one line. Many are told at once: what that takes is in the caches then."""

    def __init__(self, metrics: Metrics, log: logs.Logger) -> None:
        self._metrics = metrics
        self._log = log
        self._waiting: list[Told] = []

    def decided(self, hook: str, request: Request, decision: Decision, seconds: float) -> None:
        self._waiting.append(Told(hook, request, decision, seconds))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_later(_WAIT, self.flush)
        elif len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Count what waits, and write its lines."""
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            self._metrics.decided(told.hook, told.decision, told.seconds)
        if lines := [found for told in waiting if (found := line(told))]:
            self._log.lines(lines)

    def ranked(self, strategy: str, seconds: float) -> None:
        self._metrics.rankings.observe(seconds, strategy)

    def bad_review(self, hook: str, error: BadReview) -> None:
        self._log.warning("bad review", hook=hook, why=str(error))


class Process:
    """The long-lived objects of one server."""

    def __init__(self, settings: ServeSettings) -> None:
        offline = settings.cluster is not None
        self.settings = settings
        self.metrics = Metrics()
        self.log = logs.configure()
        self.policies = PolicyHolder(self.metrics, self.log)
        max_age = math.inf if offline else settings.max_age
        self.state = ClusterState(max_age=max_age, replica=settings.replica, namespace=settings.namespace)
        self.placer = Placer(self.state)
        self.live = LiveContext(read(settings.client_ca, "--client-ca") if settings.client_ca else None)
        self._recorder = Recorder(self.metrics, self.log)
        self.metrics.before_reading = self._recorder.flush
        handlers = Handlers(self.policies, self.state, self.placer, self._recorder, time.monotonic)
        self.edge = Edge({"/mutate": handlers.mutate, "/validate": handlers.validate}, self.metrics, self.log)
        self.listener = Listener(self.edge.handle, self.live.listening, bad_request=self._bad_request)
        self.ops_listener = Listener(ops(self.metrics, self.missing), bad_request=self._bad_request, most=64)
        self._warm = False
        self._measure()

    def _bad_request(self) -> None:
        self.metrics.refused.add("400")

    def missing(self) -> list[str]:
        """What a ready server has and this one has not, yet or any more."""
        return self.unknown() or ([] if self._warm else ["nothing was decided yet"])

    def warm(self) -> None:
        """The last step to readiness, once nothing is unknown."""
        try:
            warm_up(self.policies, self.state, self.placer, time.monotonic)
        except Exception as error:  # whatever it is: real pods may fare better, and the log says more of each
            self.log.error("warm-up failed", **logs.cause(error))
        self._warm = True

    def unknown(self) -> list[str]:
        """What it needs to decide, and has not."""
        found = [f"{kind} were not listed yet" for kind in REQUIRED if kind not in self.state.listed]
        if self.policies.current is None:
            found.append(f"there is no policy: {self.policies.error}")
        if self.live.seconds_left(datetime.now(UTC)) <= 0:
            found.append("there is no valid certificate")
        if self.edge.draining:
            found.append("terminating")
        return found

    def _measure(self) -> None:
        metrics, state = self.metrics, self.state
        metrics.gauges(
            "feed_age_seconds",
            "Seconds since the last word from each watch.",
            "feed",
            lambda: {kind: time.monotonic() - at for kind, at in state.news.heard_at.items()},
        )
        metrics.gauge("cluster_fresh", "1 if nodes may be chosen.", lambda: float(state.fresh(time.monotonic())))
        metrics.gauges(
            "reservations", "Pods that GPUs are held for.", "state", lambda: dict(state.ledger.counts._asdict())
        )
        metrics.counters("choices", "Where pods with a promise were bound.", "outcome", lambda: state.ledger.honoured)
        metrics.counters("promises", "How promises ended.", "end", lambda: state.ledger.ended)
        left = "Seconds until the certificate that is served ends."
        metrics.gauge("certificate_seconds_left", left, lambda: self.live.seconds_left(datetime.now(UTC)))
        metrics.gauge("connections", "Open connections of API servers.", lambda: self.listener.connections)

    async def listen(self) -> dict[str, int]:
        """Open both ports. Raises BadInput where one cannot be had."""
        found = {}
        for name, listener in (("port", self.listener), ("opsPort", self.ops_listener)):
            port = self.settings.port if name == "port" else self.settings.ops_port
            try:
                found[name] = await listener.start(self.settings.host, port)
            except OSError as error:
                seen = f"{self.settings.host}:{port}: {os.strerror(error.errno or 0)}"
                raise BadInput(
                    f"cannot listen on {seen}. Give another --{'port' if name == 'port' else 'ops-port'}"
                ) from None
        return found

    async def stop(self, drain: float) -> None:
        """Say that we go, answer for `drain` seconds more, then close everything."""
        self.edge.draining = True
        self._recorder.flush()
        self.log.info("terminating", drain=drain, connections=self.listener.connections)
        await asyncio.sleep(drain)
        await asyncio.gather(self.listener.stop(STOP_SECONDS), self.ops_listener.stop(STOP_SECONDS))
        self._recorder.flush()

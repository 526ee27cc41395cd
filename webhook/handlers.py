"""Bytes in, decide, reserve, record, bytes out. Nothing here awaits: two reviews cannot choose the same GPU."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from webhook import policy_guard, review, workloads
from webhook.alike import MOST, Alike
from webhook.answers import encode
from webhook.cluster.pods import Promise, promise_of
from webhook.cluster.state import ClusterState
from webhook.decision import Decision
from webhook.errors import BadReview
from webhook.facts import Cluster, Placement
from webhook.gpus import Gpus
from webhook.placement import Ask, Placer
from webhook.placement.settings import PlacementSettings
from webhook.policy import Policy
from webhook.shape import check

Answer = tuple[int, bytes]
"""HTTP status and body."""

Decide = Callable[[bytes, Policy], tuple[review.Request, Decision]]


class PolicySource(Protocol):
    @property
    def current(self) -> Policy | None:
        """The policy in force; None until the first one is loaded."""


class Recorder(Protocol):
    """What becomes of a decision: one log line, metrics once."""

    def decided(self, hook: str, request: review.Request, decision: Decision, seconds: float) -> None: ...

    def ranked(self, strategy: str, seconds: float) -> None: ...

    def bad_review(self, hook: str, error: BadReview) -> None: ...


class Handlers:
    """The two webhooks as plain functions from body to answer.

    `placer` chooses nodes of `state`. `clock` gives monotonic seconds. `most`: see `Alike`.
    """

    def __init__(
        self,
        policies: PolicySource,
        state: ClusterState,
        placer: Placer,
        recorder: Recorder,
        clock: Callable[[], float],
        most: int = MOST,
    ) -> None:
        self._policies = policies
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._placer = placer
        self._alike = Alike(placer, self._ranked, most)

    def mutate(self, body: bytes) -> Answer:
        return self._answer("mutate", body, self._mutate)

    def validate(self, body: bytes) -> Answer:
        return self._answer("validate", body, self._validate)

    def _answer(self, hook: str, body: bytes, decide: Decide) -> Answer:
        started = perf_counter()
        policy = self._policies.current
        if policy is None:
            return 503, b"no policy is loaded yet: see the ConfigMap gpu-admission-policy"
        try:
            request, decision = self._decided(decide, body, policy)
        except BadReview as error:
            self._recorder.bad_review(hook, error)
            return 400, str(error).encode()
        answer = encode(request, decision)
        self._recorder.decided(hook, request, decision, perf_counter() - started)
        return 200, answer

    @staticmethod
    def _decided(decide: Decide, body: bytes, policy: Policy) -> tuple[review.Request, Decision]:
        try:
            return decide(body, policy)
        except BadReview:
            raise
        except RecursionError:
            raise BadReview("request.object: nested too deeply: wanted what a Kubernetes type can hold") from None
        except Exception:
            if review.parse(body).resource == "pods":
                for obj in review.objects_of(body):
                    check(obj)  # BadPod, if this is why
            raise

    def _mutate(self, body: bytes, policy: Policy) -> tuple[review.Request, Decision]:
        now = self._clock()
        snapshot = self._state.snapshot(now)
        if found := self._alike.again(body, policy, snapshot):
            request, decision, _ = found
        else:
            request = review.parse(body)
            if request.resource != "pods":
                return request, workloads.mutate(request, policy, snapshot, self._placer)
            decision = self._alike.mutate(body, request, policy, snapshot)
        if decision.reserve and decision.claim is not None and decision.placement is not None:
            self._state.hold(decision.claim, decision.placement, now)
        return request, decision

    def _ranked(self, ask: Ask, cluster: Cluster, settings: PlacementSettings, gpus: Gpus) -> Placement:
        started = perf_counter()
        found = self._placer.answer(ask, cluster, settings, gpus)
        self._recorder.ranked(ask.strategy, perf_counter() - started)
        return found

    def _validate(self, body: bytes, policy: Policy) -> tuple[review.Request, Decision]:
        snapshot, promised = self._state.snapshot(self._clock()), self._state.ledger.reserving
        promise: Promise | None = None
        if found := self._alike.again(body, policy, snapshot, stored=True, promised=promised):
            request, decision, promise = found
        else:
            request = review.parse(body)
            if request.resource == "configmaps":
                return request, policy_guard.validate(request, snapshot)
            if request.resource != "pods":
                return request, workloads.validate(request, policy, snapshot, self._placer)
            decision = self._alike.validate(body, request, policy, snapshot)
            if promised and decision.result == "denied" and request.operation == "CREATE" and not request.dry_run:
                promise = promise_of(request.object or {})
        if promise is not None:
            self._state.release(promise)
        return request, decision

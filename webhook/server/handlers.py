"""Answers the body of a review: parse, decide, reserve, record, encode.

Nothing here awaits, so one review ends before the next begins, and two reviews cannot choose the same GPU. A review of a
pod whose Job the watch has not shown yet is answered later (`http.Early`).
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Protocol

from webhook.admission import claims, namespaces, pods, policy_configmap, workloads
from webhook.admission.decision import Decision
from webhook.admission.response import encode
from webhook.errors import BadReview
from webhook.kube import bounds, review
from webhook.kube.pod import owner
from webhook.kube.pod_schema import check
from webhook.placement.placer import Placer
from webhook.policy.model import Policy
from webhook.server.http import Answer, Early
from webhook.state.state import ClusterState

Decide = Callable[[review.Request, Policy, ClusterState, Placer, float], Decision]
"""The decision of a hook, at a time in seconds of a monotonic clock."""


class PolicySource(Protocol):
    @property
    def current(self) -> Policy | None:
        """The policy in force; None until one is loaded."""


class Recorder(Protocol):
    """Reports decisions in the log and the metrics. `seconds`: the time that the review took."""

    def decided(self, hook: str, request: review.Request, decision: Decision, seconds: float) -> None: ...

    def bad_review(self, hook: str, error: BadReview) -> None: ...


class Handlers:
    """The two webhooks. `clock`: monotonic seconds."""

    def __init__(
        self,
        policies: PolicySource,
        state: ClusterState,
        placer: Placer,
        recorder: Recorder,
        clock: Callable[[], float],
    ) -> None:
        self._policies = policies
        self._state = state
        self._recorder = recorder
        self._clock = clock
        self._placer = placer

    def mutate(self, body: bytes) -> Answer:
        return self._answer("mutate", body, admitted)

    def validate(self, body: bytes) -> Answer:
        return self._answer("validate", body, checked)

    def _answer(self, hook: str, body: bytes, decide: Decide) -> Answer:
        started = perf_counter()
        policy = self._policies.current
        if policy is None:
            return 503, b"no policy is loaded yet: see the ConfigMap gpu-admission-policy"
        try:
            request = review.parse_review(body)
        except BadReview as error:
            return self._bad(hook, error)
        known = partial(_job_is_known, request, self._state)
        if decide is admitted and not known():
            raise Early(
                request.namespace,
                known,
                partial(self._decided, hook, request, policy, decide, perf_counter() - started),
            )
        return self._decided(hook, request, policy, decide, perf_counter() - started)

    def _decided(self, hook: str, request: review.Request, policy: Policy, decide: Decide, parsing: float) -> Answer:
        """`parsing`: the seconds that it took."""
        started = perf_counter()
        try:
            decision = _decision(decide, request, policy, self._state, self._placer, self._clock())
        except BadReview as error:
            return self._bad(hook, error)
        answer = encode(request, decision)
        self._recorder.decided(hook, request, decision, perf_counter() - started + parsing)
        return 200, answer

    def _bad(self, hook: str, error: BadReview) -> Answer:
        self._recorder.bad_review(hook, error)
        return 400, str(error).encode()


def _job_is_known(request: review.Request, state: ClusterState) -> bool:
    """Whether a new pod's Job is known, if it has one. It makes its pods while its own event is still on the way to us, and how
    many they are decides where the first one goes."""
    if request.resource != "pods" or request.operation != "CREATE" or "jobs" not in state.freshness.listed:
        return True
    with suppress(LookupError, TypeError, AttributeError):  # the decision reports what is malformed
        by = owner(request.object or {})
        return by is None or by.kind != "Job" or state.jobs.knows(request.namespace, by)
    return True


def _decision(
    decide: Decide, request: review.Request, policy: Policy, state: ClusterState, placer: Placer, now: float
) -> Decision:
    try:
        return decide(request, policy, state, placer, now)
    except BadReview:
        raise
    except Exception:
        if any([obj and bounds.is_too_deep(obj) for obj in (request.object, request.old)]):
            raise BadReview("request.object: nested too deeply: wanted what a Kubernetes type can hold") from None
        if request.resource == "pods" and not bounds.exceeded_by_size(request.size):
            for obj in (request.object, request.old):
                if obj and not bounds.exceeded_by_pod(obj):
                    check(obj)  # BadPod if the pod is malformed; otherwise it is a bug
        raise


def admitted(request: review.Request, policy: Policy, state: ClusterState, placer: Placer, now: float) -> Decision:
    """The mutating hook: decide about a creation, and reserve the requests of the pod on its node."""
    view = state.view(now)
    if request.resource != "pods":
        return workloads.mutate(request, policy, view, placer)
    decision = pods.mutate(request, policy, view, placer)
    if decision.reservation is not None and decision.placement is not None and not request.dry_run:
        state.reserve(decision.reservation, decision.placement, now)
    return decision


def checked(request: review.Request, policy: Policy, state: ClusterState, placer: Placer, now: float) -> Decision:
    """The validating hook: decide whether an object may be stored."""
    view = state.view(now)
    if request.resource == "configmaps":
        return policy_configmap.validate(request, view)
    if request.resource == "namespaces":
        return namespaces.validate(request, policy)
    if request.resource in claims.SPECS:
        return claims.validate(request, policy, view)
    if request.resource != "pods":
        return workloads.validate(request, policy, view, placer)
    return pods.validate(request, policy, view, placer)

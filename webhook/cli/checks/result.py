"""A check of `gpu-admission doctor`, its results, and what several checks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from webhook.cli.cluster.snapshot import OUR_NAMESPACE, OUR_POLICY, Snapshot, created, full_name
from webhook.kube.pod import PROFILE_LABEL, labels_of
from webhook.kube.record import record_of
from webhook.policy.model import Policy

NAME: Final = "gpu-admission"
"""The name of both webhook configurations, of the Service and of the Deployment."""
APPLY: Final = "kubectl apply -k manifests/"
KUBECTL: Final = f"kubectl -n {OUR_NAMESPACE}"
LOGS: Final = f"{KUBECTL} logs deployment/{NAME}"
RESTART: Final = f"{KUBECTL} rollout restart deployment/{NAME}"
EDIT_POLICY: Final = f"{KUBECTL} edit configmap {OUR_POLICY}"


class Result(NamedTuple):
    """`state` is ok, warn, broken, or unknown if a right or an answer is missing. `next` is what to do, if anything."""

    check: str
    state: str
    text: str
    next: str = ""


class Check(NamedTuple):
    """`reads` are the kinds that it needs; without them its result is unknown. `find` yields results of this name."""

    name: str
    reads: tuple[str, ...]
    find: Callable[[Snapshot, Policy], Iterator[Result]]


def opted_in(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """The labels of each namespace that has opted in, by its name."""
    labels = {name: labels_of(namespace) for (_, name), namespace in snapshot.named("Namespace").items()}
    return {name: each for name, each in labels.items() if PROFILE_LABEL in each}


def newest_decision(snapshot: Snapshot) -> tuple[str, dict[str, Any]]:
    """Of the pods with a decision, the one that was created last: its namespace/name and record; "" and {} if none has."""
    decided = [pod for pod in snapshot.of("Pod") if record_of(pod).get("policy")]
    if not decided:
        return "", {}
    newest = max(decided, key=created)
    return full_name(newest), record_of(newest)

"""What a check of `gpu-admission doctor` is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.snapshot import Snapshot
from webhook.policy.model import Policy

NAME: Final = "gpu-admission"
"""Of both webhook configurations, the Service and the Deployment."""
APPLY: Final = "kubectl apply -k manifests/"
RESTART: Final = f"kubectl -n {OUR_NAMESPACE} rollout restart deployment/{NAME}"


class Result(NamedTuple):
    """`state`: ok, warn, broken, or unknown, where a right or an answer is missing. `next`: what to do."""

    check: str
    state: str
    text: str
    next: str = ""


class Check(NamedTuple):
    """`reads`: the kinds that it cannot do without. `find` yields results under this name."""

    name: str
    reads: tuple[str, ...]
    find: Callable[[Snapshot, Policy], Iterator[Result]]

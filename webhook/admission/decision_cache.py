"""Caches what the injectors did for the first replica of a template: it holds for the others.

The key is the whole reduced request and the profile label of its namespace: all that `pods.prepare` reads besides the policy
and the cluster. The cache is emptied when the policy changes, or what units read of the cluster. The node is chosen for each
replica, and the validating hook caches nothing.
"""

from __future__ import annotations

from typing import Final

from webhook.admission import pods
from webhook.admission.context import PROFILE_LABEL
from webhook.admission.decision import Decision
from webhook.admission.pods import Prepared
from webhook.admission.reduced import key_of
from webhook.framework.cluster_view import Cluster
from webhook.kube.review import Request
from webhook.placement.placer import Placer
from webhook.policy.model import Policy

LARGEST_KEY: Final = 32 << 10
"""Bytes. Ten times an ordinary pod; a larger one is prepared each time."""
MOST_BYTES: Final = 2 << 20
"""Of all keys together. The value of a key takes about ten times the bytes of the key; at worst fifty times, 100 MiB."""


class DecisionCache:
    """`prepare` is `pods.prepare` with a cache. `most`: bytes of keys; 0 caches nothing."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._bytes = 0
        self._policy: Policy | None = None
        self._versions: tuple[object, ...] = ()
        self._kept: dict[bytes, Prepared | Decision] = {}

    def prepare(self, request: Request, policy: Policy, cluster: Cluster, placer: Placer | None) -> Prepared | Decision:
        """As `pods.prepare`."""
        if policy is not self._policy or cluster.versions != self._versions:
            self._policy, self._versions, self._bytes = policy, cluster.versions, 0
            self._kept.clear()
        labels = cluster.namespace_labels(request.namespace)
        key = key_of(request, () if labels is None else (labels.get(PROFILE_LABEL),))
        found = self._kept.get(key)
        if found is None:
            found = pods.prepare(request, policy, cluster, placer)
            if isinstance(found, Decision) or found.settled:
                self._keep(key, found)
        return found

    def _keep(self, key: bytes, prepared: Prepared | Decision) -> None:
        if len(key) > min(LARGEST_KEY, self._most):
            return
        self._bytes += len(key)
        while self._bytes > self._most:  # the oldest makes room
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._bytes -= len(oldest)
        self._kept[key] = prepared

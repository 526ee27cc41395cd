"""Tries manifests on a snapshot, with the webhook or without it."""

from collections.abc import Iterable
from typing import Any

import yaml

from webhook.kube.pod import Pod
from webhook.policy.model import Policy
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.manifests import Planned, planned_in
from webhook.whatif.tried import Outcome, try_pods


def tried(
    snapshot: Snapshot, policy: Policy, manifests: bytes | Iterable[Any], namespace: str, *, asks: bool = True
) -> Outcome:
    text = manifests if isinstance(manifests, bytes) else yaml.safe_dump_all(manifests).encode()
    planned = list(planned_in(text, "-", policy, namespace))
    assert all(isinstance(each, Planned) for each in planned), planned
    return try_pods(snapshot, policy, [each for each in planned if isinstance(each, Planned)], asks=asks)


def pod_of(snapshot: Snapshot, namespace: str, name: str) -> Pod:
    return snapshot.named("Pod")[namespace, name]

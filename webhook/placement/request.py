"""What placement needs to know of a pod, apart from the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from webhook.cluster.node_table import Demand
from webhook.placement.preferences import Preferences

Spec = Mapping[str, Any]
_LONGEST = 512


class PlacementRequest(NamedTuple):
    """Equal for pods that get the same nodes under the same settings."""

    strategy: str
    demand: Demand
    stated: bytes
    """What decides where the pod may go, as JSON: see `spec_of`."""
    owner: str
    """The owner of its peers; "" for a pod without an owner."""
    gang: int
    """How many pods the gang has; 1 where that is not known; 0 for a pod that is in no gang."""
    key: bytes
    """All that scores depend on (`stated`, the demand, the strategy), as bytes of bounded length."""
    preferences: Preferences | None = None
    """Those of its annotations and of the policy, besides its own affinity."""


def shape_key(spec: Spec) -> tuple[bytes, bytes]:
    """What decides where a pod may go, as JSON, and a key for it of bounded length."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    stated = orjson.dumps([spec.get("nodeSelector"), affinity, spec.get("tolerations")], option=orjson.OPT_SORT_KEYS)
    return stated, stated if len(stated) <= _LONGEST else blake2b(stated, digest_size=32).digest()


def spec_of(stated: bytes) -> Spec:
    """The spec that `shape_key` was made from, as far as it says where the pod may go."""
    selector, affinity, tolerations = orjson.loads(stated)
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity}, "tolerations": tolerations}

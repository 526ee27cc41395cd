"""What a ranking needs to know of a pod, apart from the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from webhook.cluster.node_table import Demand
from webhook.placement.preferences import Preferences

Spec = Mapping[str, Any]
_LONGEST = 512


class Ask(NamedTuple):
    """Equal for pods that are ranked alike: by the same settings they get the same nodes."""

    strategy: str
    demand: Demand
    stated: bytes
    """What decides where the pod may go, as JSON: see `spec_of`."""
    owner: str
    """Whose pods are its peers; "" for a pod on its own."""
    gang: int
    """How many pods the gang has, 1 where it does not say; 0 for a pod that is of none."""
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
    """The other way round."""
    selector, affinity, tolerations = orjson.loads(stated)
    return {"nodeSelector": selector, "affinity": {"nodeAffinity": affinity}, "tolerations": tolerations}

"""Where the volumes of a pod are, and so where it can go.

A claim that is bound names a PersistentVolume, whose node affinity (a local disk, a zone) or zone label a node of the pod must
meet. A claim that is not bound yet goes where the first of its pods goes, if its class waits for that: pods of one owner that
share it begin where there is most room. Claims and volumes are read only where we may (`persistentvolumeclaims` and
`persistentvolumes` in 10-access.yaml); else, and for all other volumes, it is left to the scheduler to keep pods off nodes.

Follows k8s.io/kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumezone}.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple

import orjson

from webhook.cluster.pods import namespace_of
from webhook.cluster.state import ClusterState
from webhook.kube.pod import Pod, owner
from webhook.placement.constraints import Term, terms_of

_MAX_CLAIMS: Final = 8
"""Claims of one pod that are looked at."""


class Claims(NamedTuple):
    """What a pod says about its claims."""

    names: tuple[str, ...] = ()
    """With the namespace: `team-a/data`."""
    shared: bool = False
    """Whether the pods of its owner have the same ones."""


class Where(NamedTuple):
    """Where the volumes are now."""

    terms: tuple[tuple[Term, ...], ...] = ()
    """For each volume the terms of its affinity, of which one must hold."""
    together: bool = False
    """Not known yet: all pods of the owner will have to follow the first."""
    key: bytes = b""
    """Equal where `terms` are; of bounded length."""


NO_CLAIMS: Final = Claims()
ANYWHERE: Final = Where()


def claims_of(pod: Pod) -> Claims:
    """The PersistentVolumeClaims that a pod names."""
    named = [
        (volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in pod["spec"].get("volumes") or ()
    ]
    names = tuple([f"{namespace_of(pod)}/{name}" for name in named if name][:_MAX_CLAIMS])
    if not names:
        return NO_CLAIMS
    controller = owner(pod)
    return Claims(names, controller is not None and controller.kind != "StatefulSet")


def where(claims: Claims, state: ClusterState) -> Where:
    """Where the volumes of these claims are."""
    if not claims.names or not state.news.listed.issuperset(("persistentvolumeclaims", "persistentvolumes")):
        return ANYWHERE
    volumes = [claim.volume if (claim := state.claims.get(name)) else "" for name in claims.names]
    stated = [volume.terms for name in volumes if name and (volume := state.volumes.get(name)) and volume.terms]
    terms = tuple([terms_of(orjson.loads(text)) for text in stated])
    key = blake2b("\0".join(stated).encode(), digest_size=16).digest() if stated else b""
    return Where(terms, claims.shared and "" in volumes, key)

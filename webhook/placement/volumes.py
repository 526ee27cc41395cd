"""The volumes of a pod, and to which nodes they confine it.

A claim that is bound names a PersistentVolume. A node of the pod must match the node affinity of that volume (a local
disk, a zone) or its zone label. A claim that is not bound yet is bound where its first pod goes, if its StorageClass
waits for that. Whether other pods of the owner share the claim is not known from the first of them. So the first one gets the
emptiest node, as the scheduler would give it, where most of the others have room. Those that come before the claim is bound
are left to the scheduler: it lets them follow.

Claims and volumes are read only if this is allowed (`persistentvolumeclaims` and `persistentvolumes` in 10-access.yaml).
If not, and for all other kinds of volumes, the scheduler alone keeps pods off wrong nodes.

Follows k8s.io/kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumezone}.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

import orjson

from webhook.kube.pod import Owner, Pod, namespace_of
from webhook.placement.constraints import Term, terms_of
from webhook.state.state import ClusterState

_MAX_CLAIMS: Final = 8
"""Maximum number of claims of one pod that count."""


class VolumeClaims(NamedTuple):
    """The PersistentVolumeClaims of a pod."""

    names: tuple[str, ...] = ()
    """Namespace and name of each: `team-a/data`."""
    shared: bool = False
    """Whether all pods of its owner use the same claims."""


class VolumeTopology(NamedTuple):
    """To which nodes the volumes of a pod confine it."""

    terms: tuple[tuple[Term, ...], ...] = ()
    """For each volume, the terms of its node affinity, of which a node must match one."""
    together: bool = False
    """A claim that the owner's other pods may share is not bound yet: they must follow the first."""
    claims: tuple[tuple[Term, ...], ...] = ()
    """The same for each of its ResourceClaims that has devices, or whose devices are reserved for another pod."""
    key: bytes = b""
    """Equal if `terms` and `claims` are; of bounded length."""


NO_VOLUME_CLAIMS: Final = VolumeClaims()
UNCONFINED: Final = VolumeTopology()


def volume_claims_of(pod: Pod, controller: Owner | None) -> VolumeClaims:
    if not (volumes := pod["spec"].get("volumes")):
        return NO_VOLUME_CLAIMS
    claims = [claim for volume in volumes if (claim := volume.get("persistentVolumeClaim"))]
    if not claims:
        return NO_VOLUME_CLAIMS
    named = [claim.get("claimName") for claim in claims]
    names = tuple([f"{namespace_of(pod)}/{name}" for name in named if name][:_MAX_CLAIMS])
    if not names:
        return NO_VOLUME_CLAIMS
    return VolumeClaims(names, controller is not None and controller.kind != "StatefulSet")


def volume_topology(claims: VolumeClaims, state: ClusterState) -> VolumeTopology:
    """To which nodes the volumes of these claims confine a pod."""
    if not claims.names or not state.freshness.listed.issuperset(("persistentvolumeclaims", "persistentvolumes")):
        return UNCONFINED
    volumes = [claim.volume if (claim := state.volume_claims.get(name)) else "" for name in claims.names]
    texts = [text for name in volumes if name and (text := state.volumes.get(name))]
    terms = tuple([terms_of(orjson.loads(text)) for text in texts])
    key = blake2b("\0".join(texts).encode(), digest_size=16).digest() if texts else b""
    return VolumeTopology(terms, claims.shared and "" in volumes, key=key)

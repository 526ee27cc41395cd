"""Which group and subgroup of a LeaderWorkerSet a pod is of, also before LeaderWorkerSet's own webhook says it.

That webhook mostly comes after ours. What it will write follows from what its controllers have written by then, so our first
call knows as much as our second, and both choose the same node. A pod that nobody has labelled so is told from the others of its
namespace by its name alone, as that webhook does it (pkg/webhooks/pod_webhook.go, versions 0.7 to 0.9).
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from webhook.text import number_of

_OURS: Final = "leaderworkerset.sigs.k8s.io"
SET, SIZE, SUBGROUP_SIZE = f"{_OURS}/name", f"{_OURS}/size", f"{_OURS}/subgroup-size"
"""A label with the name of the set, and annotations."""
GROUP, SUBGROUP, INDEX = f"{_OURS}/group-key", f"{_OURS}/subgroup-key", f"{_OURS}/group-index"
"""Labels."""
_LEADER, _POLICY, _WORKER = f"{_OURS}/leader-name", f"{_OURS}/subgroup-policy-type", f"{_OURS}/worker-index"


def group_labels(
    namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, str]:
    """The labels of group and subgroup that a pod of a set has or will have, as far as that can be told. `name`: of the pod."""
    leads, found = labels.get(_WORKER) == "0", dict[str, str]()
    if leads and name:
        found[GROUP] = _key(namespace, name)
    size, several = (number_of(annotations.get(each)) for each in (SIZE, SUBGROUP_SIZE))
    if size and several and name and not (leads and annotations.get(_POLICY) == "LeaderExcluded"):
        leader, index = (name, 0) if leads else (annotations.get(_LEADER, ""), number_of(name.rpartition("-")[2]))
        if leader and index is not None:
            # The leader is one more than the workers can be divided by.
            extra = size % several and (size - 1) % several == 0
            found[SUBGROUP] = _key(leader, str((index - 1 if extra and not leads else index) // several))
    return found | {key: value for key in (GROUP, SUBGROUP) if (value := labels.get(key))}


def _key(of: str, name: str) -> str:
    return hashlib.sha1(f"{of}/{name}".encode(), usedforsecurity=False).hexdigest()

"""Who takes a scheduling gate away from a pod, and when: the controllers that set gates. Nobody else should remove these.

Sources: Kueue apis/kueue/v1beta2 (constants.go, topology_types.go) and pkg/controller/jobs/pod/constants · Grove
operator/internal/controller/podclique/components/pod · Volcano apis scheduling/v1beta1/labels.go ·
openshift/multiarch-tuning-operator, openshift/instaslice-operator · AI-Hypercomputer/xpk (gke.io/topology-aware-auto).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from webhook.text import matches
from webhook.vendors import model as vendors
from webhook.vendors.catalogue import every

KUEUE_ADMISSION: Final = "kueue.x-k8s.io/admission"


class Gate(NamedTuple):
    """A gate that is known: "Kueue takes it away when it has admitted the workload from its queue"."""

    owner: str
    """Who set it and takes it away."""
    until: str
    """When it does so."""
    seen: str
    """The resource that says why it has not, for `kubectl describe … -n NAMESPACE`; "" if there is none."""


_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
GATES: Final[Mapping[str, Gate]] = {
    KUEUE_ADMISSION: Gate("Kueue", "it has admitted the workload from its queue", _WORKLOADS),
    "kueue.x-k8s.io/topology": Gate(
        "Kueue", "it has admitted the workload and assigned a topology domain to the pod", _WORKLOADS
    ),
    "kueue.x-k8s.io/elastic-job": Gate(
        "Kueue", "it has admitted the slice of the workload that the pod is of", _WORKLOADS
    ),
    "grove.io/podgang-pending-creation": Gate(
        "Grove", "all pods of its PodGang are there", "podgangs.scheduler.grove.io"
    ),
    "multiarch.openshift.io/scheduling-gate": Gate(
        "the Multiarch Tuning Operator", "it knows the architectures of the images", ""
    ),
    "org.instaslice/accelarator": Gate("InstaSlice", "it has a slice of a GPU for the pod", ""),
}
_OF_VENDORS: Final = tuple([(gate.name, Gate(gate.owner, gate.until, gate.seen)) for gate in every(vendors.Gate)])


def gate_of(name: str) -> Gate | None:
    """The gate of this name; None if nobody is known to take it away."""
    return GATES.get(name) or next((gate for pattern, gate in _OF_VENDORS if matches(pattern, name)), None)

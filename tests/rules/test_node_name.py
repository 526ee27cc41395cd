"""Pods that name their node."""

from tests.builders import Case, case
from tests.controlplane.objects import pod
from webhook.rules.node_name import NodeName

RULE = NodeName()

ALLOWED: dict[str, Case] = {
    "none": case(pod()),
    "a mirror pod, which its kubelet registers": case(
        pod(nodeName="gpu-a1"), groups=("system:nodes", "system:authenticated")
    ),
    "a running pod that gets a debug container": case(pod(nodeName="gpu-a1"), operation="UPDATE"),
    "a group that the policy trusts": case(
        pod(nodeName="gpu-a1"), groups=("platform",), rule=NodeName(groups=("platform",))
    ),
}

_END = (
    "wanted no node name: it bypasses the scheduler and the taints of the node. "
    "Remove it; to require a node use nodeSelector, to prefer one node affinity, with kubernetes.io/hostname."
)
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a tenant, with a GPU": (
        case(pod(nodeName="gpu-a1"), groups=("system:authenticated",)),
        [f'spec.nodeName: saw "gpu-a1", {_END}'],
    ),
    "a tenant, without a GPU": (case(pod(gpus=0, nodeName="gpu-a1")), [f'spec.nodeName: saw "gpu-a1", {_END}']),
    "a pod of a tenant with the annotation of mirror pods": (
        case(pod(nodeName="gpu-a1", annotations={"kubernetes.io/config.mirror": "x"})),
        [f'spec.nodeName: saw "gpu-a1", {_END}'],
    ),
}

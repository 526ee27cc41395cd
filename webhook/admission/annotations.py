"""The annotations that the author of a pod may write, and what is said of those that have no effect.

    gpu-admission.io/node-choice: "off"     no node is chosen: the scheduler alone places the pod
    gpu-admission.io/injection: "off"       nothing is injected, and no node is chosen
    gpu-admission.io/preferred-nodes, gpu-admission.io/gpu-model: see `placement.preferences`

The record says so, and rules are checked all the same. Only what keeps containers from GPUs that they did not ask for
(`voidDevices`) is injected even with `injection: "off"`: it protects others.
"""

from typing import Final

from webhook.kube.pod import DECISION, INJECTION, NODE_CHOICE, OFF, Pod, annotations_of, labels_of
from webhook.placement.preferences import MODELS, NODES
from webhook.text import nearest, quoted

_OURS: Final = "gpu-admission.io/"
_SWITCHES: Final = (NODE_CHOICE, INJECTION)
_KNOWN: Final = (*_SWITCHES, NODES, MODELS)
_MAX_NAMES: Final = 10


def annotation_warning(pod: Pod) -> str | None:
    """A warning about what has no effect in a pod or a template: a switch with another value, an annotation that is written as a
    label, or one whose name is misspelt."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    for key in _SWITCHES:
        if key in annotations and annotations[key] != OFF:
            return f'{key}: saw {quoted(annotations[key])}, wanted "off" or no such annotation: it has no effect'
    for key in _KNOWN:
        if key in labels and key not in annotations:
            value = ', with the value "off"' if key in _SWITCHES else ""
            return f"{key} is a label here and has no effect: write it as an annotation{value}"
    unknown = [key for key in annotations if key.startswith(_OURS) and key not in (*_KNOWN, DECISION)]
    for key in unknown[:_MAX_NAMES]:
        near = nearest(key.removeprefix(_OURS), [known.removeprefix(_OURS) for known in _KNOWN])
        if near:
            return f"there is no annotation {quoted(key)}; nearest: {_OURS}{near}"
    return None

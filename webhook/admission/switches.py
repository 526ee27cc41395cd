"""The annotations by which the author of a pod has it left alone.

    gpu-admission.io/node-choice: "off"     no node is chosen: the scheduler alone places the pod
    gpu-admission.io/injection: "off"       nothing is injected, and no node is chosen

The record says so, and rules are checked all the same. Only what keeps containers from GPUs that they did not ask for
(`voidDevices`) is injected even then: it protects others.
"""

from webhook.kube.pod import INJECTION, NODE_CHOICE, OFF, Pod, annotations_of, labels_of
from webhook.text import quoted


def switch_warning(pod: Pod) -> str | None:
    """A warning about a switch that has no effect: another value, or a label in place of an annotation."""
    annotations, labels = annotations_of(pod), labels_of(pod)
    for key in (NODE_CHOICE, INJECTION):
        if key in annotations and annotations[key] != OFF:
            return f'{key}: saw {quoted(annotations[key])}, wanted "off" or no such annotation: it has no effect'
        if key in labels and key not in annotations:
            return f'{key} is a label here and has no effect: write it as an annotation, with the value "off"'
    return None

"""Trainium and Inferentia of AWS."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Taint, Variable, Vendor

NEURON: Final = Vendor(
    name="AWS Neuron",
    facts={
        "https://awsdocs-neuron.readthedocs-hosted.com/en/latest/deploy/includes/k8s-neuron-device-plugin.html": (
            Resource("aws.amazon.com/neuron"),
            Resource("aws.amazon.com/neurondevice", of="aws.amazon.com/neuron"),
            Resource("aws.amazon.com/neuroncore", "slice", of="aws.amazon.com/neuron"),
        ),
        "https://karpenter.sh/docs/concepts/scheduling/": (Taint("aws.amazon.com/neuron"),),
        "https://github.com/aws-neuron/aws-neuron-sdk/blob/master/containers/tutorials/tutorial-oci-hook.rst": (
            Variable("AWS_NEURON_VISIBLE_DEVICES"),
            RuntimeClass("neuron*"),
        ),
    },
)

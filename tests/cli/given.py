"""Documents that commands are given."""

from tests.builders import GPU, container, pod

GOOD = pod({"name": "main", "image": "app", "resources": {"limits": {GPU: 1}}})
BAD = pod(container(gpu=64), name="greedy")
PLAIN = pod(container(gpu=None), name="plain")
CONFLICT = pod({"name": "main", "image": "app", "resources": {"limits": {GPU: 2}, "requests": {GPU: 1}}}, name="two")
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}

TRAINING = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "t"},
    "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": BAD["spec"]}}}},
}

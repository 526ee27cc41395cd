"""Documents that commands are given."""

from tests.builders import GPU
from tests.controlplane.objects import pod

GOOD = pod(containers=[{"name": "main", "image": "app", "resources": {"limits": {GPU: 1}}}])
BAD = pod(gpus=64, name="greedy")
PLAIN = pod(gpus=0, name="plain")
CONFLICT = pod(
    containers=[{"name": "main", "image": "app", "resources": {"limits": {GPU: 2}, "requests": {GPU: 1}}}], name="two"
)
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}

TRAINING = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "t"},
    "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": BAD["spec"]}}}},
}

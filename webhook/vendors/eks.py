"""GPUs on Amazon's Elastic Kubernetes Service, and on machines that Karpenter makes there."""

from typing import Final

from webhook.vendors.model import Condition, HostPath, Label, Resource, Taint, Unhealthy, Vendor

EKS: Final = Vendor(
    name="Amazon EKS",
    facts={
        "https://karpenter.sh/docs/reference/instance-types/": (
            Label("karpenter.k8s.aws/instance-gpu-name", "model"),
            Label("karpenter.k8s.aws/instance-gpu-count", "present"),
            Label("karpenter.k8s.aws/instance-*", "hardware"),
        ),
        "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-topology.html": (
            Label("topology.k8s.aws/ultraserver-id", "domain"),
            Label("topology.k8s.aws/network-node-layer-3", "domain"),
            Label("topology.k8s.aws/network-node-layer-2", "domain"),
        ),
        "https://docs.aws.amazon.com/eks/latest/userguide/node-health.html": (
            Condition("AcceleratedHardwareReady", sick="False"),
        ),
        "https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html": (
            Unhealthy(
                "sagemaker.amazonaws.com/node-health-status",
                ("Unschedulable", "UnschedulablePendingReplacement", "UnschedulablePendingReboot"),
            ),
            Unhealthy("sagemaker.amazonaws.com/deep-health-check-status", ("InProgress", "Failed")),
        ),
        "https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html": (
            Label("eks.amazonaws.com/instance-gpu-name", "model"),
            Label("eks.amazonaws.com/instance-*", "hardware"),
        ),
        "https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html": (
            Label("eks.amazonaws.com/nodegroup", "pool"),
        ),
        "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md": (
            Label("k8s.amazonaws.com/accelerator", "present"),
        ),
        "https://github.com/aws/aws-node-termination-handler": (
            Taint("aws-node-termination-handler/*", says="leaving"),
        ),
        "https://github.com/eksctl-io/eksctl": (Label("alpha.eksctl.io/nodegroup-name", "pool"),),
        "https://github.com/awslabs/aws-virtual-gpu-device-plugin": (Resource("k8s.amazonaws.com/vgpu", "none"),),
        "https://github.com/awslabs/amazon-eks-ami": (
            HostPath("/mnt/k8s-disks/0/kubelet", "node"),
            HostPath("/mnt/k8s-disks/0/containerd", "node"),
            HostPath("/mnt/k8s-disks/0/pods", "node"),
        ),
    },
)

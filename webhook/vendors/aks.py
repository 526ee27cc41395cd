"""GPUs on Azure Kubernetes Service."""

from typing import Final

from webhook.vendors.model import HostPath, Label, Taint, Vendor

AKS: Final = Vendor(
    name="Azure Kubernetes Service",
    facts={
        "https://learn.microsoft.com/en-us/azure/aks/use-nvidia-gpu": (
            Label("kubernetes.azure.com/accelerator", "present"),
            Label("kubernetes.azure.com/agentpool", "pool"),
            Label("agentpool", "pool"),
            Taint("sku", "gpu"),
        ),
        "https://github.com/Azure/AgentBaker": (HostPath("/mnt/aks", "node"),),
    },
)

"""GPUs on CoreWeave's Kubernetes Service."""

from typing import Final

from webhook.vendors.model import Label, Vendor

COREWEAVE: Final = Vendor(
    name="CoreWeave",
    facts={
        "https://docs.coreweave.com/docs/products/networking/hpc-interconnect/infiniband-labels": (
            Label("ds.coreweave.com/nvlink.domain", "domain"),
            Label("ib.coreweave.cloud/leafgroup", "domain"),
            Label("ib.coreweave.cloud/superpod", "domain"),
        ),
    },
    unknown=("which conditions and taints its nodes have when a GPU is sick",),
)

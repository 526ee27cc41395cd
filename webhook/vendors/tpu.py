"""TPUs of Google, which GKE offers."""

from typing import Final

from webhook.vendors.model import Label, Resource, Taint, Variable, Vendor

TPU: Final = Vendor(
    name="Google TPU",
    facts={
        "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/tpus": (
            Resource("google.com/tpu"),
            Taint("google.com/tpu"),
            Label("cloud.google.com/gke-tpu-accelerator", "model"),
            Label("cloud.google.com/gke-tpu-topology", "hardware"),
        ),
        "https://docs.jax.dev/en/latest/": (Variable("TPU_VISIBLE_DEVICES", "nothing"),),
    },
)

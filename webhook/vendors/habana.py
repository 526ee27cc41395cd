"""Gaudi, of Intel (Habana)."""

from typing import Final

from webhook.vendors.model import Resource, RuntimeClass, Taint, Variable, Vendor

HABANA: Final = Vendor(
    name="Intel Gaudi",
    facts={
        "https://docs.habana.ai/en/latest/Installation_Guide/Additional_Installation/Kubernetes_Installation/index.html": (
            Resource("habana.ai/gaudi"),
            Taint("habana.ai/gaudi", always=True),
            RuntimeClass("habana*"),
            Variable("HL_VISIBLE_DEVICES", "nothing"),
        ),
        # Its hook takes "" and void for all devices, and the runtime calls it for every name that begins so. With none it fails
        # where accept-habana-visible-devices-envvar-when-unprivileged is false.
        "https://github.com/HabanaAI/habana-container-runtime/tree/main/cmd": (
            Variable("HABANA_VISIBLE_DEVICES", none=("none",)),
            Variable("HABANA_VISIBLE_DEVICES*", none=()),
        ),
    },
)

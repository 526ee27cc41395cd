"""Resources that hand out every device of a node."""

from typing import Any

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.node_wide_resources import NodeWideResources

RULE = NodeWideResources()
I915, XE = "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"


def asking(rule: NodeWideResources | None = None, **fields: Any) -> Case:
    return case(pod(containers=[container(gpu=None, **fields)]), rule=rule)


ALLOWED: dict[str, Case] = {
    "no resources": asking(),
    "GPUs": case(pod()),
    "GPUs of the same vendor": asking(limits={"gpu.intel.com/i915": "1"}),
    "none of it": asking(limits={I915: "0"}, requests={I915: "0"}),
    "a longer name": asking(limits={f"{I915}2": "1"}),
    "a policy without such names": asking(NodeWideResources(names=()), limits={I915: "1"}),
}


def message(name: str, part: str = "limits", amount: str = "1", of: str = "containers[0]", who: str = "main") -> str:
    return (
        f'spec.{of}.resources.{part}[{name}]: saw "{amount}" {name} in container "{who}", wanted no such resource: one of it hands '
        "out every device of the node. Remove it, and ask for the GPUs that the container needs in its limits."
    )


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "one of it": (asking(limits={I915: "1"}), [message(I915)]),
    "one of the other driver's": (asking(limits={XE: "2"}, requests={XE: "2"}), [message(XE, amount="2")]),
    "as a request": (asking(requests={XE: "1"}), [message(XE, "requests")]),
    "beside GPUs": (case(pod(containers=[container(limits={I915: "1"})])), [message(I915)]),
    "in an init container": (
        case(pod(init=[container("setup", gpu=None, limits={I915: "1"})])),
        [message(I915, of="initContainers[0]", who="setup")],
    ),
    "an amount that is no quantity": (asking(limits={I915: "some"}), [message(I915, amount="some")]),
    "a name of the policy": (
        asking(NodeWideResources(names=("smarter-devices/*",)), limits={"smarter-devices/nvidia0": "1"}),
        [message("smarter-devices/nvidia0")],
    ),
}

"""Resources that hand out every device of a node."""

from typing import Any

import pytest

from tests.builders import Case, case, container
from tests.controlplane.objects import pod
from webhook.rules.node_wide_resources import NodeWideResources

RULE = NodeWideResources()
I915, XE = "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"


def asking(rule: NodeWideResources | None = None, **fields: Any) -> Case:
    return case(pod(containers=[container(gpu=None, **fields)]), rule=rule)


ALLOWED = [
    pytest.param(asking(), id="no resources"),
    pytest.param(case(pod()), id="GPUs"),
    pytest.param(asking(limits={"gpu.intel.com/i915": "1"}), id="GPUs of the same vendor"),
    pytest.param(asking(limits={I915: "0"}, requests={I915: "0"}), id="none of it"),
    pytest.param(asking(limits={f"{I915}2": "1"}), id="a longer name"),
    pytest.param(asking(NodeWideResources(names=()), limits={I915: "1"}), id="a policy without such names"),
]


def message(name: str, part: str = "limits", amount: str = "1", of: str = "containers[0]", who: str = "main") -> str:
    return (
        f'spec.{of}.resources.{part}[{name}]: saw "{amount}" {name} in container "{who}", wanted no such resource: one of it hands '
        "out every device of the node. Remove it, and ask for the GPUs that the container needs in its limits."
    )


REFUSED = [
    pytest.param(asking(limits={I915: "1"}), [message(I915)], id="one of it"),
    pytest.param(
        asking(limits={XE: "2"}, requests={XE: "2"}), [message(XE, amount="2")], id="one of the other driver's"
    ),
    pytest.param(asking(requests={XE: "1"}), [message(XE, "requests")], id="as a request"),
    pytest.param(case(pod(containers=[container(limits={I915: "1"})])), [message(I915)], id="beside GPUs"),
    pytest.param(
        case(pod(init=[container("setup", gpu=None, limits={I915: "1"})])),
        [message(I915, of="initContainers[0]", who="setup")],
        id="in an init container",
    ),
    pytest.param(asking(limits={I915: "some"}), [message(I915, amount="some")], id="an amount that is no quantity"),
    pytest.param(
        asking(NodeWideResources(names=("smarter-devices/*",)), limits={"smarter-devices/nvidia0": "1"}),
        [message("smarter-devices/nvidia0")],
        id="a name of the policy",
    ),
]

"""No container asks for a resource that hands out every device of a node.

Some device plugins offer one for their exporter: `gpu.intel.com/i915_monitoring` gives all GPUs of the node, also those that
other pods have. The operators' own pods are in the namespaces of `exempt`.

Fields read:   names of resources in limits and requests of spec.containers, initContainers and ephemeralContainers
Refused:       the names of `names`, in any quantity but zero
Not for DRA:   claims ask for admin access instead, which Kubernetes allows only in namespaces with a label

Source: intel/intel-device-plugins-for-kubernetes cmd/gpu_plugin (monitoring).
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import is_zero
from webhook.text import bare, matches_any, quoted
from webhook.vendors.catalogue import resources


class NodeWideResources(Rule):
    everywhere: ClassVar[bool] = True

    names: tuple[str, ...] = tuple([each.name for each in resources("all")])
    """Resources that nobody may ask for (name patterns)."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
            parts = container.spec.get("resources") or {}
            limits, requests = parts.get("limits") or {}, parts.get("requests") or {}
            for name in {**limits, **requests}:
                if not matches_any(self.names, name):
                    continue
                asked = [part[name] for part in (limits, requests) if name in part and not is_zero(part[name])]
                if asked:
                    yield Finding(
                        path=context.field_of(container, name),
                        seen=f"{quoted(asked[0])} {bare(name)} in container {quoted(container.name)}",
                        wanted="no such resource: one of it hands out every device of the node",
                        fix="Remove it, and ask for the GPUs that the container needs in its limits",
                    )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        asked = [
            f'{part("c")}.exists(k, {cel.matches("k", self.names)} && c.resources.{name}[k] != "0")'
            for part, name in ((cel.limits, "limits"), (cel.requests, "requests"))
        ]
        if self.names:
            yield Check("container", cel.any_of(asked), "no resource that hands out every device of a node")

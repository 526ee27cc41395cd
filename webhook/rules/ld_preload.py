"""No container sets LD_PRELOAD.

Hooks of NVIDIA's container toolkit before 1.17.8 ran with the environment of the container, as root on the node
(CVE-2025-23266). Off by default: allocators and GPU sharing are preloaded for good reasons, and an image can set the
variable too, where nobody sees it here. Only a newer toolkit on the nodes closes this hole.

Fields read:   env[*].name of spec.containers, initContainers and ephemeralContainers
Refused:       the variables of `names`
DRA:           the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import quoted


class LdPreload(Rule):
    """No container loads code into every process. Off: there are good reasons for it, and images can do it unseen."""

    everywhere: ClassVar[bool] = True

    action: Action = "off"
    names: tuple[str, ...] = ("LD_PRELOAD", "LD_AUDIT")
    """Variables that load code into every process."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if context.variables(pod).isdisjoint(self.names):
            return
        for container in context.containers(pod):
            for index, entry in enumerate(container.spec.get("env") or ()):
                if entry.get("name") in self.names:
                    yield Finding(
                        path=f"{container.field}.env[{index}]",
                        seen=f"{entry['name']} in container {quoted(container.name)}",
                        wanted="no such variable: an old container toolkit runs what it names as root on the node",
                        fix="Remove it, and link the library in the image",
                    )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        names = self.names
        yield Check("container", cel.env(f"e.name in {cel.literal(names)}"), f"no {', '.join(names)}")

"""No container is privileged.

A privileged container sees every device of the node, whatever it asked for.

Fields read:   securityContext.privileged of spec.containers, initContainers and ephemeralContainers
Allowed:       false, or none
Refused:       true
DRA:           the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from webhook.interface import Context, Finding, Rule
from webhook.pod import Pod
from webhook.text import quoted


class Privileged(Rule):
    """No container is privileged."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for container in context.containers(pod):
            security = container.spec.get("securityContext")
            if security and security.get("privileged"):
                yield Finding(
                    path=f"{container.field}.securityContext.privileged",
                    seen=f"true in container {quoted(container.name)}",
                    wanted="false: a privileged container sees every GPU of the node",
                    fix="Remove it; a GPU limit is all that a container needs to use a GPU",
                )

"""No container is privileged.

A privileged container sees every device of the node, whatever it asked for. On Windows the same is called hostProcess.

Fields read:   securityContext.privileged, .procMount and .windowsOptions.hostProcess of spec.containers, initContainers and
               ephemeralContainers; spec.securityContext.windowsOptions.hostProcess
Allowed:       false, or none
Refused:       true
Warned about:  procMount Unmasked, which shows files of the kernel that are hidden otherwise
DRA:           the same.

Source: Pod Security Standards, baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import quoted

_FIX = "Remove it; a GPU limit is all that a container needs to use a GPU"


class Privileged(Rule):
    """No container is privileged, or a hostProcess of Windows: it would see every device."""

    everywhere: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if _host_process(pod["spec"].get("securityContext")):
            yield _of_windows("spec", "true in the pod")
        for container in context.containers(pod):
            security = container.spec.get("securityContext")
            if not security:
                continue
            where = f"in container {quoted(container.name)}"
            if security.get("privileged"):
                yield Finding(
                    path=f"{container.field}.securityContext.privileged",
                    seen=f"true {where}",
                    wanted="false: a privileged container sees every GPU of the node",
                    fix=_FIX,
                )
            if _host_process(security):
                yield _of_windows(container.field, f"true {where}")
            if security.get("procMount") == "Unmasked":
                yield Finding(
                    path=f"{container.field}.securityContext.procMount",
                    seen=f"Unmasked {where}",
                    wanted="Default: the other shows files of the kernel that are hidden for good reasons",
                    fix="Remove it",
                    only_warn=True,
                )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        wanted = "no privileged container: it sees every GPU of the node"
        security = "c.?securityContext"
        windows = "?securityContext.?windowsOptions.?hostProcess.orValue(false)"
        bad = cel.any_of([f"{security}.?privileged.orValue(false)", f"c.{windows}"])
        yield Check("container", bad, wanted)
        yield Check("pod", f"object.spec.{windows}", wanted)
        unmasked = f'{security}.?procMount.orValue("") == "Unmasked"'
        yield Check("container", unmasked, "the procMount Default", only_warn=True)


def _of_windows(field: str, seen: str) -> Finding:
    path = f"{field}.securityContext.windowsOptions.hostProcess"
    return Finding(path, seen, "false: such a container runs on the node itself and sees every GPU of it", _FIX)


def _host_process(security: Mapping[str, Any] | None) -> bool:
    options = security.get("windowsOptions") if security else None
    return bool(options and options.get("hostProcess"))

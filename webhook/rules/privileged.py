"""No container is privileged.

A privileged container sees every device of the node. On Windows the same is called hostProcess.

Fields read:   securityContext.privileged, .procMount, .windowsOptions.hostProcess, .seccompProfile.type, .appArmorProfile.type,
               .seLinuxOptions.type of spec.containers, initContainers and ephemeralContainers; of spec.securityContext too
Refused:       privileged or hostProcess that is true
Warned about:  settings that confine a container less: procMount Unmasked, a profile of type Unconfined, an SELinux type that is
               not one of `seLinuxTypes` (`spc_t` confines nothing)
DRA:           the same.

Source: Pod Security Standards, baseline.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import quoted

_FIX = "Remove it: for a GPU a limit is enough, for more add single capabilities, for example NET_ADMIN"
_ON_WINDOWS = "Remove it; a GPU limit is all that a container needs to use a GPU"
_PROFILES = ("seccompProfile", "appArmorProfile")


class Privileged(Rule):
    everywhere: ClassVar[bool] = True

    selinux_types: tuple[str, ...] = Field(
        default=("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"), alias="seLinuxTypes"
    )
    """SELinux types that confine a container. There is a warning about any other type."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        levels = [("spec", "the pod", pod.spec.get("securityContext"))]
        levels += [
            (container.field, f"container {quoted(container.name)}", container.spec.get("securityContext"))
            for container in pod.containers
        ]
        for field, where, security in levels:
            if not security:
                continue
            path = f"{field}.securityContext"
            if security.get("privileged"):
                wanted = "false: a privileged container sees every GPU of the node"
                yield Finding(f"{path}.privileged", f"true in {where}", wanted, _FIX)
            if (security.get("windowsOptions") or {}).get("hostProcess"):
                wanted = "false: such a container runs on the node itself and sees every GPU of it"
                yield Finding(f"{path}.windowsOptions.hostProcess", f"true in {where}", wanted, _ON_WINDOWS)
            for name, value in self._unconfined(security):
                wanted = "another value: this one confines a container less"
                yield Finding(f"{path}.{name}", f"{quoted(value)} in {where}", wanted, "Remove it", only_warn=True)

    def _unconfined(self, security: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """The settings that confine a container less than the default: field and value."""
        if security.get("procMount") == "Unmasked":
            yield "procMount", "Unmasked"
        for name in _PROFILES:
            if (security.get(name) or {}).get("type") == "Unconfined":
                yield f"{name}.type", "Unconfined"
        label = (security.get("seLinuxOptions") or {}).get("type")
        if label and label not in self.selinux_types:
            yield "seLinuxOptions.type", label

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        wanted = "no privileged container: it sees every GPU of the node"
        windows = "?securityContext.?windowsOptions.?hostProcess.orValue(false)"
        bad = cel.any_of(["c.?securityContext.?privileged.orValue(false)", f"c.{windows}"])
        yield Check("container", bad, wanted)
        yield Check("pod", f"object.spec.{windows}", wanted)
        for of in ("c", "object.spec"):
            security = f"{of}.?securityContext"
            unconfined = [f'{security}.?{name}.?type.orValue("") == "Unconfined"' for name in _PROFILES]
            unconfined += [
                f'!({security}.?seLinuxOptions.?type.orValue("") in {cel.literal(("", *self.selinux_types))})'
            ]
            unconfined += [f'{security}.?procMount.orValue("") == "Unmasked"'] if of == "c" else []
            confined = "no setting that confines a container less"
            yield Check("container" if of == "c" else "pod", cel.any_of(unconfined), confined, only_warn=True)

"""No container gets the variables that hand out devices from a ConfigMap or Secret.

What is in envFrom is not known here, and overrides the device plugin: a ConfigMap with `NVIDIA_VISIBLE_DEVICES=all` gives every
GPU of the node. In containers without a GPU the `void` of voidDevices overrides it; in those with one nothing does.

Fields read:   envFrom[*].prefix of spec.containers, initContainers and ephemeralContainers
Warned about:  in a container with a GPU limit, a source with a prefix, or none, with which a variable can have one of `names`, or
               a name that ends in `_VISIBLE_DEVICES` (`unknown`: warn, deny or off)
DRA:           a claim is no GPU limit: `void` is set beside it too

Source: kubelet makeEnvironmentVariables, pkg/kubelet/kubelet_pods.go («Env will override EnvFrom»).
"""

from collections.abc import Iterable
from typing import ClassVar, Self

from webhook.framework.device_variables import DEVICES, NVIDIA
from webhook.framework.interface import Action, Check, Context, Finding, Gpus, ProfileView, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.text import bare, quoted

_SUFFIX = "_VISIBLE_DEVICES"
_PARTS = tuple([_SUFFIX[:end] for end in range(len("_VISIBLE"), len(_SUFFIX))])
"""Beginnings of `_SUFFIX` with which no prefix may end: a key of the ConfigMap could be the rest of the name."""


class DeviceEnvFrom(Rule):
    everywhere: ClassVar[bool] = True

    names: tuple[str, ...] | None = None
    """Variables that hand out devices (name patterns). null: `names` and `besideGpu` of deviceEnv."""
    unknown: Action = "warn"
    """The action for a source that may bring such a variable, in a container with a GPU: deny | warn | off. Without a prefix it
    may bring any variable."""

    def completed(self, profile: ProfileView) -> Self:
        if self.names is not None:
            return self
        env = profile.rules["deviceEnv"]
        return self.model_copy(update={"names": (*env.names, *env.beside_gpu)})

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers if self.unknown != "off" else ():
            sources = container.spec.get("envFrom") or ()
            for index, source in enumerate(sources if container.has_gpu(context.gpus) else ()):
                prefix = source.get("prefix") or ""
                if made := self._made(prefix):
                    which, other = (f" that begin with {quoted(prefix)}", "another") if prefix else ("", "a")
                    yield Finding(
                        path=f"{container.field}.envFrom[{index}]",
                        seen=f"variables of unknown names{which} in container {quoted(container.name)}, which asks for a GPU",
                        wanted=f"variables by name: one called {made} would hand out devices past the GPU limit",
                        fix=f"List the variables under env with valueFrom, or give the source {other} prefix",
                        only_warn=self.unknown == "warn",
                    )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        if self.unknown == "off":
            return
        prefix, names = 's.?prefix.orValue("")', self.names or DEVICES
        longer = cel.one_of([n[:-1] for n in names if n.endswith("*")], lambda name: f"{prefix}.startsWith({name})")
        begins = f"{cel.literal([n.removesuffix('*') for n in names])}.exists(n, n.startsWith({prefix}))"
        ends = cel.one_of(_PARTS, lambda part: f"{prefix}.endsWith({part})")
        makes_one = f'{cel.field("c", "envFrom")}.exists(s, {prefix} == "" || {begins} || {longer} || {ends})'
        wanted = (
            "variables by name, or a prefix that makes none of the variables that hand out devices past the GPU limit"
        )
        yield Check("container", cel.all_of([makes_one, cel.ASKS]), wanted, only_warn=self.unknown == "warn")

    def _made(self, prefix: str) -> str | None:
        """The name of a variable that hands out devices and that the prefix and a key can make."""
        if not prefix:
            return NVIDIA
        return next((name for name in self.names or DEVICES if _begins(prefix, name)), _by_suffix(prefix))


def _by_suffix(prefix: str) -> str | None:
    """The name ending in `_VISIBLE_DEVICES` that the prefix and a key can make; None if the prefix ends otherwise."""
    part = next((part for part in _PARTS if prefix.endswith(part)), None)
    return None if part is None else f"{bare(prefix.removesuffix(part))}{_SUFFIX}"


def _begins(prefix: str, name: str) -> bool:
    """Whether the prefix and a key can make a name that the pattern `name` matches."""
    begins = name.removesuffix("*")
    return begins.startswith(prefix) or (begins != name and prefix.startswith(begins))

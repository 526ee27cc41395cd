"""Names of GPU resources are spelt right.

To Kubernetes `nvdia.com/gpu`, `nvidia/gpu` or `amd.com/gpus` is a resource like any other: no node has it, and the pod stays
pending. The names of GPUs are in `gpus` of the policy. Whether a node has them is checked by the rule gpuFits.

Fields read:   names of resources in limits and requests of spec.containers and initContainers
Allowed:       the names of `gpus`; those of `others`; names that are not similar to one of `gpus`
Warned about:  a name that differs from one of `gpus` by a letter or two, by case, by a plural or by its domain
Not for DRA:   device classes have names of their own.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Gpus, Pod, Rule
from webhook.text import bare, matches_any, one_edit_apart, quoted

_MAX_LENGTH = 64
_ALIKE = 0.66
"""Smallest similarity of two domains that counts as a slip. `nvdia` and `nvidia` have 0.91, `arm` and `amd` 0.67, `iluvatar` and
`nvidia` 0.57."""


class GpuNames(Rule):
    """Names of GPU resources are spelt right: nvdia.com/gpu, nvidia/gpu and amd.com/gpus are not."""

    not_exported: ClassVar[str] = "compares names by similarity"

    action: Action = "warn"
    others: tuple[str, ...] = (
        *("nvidia.com/gpumem*", "nvidia.com/gpucores", "nvidia.com/pgpu", "nvidia.com/vgpu", "volcano.sh/*"),
        *("aliyun.com/*", "k8s.amazonaws.com/vgpu"),
    )
    """Correct names that are similar to one of `gpus` (name patterns)."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        for container in context.containers(pod):
            resources = container.spec.get("resources") or {}
            limits = resources.get("limits") or {}
            for name in {**limits, **(resources.get("requests") or {})}:
                if correct := self._nearest_gpu(name, context.gpus):
                    part = "limits" if name in limits else "requests"
                    yield Finding(
                        path=f"{container.field}.resources.{part}[{bare(name)}]",
                        seen=f"{bare(name)} in container {quoted(container.name)}",
                        wanted=f"{correct}: what stands there is no GPU",
                        fix=f"Write {correct}",
                    )

    def _nearest_gpu(self, name: str, gpus: Gpus) -> str | None:
        """The correct name of a misspelt GPU resource; None if nothing is misspelt."""
        if "/" not in name or len(name) > _MAX_LENGTH or gpus.kind(name) is not None or matches_any(self.others, name):
            return None
        domain, _, resource = name.lower().partition("/")
        for gpu in gpus.names:
            known_domain, _, known_resource = gpu.name.removesuffix("*").partition("/")
            if gpu.name.endswith("*"):
                begins = domain == known_domain and _plain(resource).startswith(_plain(known_resource))
                if begins and len(resource) > len(known_resource):
                    return f"{known_domain}/{known_resource}{_plain(resource).removeprefix(_plain(known_resource))}"
            elif resource == known_resource or _plain(resource) == _plain(known_resource):
                if SequenceMatcher(None, _vendor(domain), _vendor(known_domain)).ratio() >= _ALIKE:
                    return gpu.name
            elif domain == known_domain and one_edit_apart(resource, known_resource):
                return gpu.name
        return None


def _vendor(domain: str) -> str:
    """The longest part of a domain: "nvidia" of "nvidia.com"."""
    return max(domain.split("."), key=len)


def _plain(resource: str) -> str:
    return resource.replace("-", "").replace("_", "").removesuffix("s")

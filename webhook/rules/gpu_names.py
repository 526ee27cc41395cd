"""Names of GPU resources are spelt right.

`nvdia.com/gpu`, `nvidia/gpu` or `amd.com/gpus` is on no node, so the pod stays pending.

Fields read:   names of resources in limits and requests of spec.containers and initContainers
Allowed:       names of `gpus`, of `others` and of docs/vendors.md; names similar to none of `gpus`
Warned about:  a name that differs from one of `gpus` by a letter or two, case, a plural or its domain
Not for DRA:   device classes have names of their own
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Gpus, Rule
from webhook.kube.asked import AskedPod
from webhook.text import Patterns, bare, matches_any, quoted
from webhook.vendors.catalogue import every
from webhook.vendors.model import Resource

_MAX_LENGTH = 64
_KNOWN = Patterns(each.name for each in every(Resource))
_ALIKE = 0.83
"""Smallest similarity of two names that counts as a slip. `nvdia.com/gpu` and `nvidia.com/gpu` have 0.96, `nvidia/gpu` 0.83,
`example.com/gpu` and `amd.com/gpu` 0.77."""


class GpuNames(Rule):
    not_exported: ClassVar[str] = "compares names by similarity"

    action: Action = "warn"
    others: tuple[str, ...] = ()
    """Correct names that are similar to one of `gpus` (name patterns), besides those of docs/vendors.md."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for container in pod.containers:
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
        if "/" not in name or len(name) > _MAX_LENGTH or gpus.kind(name) is not None:
            return None
        if _KNOWN.match(name) or matches_any(self.others, name):
            return None
        lower = name.lower()
        letters, length = frozenset(lower), len(lower)
        known = [
            known
            for known in [gpu.name for gpu in gpus.names if gpu.name[-1] != "*"]
            if length - len(letters.difference(known)) >= _ALIKE / 2 * (length + len(known))  # most letters are in both
        ]
        return next(iter(get_close_matches(lower, known, 1, _ALIKE)), None)

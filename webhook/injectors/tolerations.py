"""Tolerations for the taints of GPU nodes.

Clusters taint GPU nodes to keep other pods away; four of five GPU manifests do not tolerate that taint and wait for ever.
Added are a toleration for each taint in `taints` whose vendor the pod asks for, and, while the cluster state is known,
for each taint that GPU nodes really carry and `allowed` names. Never added: a wildcard, the same key twice, or one that a
toleration of the pod already covers.

Fields: spec.tolerations. Sources: pkg/util/tolerations/tolerations.go (isSuperset: what covers what),
plugin/pkg/admission/extendedresourcetoleration (the in-tree plugin that does this for one exact form).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PrivateAttr, field_validator

from webhook.gpus import vendor
from webhook.interface import Context, Injector, Outcome, Settings, Taint
from webhook.patch import Edit
from webhook.text import matches

_REMEMBERED = 64
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class PolicyTaint(Settings):
    """A taint that the policy knows without looking at nodes."""

    key: str
    value: str | None = None
    """Tolerate only this value; any, where it is missing."""
    effect: Effect = "NoSchedule"
    vendor: str | None = None
    """Only for pods that ask for a GPU of this vendor ("nvidia.com"); for all GPU pods, where it is missing."""

    @field_validator("key")
    @classmethod
    def _no_wildcard(cls, key: str) -> str:
        if not key or "*" in key:
            raise ValueError("a toleration without a key tolerates every taint, control planes included: name one key")
        return key


class AllowedTaint(Settings):
    """A taint that may be tolerated where nodes with GPUs carry it."""

    key: str
    """Exact, or with a trailing `*`."""
    value: str | None = None

    @field_validator("key")
    @classmethod
    def _not_all(cls, key: str) -> str:
        if key in ("", "*") or matches(key, "node.kubernetes.io/") or matches(key, "node-role.kubernetes.io/"):
            raise ValueError("this would tolerate nodes that are not ready, or control planes: name GPU taints only")
        return key

    def allows(self, taint: Taint) -> bool:
        return matches(self.key, taint.key) and self.value in (None, taint.value)


class Tolerations(Injector):
    """Tolerations for the taints of GPU nodes are added."""

    taints: tuple[PolicyTaint, ...] = (
        PolicyTaint(key="nvidia.com/gpu", vendor="nvidia.com"),
        PolicyTaint(key="amd.com/gpu", vendor="amd.com"),
        PolicyTaint(key="gpu.intel.com/i915", vendor="gpu.intel.com"),
        PolicyTaint(key="gpu.intel.com/xe", vendor="gpu.intel.com"),
        PolicyTaint(key="habana.ai/gaudi", vendor="habana.ai"),
    )
    allowed: tuple[AllowedTaint, ...] = Field(
        default=(
            AllowedTaint(key="nvidia.com/gpu"),
            AllowedTaint(key="nvidia.com/mig*"),
            AllowedTaint(key="amd.com/gpu"),
            AllowedTaint(key="gpu.intel.com/*"),
            AllowedTaint(key="habana.ai/gaudi"),
            AllowedTaint(key="sku", value="gpu"),
            AllowedTaint(key="gpu"),
            AllowedTaint(key="dedicated", value="gpu"),
        )
    )

    _wanted: dict[tuple[frozenset[str], tuple[Taint, ...]], dict[str, dict[str, Any]]] = PrivateAttr(
        default_factory=dict
    )
    """What was worked out for the GPUs that a pod names and the taints of that moment."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        present: list[Mapping[str, Any]] = edit.object["spec"].get("tolerations") or []
        wanted = self._for(context)
        added = [key for key in wanted if not any([covers(one, wanted[key]) for one in present])]
        if not added:
            return Outcome("covered")
        edit.extend(("spec", "tolerations"), [dict(wanted[key]) for key in added])
        return Outcome("added", added)

    def _for(self, context: Context) -> dict[str, dict[str, Any]]:
        names = context.gpu_names
        taints = context.cluster.gpu_taints(context.gpus) if context.cluster.fresh else ()
        found = self._wanted.get((names, taints))
        if found is None:
            if len(self._wanted) >= _REMEMBERED:
                self._wanted.clear()
            found = self._wanted[names, taints] = self._work_out(names, taints)
        return found

    def _work_out(self, names: frozenset[str], taints: tuple[Taint, ...]) -> dict[str, dict[str, Any]]:
        """One toleration per key; where two taints of one key differ in value or effect, one that covers both."""
        vendors = {vendor(name) for name in names}
        wanted: dict[str, dict[str, Any]] = {}
        for taint in self.taints:
            if taint.vendor is None or taint.vendor in vendors:
                _merge(wanted, _toleration(taint.key, taint.value, taint.effect))
        for live in taints:
            if any(allowed.allows(live) for allowed in self.allowed) and not any(
                covers(one, _toleration(live.key, live.value, live.effect)) for one in wanted.values()
            ):
                _merge(wanted, _toleration(live.key, None, live.effect))
        return wanted


def _toleration(key: str, value: str | None, effect: str) -> dict[str, Any]:
    if value is None:
        return {"key": key, "operator": "Exists", "effect": effect}
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def _merge(wanted: dict[str, dict[str, Any]], toleration: dict[str, Any]) -> None:
    before = wanted.setdefault(toleration["key"], toleration)
    if before is not toleration and not covers(before, toleration):
        both = {"key": toleration["key"], "operator": "Exists"}
        wanted[toleration["key"]] = both | (
            {"effect": before["effect"]} if before.get("effect") == toleration["effect"] else {}
        )


def covers(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether toleration `one` tolerates everything that `other` does (isSuperset, its quirk of a missing operator included)."""
    if one == other:
        return True
    key, operator, effect = one.get("key") or "", one.get("operator") or "", one.get("effect") or ""
    if key != (other.get("key") or "") and not (key == "" and operator == "Exists"):
        return False
    if effect not in ("", other.get("effect") or ""):
        return False
    if effect == "NoExecute" and (seconds := one.get("tolerationSeconds")) is not None:
        wanted = other.get("tolerationSeconds")
        if wanted is None or wanted > seconds:
            return False
    if operator in ("Equal", ""):
        return other.get("operator") == "Equal" and (other.get("value") or "") == (one.get("value") or "")
    return operator == "Exists"

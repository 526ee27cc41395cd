"""Tolerations for the taints of GPU nodes.

Clusters taint GPU nodes to keep other pods away; four of five GPU manifests do not tolerate that taint and wait for ever.
Added are a toleration for each taint in `taints` whose vendor the pod asks for, and, while the cluster state is known,
for each taint that GPU nodes really carry and `allowed` names. Never added: a wildcard, the same key twice (unless the
policy names two values of it), or one that a toleration of the pod already covers.

Fields: spec.tolerations. Sources: pkg/util/tolerations/tolerations.go (isSuperset: what covers what),
plugin/pkg/admission/extendedresourcetoleration (the in-tree plugin that does this for one exact form).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, Literal

from pydantic import field_validator

from webhook.framework.cluster_view import Taint
from webhook.framework.interface import Context, Injector, LabelKey, LabelValue, Outcome, Settings
from webhook.kube import cel
from webhook.kube.gpus import Gpus, vendor
from webhook.kube.json_patch import Edit
from webhook.text import matches

_OF_KUBERNETES = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class PolicyTaint(Settings):
    """A taint that the policy knows without looking at nodes."""

    key: LabelKey
    value: LabelValue | None = None
    """tolerate this value only; left out: any"""
    effect: Effect = "NoSchedule"
    """of the taint: NoSchedule | PreferNoSchedule | NoExecute"""
    vendor: str | None = None
    """only for pods that ask for a GPU of this domain; left out: for all GPU pods"""

    @field_validator("key", mode="before")
    @classmethod
    def _no_wildcard(cls, key: Any) -> Any:
        if key == "" or (isinstance(key, str) and "*" in key):
            raise ValueError("a toleration without a key tolerates every taint, control planes included: name one key")
        return _of_gpus(key)


def _of_gpus(pattern: Any) -> Any:
    """`pattern`, unless it matches a taint by which Kubernetes itself keeps pods away."""
    if isinstance(pattern, str):
        stem = pattern.removesuffix("*")
        if any(stem.startswith(k) or (stem != pattern and k.startswith(stem)) for k in _OF_KUBERNETES) or not stem:
            raise ValueError("this would tolerate nodes that are not ready, or control planes: name GPU taints only")
    return pattern


class AllowedTaint(Settings):
    """A taint that may be tolerated where nodes with GPUs carry it."""

    key: str
    """a name pattern"""
    value: str | None = None
    """only this value; left out: any"""

    @field_validator("key", mode="before")
    @classmethod
    def _not_all(cls, key: Any) -> Any:
        return _of_gpus(key)

    def allows(self, taint: Taint) -> bool:
        return matches(self.key, taint.key) and self.value in (None, taint.value)


class Tolerations(Injector):
    """Tolerations for the taints of GPU nodes. Never one without a key: that tolerates control planes too."""

    taints: tuple[PolicyTaint, ...] = (
        PolicyTaint(key="nvidia.com/gpu", vendor="nvidia.com"),
        PolicyTaint(key="amd.com/gpu", vendor="amd.com"),
        PolicyTaint(key="gpu.intel.com/i915", vendor="gpu.intel.com"),
        PolicyTaint(key="gpu.intel.com/xe", vendor="gpu.intel.com"),
        PolicyTaint(key="habana.ai/gaudi", vendor="habana.ai"),
    )
    """Added without looking at nodes."""
    allowed: tuple[AllowedTaint, ...] = (
        AllowedTaint(key="nvidia.com/gpu"),
        AllowedTaint(key="nvidia.com/mig*"),
        AllowedTaint(key="amd.com/gpu"),
        AllowedTaint(key="gpu.intel.com/*"),
        AllowedTaint(key="habana.ai/gaudi"),
        AllowedTaint(key="sku", value="gpu"),
        AllowedTaint(key="gpu"),
        AllowedTaint(key="dedicated", value="gpu"),
    )
    """Added where nodes with GPUs carry the taint now, and it is one of these."""

    @property
    def claims(self) -> bool:
        return True

    def inject(self, edit: Edit, context: Context) -> Outcome:
        present: list[Mapping[str, Any]] = edit.object["spec"].get("tolerations") or []
        taints = context.cluster.gpu_taints(context.gpus) if context.cluster.fresh else ()
        vendors = {vendor(name) for name in context.gpu_names} | (
            context.other_gpus if len(context.other_gpus) == 1 else set()
        )
        if not vendors:  # claims, of whichever of several vendors
            return Outcome("covered")
        wanted = self._wanted(vendors, taints)
        added = [one for one in wanted if not any([covers(other, one) for other in present])]
        if not added:
            return Outcome("covered")
        edit.extend(("spec", "tolerations"), added)
        return Outcome("added", [one["key"] for one in added])

    def exported(self, gpus: Gpus) -> Iterable[str]:
        if not self.taints:
            return
        parts = ['(has(object.spec.tolerations) ? [] : [JSONPatch{op: "add", path: "/spec/tolerations", value: []}])']
        for taint in self.taints:
            mine = [g.name for g in gpus.names if taint.vendor is None or vendor(g.name) == taint.vendor]
            k = cel.matches("k", mine)
            wanted = f"variables.containers.exists(c, {cel.limits('c')}.exists(k, {k}) || {cel.requests('c')}.exists(k, {k}))"
            value = f", value: {cel.literal(taint.value)}" if taint.value is not None else ""
            operator = "Equal" if taint.value is not None else "Exists"
            toleration = (
                f"Object.spec.tolerations{{key: {cel.literal(taint.key)}, operator: {cel.literal(operator)}"
                f"{value}, effect: {cel.literal(taint.effect)}}}"
            )
            patch = f'[JSONPatch{{op: "add", path: "/spec/tolerations/-", value: {toleration}}}]'
            parts.append(f"({wanted} && !{_tolerated(taint)} ? {patch} : [])")
        yield " +\n".join(parts)

    def _wanted(self, vendors: Set[str], taints: tuple[Taint, ...]) -> list[dict[str, Any]]:
        """What a pod with GPUs of these vendors is to tolerate, each key once as far as the policy does not name its values."""
        effects: dict[tuple[str, str | None], dict[str, None]] = {}
        for taint in self.taints:
            if taint.vendor is None or taint.vendor in vendors:
                effects.setdefault((taint.key, taint.value), {})[taint.effect] = None
        others = {taint.vendor for taint in self.taints} - vendors
        for live in taints:
            tolerated = any([live.effect in effects.get((live.key, value), ()) for value in (None, live.value)])
            if tolerated or vendor(live.key) in others:
                continue
            if values := [allowed.value for allowed in self.allowed if allowed.allows(live)]:
                value = None if None in values else live.value
                effects.setdefault((live.key, value), {})[live.effect] = None
        wanted = [_toleration(key, value, tuple(found)) for (key, value), found in effects.items()]
        return [one for one in wanted if not any([other is not one and covers(other, one) for other in wanted])]


def _toleration(key: str, value: str | None, effects: tuple[str, ...]) -> dict[str, Any]:
    """Of several effects one for all effects."""
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator} | ({"effect": effects[0]} if len(effects) == 1 else {})


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


def _tolerated(taint: PolicyTaint) -> str:
    """`covers` in CEL: whether the pod tolerates the taint already."""
    key, effect = 't.?key.orValue("")', 't.?effect.orValue("")'
    same = [f"{key} == {cel.literal(taint.key)}", f'({effect} == "" || {effect} == {cel.literal(taint.effect)})']
    exists = 't.?operator.orValue("") == "Exists"'
    fits = exists
    if taint.value is not None:
        fits = f'({exists} || t.?value.orValue("") == {cel.literal(taint.value)})'
    everything = cel.all_of([f'{key} == ""', exists, same[1]])
    return (
        "object.spec.?tolerations.orValue([]).exists(t, "
        f"!has(t.tolerationSeconds) && ({everything} || {cel.all_of([*same, fits])}))"
    )

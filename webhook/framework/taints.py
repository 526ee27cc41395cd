"""Taints of GPU nodes: how a policy writes them, and the tolerations for them.

Source: pkg/util/tolerations/tolerations.go (isSuperset).
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from webhook.framework.cluster_view import Taint
from webhook.framework.interface import LabelKey, LabelValue, Settings
from webhook.kube import cel
from webhook.text import matches

_KUBERNETES_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
)
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def _gpu_taint(pattern: Any) -> Any:
    """`pattern`, unless it matches a taint that Kubernetes itself sets."""
    if isinstance(pattern, str):
        stem = pattern.removesuffix("*")
        if any(stem.startswith(k) or (stem != pattern and k.startswith(stem)) for k in _KUBERNETES_TAINTS) or not stem:
            raise ValueError("this would tolerate nodes that are not ready, or control planes: name GPU taints only")
    return pattern


def _single_key(key: Any) -> Any:
    if key == "" or (isinstance(key, str) and "*" in key):
        raise ValueError("a toleration without a key tolerates every taint, control planes included: name one key")
    return _gpu_taint(key)


class PolicyTaint(Settings):
    """A taint that pods tolerate whether or not a node has it now."""

    key: Annotated[LabelKey, BeforeValidator(_single_key)]
    value: LabelValue | None = None
    """tolerate this value only; left out: any"""
    effect: Effect = "NoSchedule"
    """of the taint: NoSchedule | PreferNoSchedule | NoExecute"""
    vendor: str | None = None
    """only for pods that ask for GPUs of this domain; left out: for all GPU pods"""


class AllowedTaint(Settings):
    """A taint that pods tolerate if nodes with GPUs have it."""

    key: Annotated[str, BeforeValidator(_gpu_taint)]
    """a name pattern"""
    value: str | None = None
    """only this value; left out: any"""

    def allows(self, taint: Taint) -> bool:
        return matches(self.key, taint.key) and self.value in (None, taint.value)


def toleration(key: str, value: str | None, effects: tuple[str, ...]) -> dict[str, Any]:
    """A toleration for a taint with these effects. If there are several, it tolerates every effect."""
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator} | ({"effect": effects[0]} if len(effects) == 1 else {})


def covers(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether toleration `one` tolerates everything that `other` does.

    As isSuperset: a missing operator is not the same as Equal there. `Gt` and `Lt` count as if they did: whoever tolerates
    some values of a taint is not made to tolerate all.
    """
    if one == other:
        return True
    key, operator, effect = one.get("key") or "", one.get("operator") or "", one.get("effect") or ""
    if key != (other.get("key") or "") and not (key == "" and operator == "Exists"):
        return False
    if effect not in ("", other.get("effect") or ""):
        return False
    if effect == "NoExecute" and (seconds := one.get("tolerationSeconds")) is not None:
        other_seconds = other.get("tolerationSeconds")
        if other_seconds is None or other_seconds > seconds:
            return False
    if operator in ("Gt", "Lt"):
        return bool(key)
    if operator in ("Equal", ""):
        return other.get("operator") == "Equal" and (other.get("value") or "") == (one.get("value") or "")
    return operator == "Exists"


def tolerated(taint: PolicyTaint) -> str:
    """`covers` in CEL: whether the pod tolerates the taint already."""
    key, effect = 't.?key.orValue("")', 't.?effect.orValue("")'
    terms = [f"{key} == {cel.literal(taint.key)}", f'({effect} == "" || {effect} == {cel.literal(taint.effect)})']
    exists = 't.?operator.orValue("") == "Exists"'
    fits = exists
    if taint.value is not None:
        fits = f'({exists} || t.?value.orValue("") == {cel.literal(taint.value)})'
    everything = cel.all_of([f'{key} == ""', exists, terms[1]])
    return (
        "object.spec.?tolerations.orValue([]).exists(t, "
        f"!has(t.tolerationSeconds) && ({everything} || {cel.all_of([*terms, fits])}))"
    )

"""Taints and tolerations: how a policy writes taints of GPU nodes, and which taints a toleration matches.

Source: k8s.io/api core/v1 (Toleration.ToleratesTaint).
"""

from collections.abc import Container, Mapping
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
Tolerated = tuple[str, str | None, str]
"""Key, value and effect of taints: "" means any key and any effect, None any value."""


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


def toleration(key: str, value: str | None, effect: str) -> dict[str, Any]:
    """A toleration as a pod has it. `value` None: of any value; `effect` "": of every effect."""
    operator = {"operator": "Exists"} if value is None else {"operator": "Equal", "value": value}
    return {"key": key, **operator} | ({"effect": effect} if effect else {})


def matched(toleration: Mapping[str, Any]) -> Tolerated | None:
    """What a toleration matches; None if nothing.

    Which values `Gt` and `Lt` match depends on a feature gate (KEP-5471). The scheduler decides it: here they match any.
    """
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    effect = toleration.get("effect") or ""
    if operator == "Exists" or (operator in ("Gt", "Lt") and key):
        return key, None, effect
    return (key, toleration.get("value") or "", effect) if operator == "Equal" and key else None


def tolerates(tolerations: Container[Tolerated], taint: Tolerated) -> bool:
    """Whether one of these matches a taint, or all taints that `taint` stands for.

    Every node may have different taints, and a pod hundreds of tolerations: these are looked up, not tried one by one.
    """
    key, value, effect = taint
    every = [(k, v, e) for k, v in (("", None), (key, None), (key, value)) for e in ("", effect)]
    return any([each in tolerations for each in every])


def in_cel(taint: PolicyTaint) -> str:
    """Whether the pod tolerates the taint already, in CEL."""
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

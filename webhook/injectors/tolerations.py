"""Tolerations for the taints of GPU nodes.

Clusters taint GPU nodes to keep other pods away; four of five GPU manifests do not tolerate that taint and wait for ever.
Added are a toleration for each taint in `taints` whose vendor the pod asks for, and, while the cluster state is known,
for each taint that GPU nodes really carry and `allowed` names. Never added: a wildcard, the same key twice (unless the
policy names two values of it), or one that a toleration of the pod already covers.

A hard spread with `nodeTaintsPolicy: Honor` counts the domains of the nodes whose taints the pod tolerates. So such a pod gets no
toleration while there are nodes that it can go to without: a full node with a taint would keep it off the others.

Fields: spec.tolerations. Sources: pkg/util/tolerations/tolerations.go (isSuperset: what covers what),
plugin/pkg/admission/extendedresourcetoleration (the in-tree plugin that does this for one exact form).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any, ClassVar

from webhook.framework.cluster_view import Taint
from webhook.framework.interface import Context, Injector, Outcome
from webhook.framework.node_terms import REQUIRED_TERMS
from webhook.framework.taints import AllowedTaint, PolicyTaint, covers, tolerated, toleration
from webhook.kube import cel
from webhook.kube.gpus import Gpus, vendor
from webhook.kube.json_patch import Edit

_VENDORS = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")


class Tolerations(Injector):
    """Tolerations for the taints of GPU nodes. Never one without a key: that tolerates control planes too."""

    claims: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "covered": "it tolerates the taints of GPU nodes already",
        "left": "no toleration: its hard spread counts the nodes whose taints it tolerates, and some need none",
        "added": "it got tolerations of {}",
    }

    taints: tuple[PolicyTaint, ...] = tuple(
        [PolicyTaint(key=key, vendor=vendor(key)) for key in (*_VENDORS, "gpu.intel.com/i915", "gpu.intel.com/xe")]
    )
    """Added without looking at nodes."""
    allowed: tuple[AllowedTaint, ...] = (
        *[AllowedTaint(key=key) for key in (*_VENDORS, "nvidia.com/mig*", "gpu.intel.com/*", "gpu")],
        *(AllowedTaint(key="sku", value="gpu"), AllowedTaint(key="dedicated", value="gpu")),
    )
    """Added where nodes with GPUs carry the taint now, and it is one of these."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        present: list[Mapping[str, Any]] = edit.object["spec"].get("tolerations") or []
        taints = context.cluster.gpu_taints(context.gpus) if context.cluster.fresh else ()
        vendors = {vendor(name) for name in context.gpu_names} | (
            context.other_gpus if len(context.other_gpus) == 1 else set()
        )
        if not vendors:  # claims, of whichever of several vendors
            return Outcome("covered")
        needed = self._needed(vendors, taints)
        added = [one for one in needed if not any([covers(other, one) for other in present])]
        if not added:
            return Outcome("covered")
        if _counts_by_taints(edit.object["spec"]) and _needs_none(edit, context):
            return Outcome("left")
        edit.extend(("spec", "tolerations"), added)
        return Outcome("added", [one["key"] for one in added])

    def exported(self, gpus: Gpus) -> Iterable[str]:
        if not self.taints:
            return
        parts = ['(has(object.spec.tolerations) ? [] : [JSONPatch{op: "add", path: "/spec/tolerations", value: []}])']
        for taint in self.taints:
            mine = Gpus(gpu for gpu in gpus.names if taint.vendor in (None, vendor(gpu.name)))
            asks = cel.names_gpu("variables.containers", mine)
            value = f", value: {cel.literal(taint.value)}" if taint.value is not None else ""
            operator = "Equal" if taint.value is not None else "Exists"
            ours = (
                f"Object.spec.tolerations{{key: {cel.literal(taint.key)}, operator: {cel.literal(operator)}"
                f"{value}, effect: {cel.literal(taint.effect)}}}"
            )
            patch = f'[JSONPatch{{op: "add", path: "/spec/tolerations/-", value: {ours}}}]'
            parts.append(f"({asks} && !{tolerated(taint)} ? {patch} : [])")
        yield " +\n".join(parts)

    def _needed(self, vendors: Set[str], taints: tuple[Taint, ...]) -> list[dict[str, Any]]:
        """What a pod with GPUs of these vendors is to tolerate, each key once as far as the policy does not name its values."""
        effects: dict[tuple[str, str | None], dict[str, None]] = {}
        for taint in self.taints:
            if taint.vendor is None or taint.vendor in vendors:
                effects.setdefault((taint.key, taint.value), {})[taint.effect] = None
        for live in taints:
            if any([live.effect in effects.get((live.key, value), ()) for value in (None, live.value)]):
                continue  # it is among them already
            if vendor(live.key) in {taint.vendor for taint in self.taints} - vendors:
                continue  # another vendor's
            if values := [allowed.value for allowed in self.allowed if allowed.allows(live)]:
                value = None if None in values else live.value
                effects.setdefault((live.key, value), {})[live.effect] = None
        tolerations = [toleration(key, value, tuple(key_effects)) for (key, value), key_effects in effects.items()]
        return [
            one for one in tolerations if not any([other is not one and covers(other, one) for other in tolerations])
        ]


def _counts_by_taints(spec: Mapping[str, Any]) -> bool:
    """Whether a hard spread counts only domains of nodes whose taints the pod tolerates."""
    constraints = spec.get("topologySpreadConstraints") or ()
    return any(
        [c.get("nodeTaintsPolicy") == "Honor" and c.get("whenUnsatisfiable") != "ScheduleAnyway" for c in constraints]
    )


def _needs_none(edit: Edit, context: Context) -> bool:
    """Whether it can go to a node without a toleration, by its node selector. What node affinity it requires is not looked at."""
    if edit.get(REQUIRED_TERMS) or not context.cluster.fresh:
        return False
    return context.cluster.has_open_node(context.gpu_names, edit.object["spec"].get("nodeSelector") or {})

"""Adds tolerations for the taints of GPU nodes.

Clusters taint GPU nodes to keep other pods away. Four of five GPU manifests do not tolerate that taint, and their pods stay
pending. A pod gets a toleration for each taint in `taints` that is for its vendor and, while the state of the cluster is
fresh, for each taint in `allowed` that GPU nodes have now, and for one with the name of a GPU resource that it asks for, as the
API server's own plugin does. It never gets a wildcard, a second toleration for one key (unless
the policy names two values), or one that a toleration of the pod covers.

A spread constraint with DoNotSchedule and `nodeTaintsPolicy: Honor` counts the domains of all nodes whose taints the pod
tolerates. A full node with such a taint could then keep the pod off all other nodes. So a pod with such a constraint gets no
toleration: its author has to say which nodes it is for.

Fields: spec.tolerations. Source: plugin/pkg/admission/extendedresourcetoleration (the in-tree plugin: off by default, and it
tolerates such a name alone).

Read by:
    kube-scheduler: may use nodes with the taint
    cluster-autoscaler: adds nodes to a group with the taint
    Karpenter: uses a NodePool with the taint
    Kueue, KAI, Volcano, YuniKorn: Kueue reads those in templates, and adds those of the flavor; the others filter nodes by
      them
    descheduler: `RemovePodsViolatingNodeTaints` leaves the pod; `RemoveDuplicates` counts nodes with the taint as places
      for it
    quotas and others: the taint eviction controller leaves the pod on nodes with the taint and effect `NoExecute`
"""

from collections.abc import Container, Iterable, Mapping, Set
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from webhook.framework.interface import Context, Edit, Gpus, Injector, LabelKey, LabelValue, Outcome, Settings
from webhook.kube import cel
from webhook.kube.gpus import vendor
from webhook.kube.taints import KNOWN, KUBERNETES, Taint, Tolerated, matched, tolerates, toleration
from webhook.text import bare, listed, matches
from webhook.vendors import model as vendors
from webhook.vendors.catalogue import every

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


def _gpu_taint(pattern: Any) -> Any:
    """`pattern`, unless it matches a taint that Kubernetes itself sets."""
    if isinstance(pattern, str):
        stem = pattern.removesuffix("*")
        if any(stem.startswith(k) or (stem != pattern and k.startswith(stem)) for k in KUBERNETES) or not stem:
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


class Tolerations(Injector):
    handles_claims: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "covered": "it tolerates the taints of GPU nodes already",
        "vendor": "no toleration: it is not known whose GPUs its claims ask for",
        "ownSpread": "no toleration: its DoNotSchedule constraint counts the nodes whose taints it tolerates",
        "added": "it got tolerations of {}",
    }

    taints: tuple[PolicyTaint, ...] = tuple(
        [PolicyTaint(key=taint.key, vendor=vendor(taint.key)) for taint in every(vendors.Taint) if taint.always]
    )
    """Tolerated whether or not nodes have these taints now."""
    allowed: tuple[AllowedTaint, ...] = tuple(
        [AllowedTaint(key=key, value=value) for key, value, kind in KNOWN if kind == "gpu"]
    )
    """Tolerated while nodes with GPUs have the taint."""
    own_resources: bool = True
    """true: tolerated too, while nodes with GPUs have it, is a taint whose key is a GPU resource that the pod asks for."""

    def covers(self, taint: Taint, gpus: Gpus) -> bool:
        """Whether pods with GPUs get a toleration of a taint that a node has now, of whichever vendor."""
        always = any([one.key == taint.key and one.value in (None, taint.value) for one in self.taints])
        own = self.own_resources and gpus.knows(taint.key)
        return self.enabled and (always or own or any([one.allows(taint) for one in self.allowed]))

    def inject(self, edit: Edit, context: Context) -> Outcome:
        present: list[Mapping[str, Any]] = edit.object["spec"].get("tolerations") or []
        taints = context.cluster.gpu_taints(context.gpus) if context.cluster.fresh else ()
        vendors = {vendor(name) for name in context.pod.gpu_names}
        if len(context.other_gpus) == 1:  # of several we cannot tell which one a claim is for
            vendors |= context.other_gpus
        if not vendors:
            return Outcome("vendor")
        tolerated = {found for each in present if _lasts(each) and (found := matched(each))}
        added = [one for one in self._needed(vendors, taints, context.pod.gpu_names) if not tolerates(tolerated, one)]
        if not added:
            return Outcome("covered")
        if _spread_honors_taints(edit.object["spec"]):
            return Outcome("ownSpread")
        edit.extend(("spec", "tolerations"), [toleration(*one) for one in added])
        late = None
        if context.template is not None and context.template.kind == "DaemonSet":
            late = _too_late(each for each in taints if tolerates(added, each) and not tolerates(tolerated, each))
        return Outcome("added", [key for key, _, _ in added], late)

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
            parts.append(f"({asks} && !{_in_cel(taint)} ? {patch} : [])")
        yield " +\n".join(parts)

    def _needed(self, vendors: Set[str], taints: tuple[Taint, ...], asked: Container[str]) -> list[Tolerated]:
        """What a pod with GPUs of these vendors is to tolerate: each key once, or once for each value that the policy names.

        `asked`: the GPU resources that it asks for.
        """
        effects: dict[tuple[str, str | None], set[str]] = {}
        for taint in self.taints:
            if taint.vendor is None or taint.vendor in vendors:
                effects.setdefault((taint.key, taint.value), set()).add(taint.effect)
        for live in taints:
            if any([live.effect in effects.get((live.key, value), ()) for value in (None, live.value)]):
                continue
            if vendor(live.key) in {taint.vendor for taint in self.taints} - vendors:
                continue
            values = [allowed.value for allowed in self.allowed if allowed.allows(live)]
            own = self.own_resources and live.key in asked
            if values or own:
                value = None if own or None in values else live.value
                effects.setdefault((live.key, value), set()).add(live.effect)
        needed = [(key, value, "".join(of) if len(of) == 1 else "") for (key, value), of in effects.items()]
        return [one for one in needed if len(needed) == 1 or not tolerates({*needed} - {one}, one)]


def _too_late(taints: Iterable[Taint]) -> str | None:
    """For the author of a DaemonSet, whose controller reads the template (daemon_controller.go, NodeShouldRunDaemonPod)."""
    if not (texts := sorted({bare(taint.text) for taint in taints if taint.effect != "PreferNoSchedule"})):
        return None
    words = "a DaemonSet makes pods only for nodes whose taints its template tolerates"
    return f"{words}: add tolerations of {listed(texts, 3)} to the template"


def _lasts(toleration: Mapping[str, Any]) -> bool:
    """Whether it holds for as long as the pod runs."""
    return toleration.get("effect") != "NoExecute" or toleration.get("tolerationSeconds") is None


def _spread_honors_taints(spec: Mapping[str, Any]) -> bool:
    """Whether a DoNotSchedule constraint counts only the nodes whose taints the pod tolerates."""
    constraints = spec.get("topologySpreadConstraints") or ()
    return any(
        [c.get("nodeTaintsPolicy") == "Honor" and c.get("whenUnsatisfiable") != "ScheduleAnyway" for c in constraints]
    )


def _in_cel(taint: PolicyTaint) -> str:
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

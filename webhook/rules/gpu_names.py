"""The GPU resource and the GPU model that a pod asks for exist in this cluster.

A resource or a label value that no node has is mostly a slip of the pen, or comes from a manifest for another cluster. The
pod would pend for ever, and nobody would say why.

Fields read:   spec.containers[*].resources, spec.initContainers[*].resources; spec.nodeSelector and
               spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution, for the labels of `modelLabels`
Allowed:       resources that some node names (or named since this program started: a device plugin may be away); values of
               these labels that some node with GPUs has
Refused:       other GPU resources, MIG profiles and models; where nodes may be added by an autoscaler, or GPUs are served
               by DRA, it is a warning. Nothing is said while the state of the cluster is not known.
Not for DRA:   device classes; `deviceclass.resource.kubernetes.io/*` and the names of `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from webhook.framework.interface import Context, Finding, Rule
from webhook.kube.gpus import MODEL_LABELS, vendor
from webhook.kube.pod import Container, Pod
from webhook.text import Hint, bare, listed, matches_any, quoted

_DRA = "deviceclass.resource.kubernetes.io/"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class GpuNames(Rule):
    """The GPU resource and the GPU model that a pod asks for exist in this cluster."""

    not_exported: ClassVar[str] = "needs the state of the cluster"

    autoscaler: bool | None = None
    """Whether nodes may come that do not exist yet, which makes it a warning: true | false | null (told from the nodes)."""
    extra: tuple[str, ...] = ()
    """Resources that exist although no node names them (name patterns): served by DRA, or by pools that are empty now."""
    model_labels: tuple[str, ...] = MODEL_LABELS
    """Node labels whose value is a model of GPU."""

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        if not context.cluster.fresh:
            return
        offered, spec = context.cluster.resources(), pod["spec"]
        for container in context.containers(pod):
            limits = (container.spec.get("resources") or {}).get("limits") or ()
            names = [name for name in limits if "/" in name and name not in offered]
            if names:
                yield from self._unknown(container, names, context, self._may_come(context))
        if spec.get("nodeSelector") or spec.get("affinity"):
            yield from self._models(spec, context, self._may_come(context))

    def _may_come(self, context: Context) -> bool:
        return context.cluster.elastic if self.autoscaler is None else self.autoscaler

    def _unknown(self, container: Container, names: list[str], context: Context, may_come: bool) -> Iterator[Finding]:
        counts = container.gpu_counts(context.gpus)
        for name in names:
            path = f"{container.field}.resources.limits[{bare(name)}]"
            seen = f"{bare(name)} in container {quoted(container.name)}"
            if name in counts:
                if not name.startswith(_DRA) and not self._is_extra(name):
                    yield Finding(path, seen, *_instead(name, context), may_come)
            elif meant := _misspelt(name, context):
                wanted = f"{meant}: what stands there is no GPU to this cluster"
                yield Finding(path, seen, wanted, f"Write {meant}", True)

    def _is_extra(self, name: str) -> bool:
        return matches_any(self.extra, name)

    def _models(self, spec: Mapping[str, Any], context: Context, may_come: bool) -> Iterator[Finding]:
        for key, value in (spec.get("nodeSelector") or {}).items():
            if key in self.model_labels:
                known = context.cluster.label_values(key, context.gpus)
                if value not in known:
                    yield _model(f"spec.nodeSelector[{bare(key)}]", quoted(value), key, known, may_come)
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
        found = []
        for index, term in enumerate(terms):
            finding = self._term(term, index, context, may_come)
            if finding is None:  # terms are alternatives: one that can match is enough
                return
            found.append(finding)
        yield from found

    def _term(self, term: Mapping[str, Any], index: int, context: Context, may_come: bool) -> Finding | None:
        for position, expression in enumerate(term.get("matchExpressions") or ()):
            key, values = expression.get("key"), expression.get("values") or ()
            if key in self.model_labels and expression.get("operator") == "In" and values:
                known = context.cluster.label_values(key, context.gpus)
                if frozenset(values).isdisjoint(known):
                    path = (
                        f"spec.affinity.nodeAffinity.{_REQUIRED}"
                        f".nodeSelectorTerms[{index}].matchExpressions[{position}]"
                    )
                    return _model(path, listed(values, show=quoted), key, known, may_come)
        return None


def _instead(name: str, context: Context) -> tuple[str, str | Hint]:
    """What is wanted, and what to do: the GPU resources that exist, those of the same vendor first."""
    offered = context.gpus.among(context.cluster.resources())
    if not offered:
        return "a GPU resource that some node has; no node has any", "Ask those who run this cluster for GPU nodes"
    offered.sort(key=lambda resource: (vendor(resource) != vendor(name), resource))
    of_vendor = tuple([resource for resource in offered if vendor(resource) == vendor(name)])
    fix = Hint(name, of_vendor, "Ask for ", ", which is the nearest that exists", "Ask for one of those")
    return f"a GPU resource that some node has: {listed(offered, show=bare)}", fix


def _misspelt(name: str, context: Context) -> str | None:
    """The GPU resource that is meant by one that only looks like it: `nvidia.com/gpus`, `nvidia.com/GPU`."""
    meant = name.lower().removesuffix("s")
    if meant == name or context.gpus.kind(meant) is None:
        return None
    return meant if meant in context.cluster.resources() else None


def _model(path: str, seen: str, key: str, known: tuple[str, ...], may_come: bool) -> Finding:
    if not known:
        wanted = "a label that nodes with GPUs have; none has this one"
        return Finding(
            path, seen, wanted, f"Remove it, or choose the model by a label that nodes have{_other(key)}", may_come
        )
    fix = Hint(seen.strip('"'), known, "Choose ", ", which is the nearest that exists", "Choose one of those")
    return Finding(path, seen, f"a model that some node has: {listed(known, show=bare)}", fix, may_come)


def _other(key: str) -> str:
    return "" if key == MODEL_LABELS[0] else f", as {MODEL_LABELS[0]}"

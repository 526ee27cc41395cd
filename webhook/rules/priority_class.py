"""The PriorityClass exists, and this namespace may use it.

A pod of high priority preempts others, and Kubernetes itself lets every tenant use `system-node-critical`. The API server keeps
the shipped classes that preempt from namespaces that have not opted in (manifests/70-guards.yaml).

Fields read:   spec.priorityClassName, spec.priority
Allowed:       no PriorityClass; one that exists, unless `reserved` keeps it for other namespaces, or the namespace is not
               entitled to its class of workload (`classes`)
Refused:       a PriorityClass that the cluster does not have, or that only other namespaces may use; `system-*` (this webhook
               is not called for kube-system)
Warned about:  a pod of a pod group (KEP-4671) whose label asks for a class of workload, and that has not its PriorityClass: group
               and pods must have one priority
Not seen:      a PriorityClass of high value that neither `reserved` nor `classes` names. Only administrators create them
DRA:           the same.
"""

from collections.abc import Callable, Container, Iterable
from typing import ClassVar, Self

from pydantic import Field, PrivateAttr

from webhook.framework import entitlement
from webhook.framework.interface import Check, Context, Finding, Gpus, ProfileView, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import in_pod_group
from webhook.text import listed, matches, quoted, suggestion

_SYSTEM: dict[str, tuple[str, ...]] = {"system-*": ()}
_WHERE = "kubectl get priorityclasses"
_NAME = 'object.spec.?priorityClassName.orValue("")'
_WANTED = "a priority class that is not kept for other namespaces"
_OTHERWISE = "Choose one of those, or remove the line"


class PriorityClassAllowed(Rule):
    differs: ClassVar[str] = "does not look at pod groups"

    reserved: dict[str, tuple[str, ...]] = Field(default=_SYSTEM)
    """PriorityClass: the namespaces that may use it (name patterns, or keys of labels as in `classes`). The first entry that
    matches decides, even for the PriorityClass of a class of workload. A PriorityClass without an entry and without a class
    of workload is for all namespaces. The entry for system-* is there even if you leave it out. kube-system is never checked."""

    _of_classes: tuple[str, ...] = PrivateAttr(default=())
    _given: dict[str, str] = PrivateAttr(default_factory=dict)

    def completed(self, profile: ProfileView) -> Self:
        """The same rule, with the restrictions that follow from `classes` of the policy added to `reserved`."""
        limited = {name: tuple(dict.fromkeys(every)) for name, every in profile.entitled.items() if "*" not in every}
        added = {name: every for name, every in (limited | _SYSTEM).items() if name not in self.reserved}
        found = self.model_copy(update={"reserved": {**self.reserved, **added}})
        found._given = profile.injectors["priorityClass"].classes
        found._of_classes = tuple(sorted(name for name in set(found._given.values()) if name))
        return found

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        name = pod.spec.get("priorityClassName")
        yield from self._left_to_group(pod, name, context)
        if not name:
            return
        cluster, path = context.cluster, "spec.priorityClassName"
        looked_up = pod.spec.get("priority") is not None  # by the admission plugin Priority, which runs before webhooks
        exists = name in cluster.priority_classes or looked_up or not cluster.knows_priority_classes
        labels = cluster.namespace_labels(context.namespace) or ()
        entitled = self.reserved_for(name, context.namespace, labels)
        if exists and entitled is None:
            return
        usable = sorted(c for c in cluster.priority_classes if self.reserved_for(c, context.namespace, labels) is None)
        if not exists:
            fix = suggestion(name, usable, "Write {} if that is meant, or remove the line", _OTHERWISE)
            yield Finding(
                path, quoted(name), f"a PriorityClass of this cluster: {listed(usable, where=_WHERE) or 'none'}", fix
            )
            return
        yield Finding(
            path=path,
            seen=f"{quoted(name)} in namespace {quoted(context.namespace)}",
            wanted=f"another class: this one is {'only ' if entitled else ''}for {entitlement.described(entitled or ())}",
            fix=f"Use {listed(usable, where=_WHERE)}, or remove the line" if usable else "Remove the line",
        )

    def _left_to_group(self, pod: AskedPod, name: str | None, context: Context) -> Iterable[Finding]:
        asked = self._given.get(context.workload.name)
        if asked in (None, "", name) or context.workload.guessed or not in_pod_group(pod.json):
            return
        if pod.gpu_names or context.other_gpus:
            yield Finding(
                path="spec.priorityClassName",
                seen=f"{quoted(name) if name else 'none'} in a pod of a group, with a label for class {context.workload.name}",
                wanted=f"{asked}, in the PodGroup too: both need the same priority, so the label alone does nothing",
                fix="Name it in both, or remove the label",
                only_warn=True,
            )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        yield Check("pod", _kept(self.reserved, entitlement.in_cel), _WANTED)

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        """Any PriorityClass of a class of workload, so that `classes` may change who is entitled to it. One that does not exist
        the API server refuses by itself."""
        others = {name: every for name, every in self.reserved.items() if name not in self._of_classes}
        of_class = f"{_NAME} in {cel.literal(self._of_classes)}"
        yield Check("pod", cel.any_of([of_class, _kept(others, entitlement.by_name)]), _WANTED)

    def reserved_for(self, name: str, namespace: str, labels: Container[str]) -> tuple[str, ...] | None:
        """The namespaces for which a PriorityClass is reserved, if `namespace` is none of them; None if it may be used."""
        for pattern, namespaces in self.reserved.items():
            if matches(pattern, name):
                return None if entitlement.covers(namespaces, namespace, labels) else namespaces
        return None


def _kept(reserved: dict[str, tuple[str, ...]], entitled: Callable[[Iterable[str]], str]) -> str:
    """Whether the PriorityClass is one of `reserved`, and the namespace not entitled to it."""
    bad = "false"
    for pattern, namespaces in reversed(reserved.items()):
        bad = f"({cel.matches(_NAME, [pattern])} ? !({entitled(namespaces)}) : {bad})"
    return bad

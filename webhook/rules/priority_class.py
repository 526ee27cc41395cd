"""The priority class exists, and this namespace may use it.

A high priority preempts the pods of others, so not every namespace may use every class. Kubernetes itself lets every tenant use
`system-node-critical`.

Fields read:   spec.priorityClassName, spec.priority
Allowed:       none; a class that exists and that is not kept for other namespaces, by `reserved` or by `classes` of the policy:
               a PriorityClass that the injector gives to a class of workload is for the namespaces that are entitled to
               that class. A class also exists if the API server has written its priority into the pod: class and pod may
               come with one `kubectl apply`, and the watch may show the class a moment later
Refused:       a class that the cluster does not have; `system-*` (anywhere: kube-system does not ask this webhook); a
               class that `reserved` or `classes` gives to other namespaces
Not seen:      a PriorityClass of high value that neither of them names. Only administrators make them.
DRA:           the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from webhook.framework.interface import Context, Finding, ProfileView, Rule
from webhook.kube import cel
from webhook.kube.cel import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import Pod
from webhook.text import Hint, listed, matches, matches_any, quoted

_OTHERWISE = "Choose one of those, or remove the line"


class PriorityClassAllowed(Rule):
    """The priority class exists, and this namespace may use it. One that the injector gives to a class of workload may be
    named in the namespaces that `classes` entitles to that class, and nowhere else."""

    reserved: dict[str, tuple[str, ...]] = Field(default={"system-*": ()})
    """Priority class: the namespaces that may use it (name patterns both). The first entry that fits decides, also for
    the classes of `classes`; a class that no entry fits, and no class of workload has, is for all. kube-system is never
    asked about."""

    def completed(self, profile: ProfileView) -> Self:
        """The same rule, with what `classes` of the policy says about namespaces. A PriorityClass of which every namespace is
        entitled to the class of workload is left out."""
        limited = {name: tuple(dict.fromkeys(every)) for name, every in profile.entitled.items() if "*" not in every}
        return self.model_copy(
            update={"reserved": {**self.reserved, **{k: v for k, v in limited.items() if k not in self.reserved}}}
        )

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        name = pod["spec"].get("priorityClassName")
        if not name:
            return
        cluster, path = context.cluster, "spec.priorityClassName"
        looked_up = pod["spec"].get("priority") is not None  # admission plugin Priority, which comes before webhooks
        if cluster.knows_priority_classes and name not in cluster.priority_classes and not looked_up:
            usable = sorted(c for c in cluster.priority_classes if self._kept_for(c, context.namespace) is None)
            fix = Hint(name, tuple(usable), "Write ", " if that is meant, or remove the line", _OTHERWISE)
            yield Finding(path, quoted(name), f"a PriorityClass of this cluster: {listed(usable) or 'none'}", fix)
            return
        entitled = self._kept_for(name, context.namespace)
        if entitled is None:
            return
        usable = sorted(c for c in cluster.priority_classes if self._kept_for(c, context.namespace) is None)
        restriction = f"only for namespaces {listed(entitled)}" if entitled else "for no namespace of a tenant"
        yield Finding(
            path=path,
            seen=f"{quoted(name)} in namespace {quoted(context.namespace)}",
            wanted=f"another class: this one is {restriction}",
            fix=f"Use {listed(usable)}, or remove the line" if usable else "Remove the line",
        )

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        name = 'object.spec.?priorityClassName.orValue("")'
        bad = "false"
        for pattern, namespaces in reversed(self.reserved.items()):
            entitled = cel.matches("request.namespace", namespaces)
            bad = f"({cel.matches(name, [pattern])} ? !{entitled} : {bad})"
        yield Check("pod", bad, "a priority class that is not kept for other namespaces")

    def _kept_for(self, name: str, namespace: str) -> tuple[str, ...] | None:
        """The namespaces that a class is kept for where this is none of them; None where it may be used."""
        for pattern, namespaces in self.reserved.items():
            if matches(pattern, name):
                return None if matches_any(namespaces, namespace) else namespaces
        return None

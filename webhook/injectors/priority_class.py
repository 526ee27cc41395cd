"""A priority class by the class of workload, so that inference does not starve behind training.

A class that the user chose is kept. The cluster's globalDefault class counts as not chosen (settable): the API server fills
it in before we see the pod. A class that does not exist is never named: the API server would refuse the pod.

Fields: spec.priorityClassName, and with it spec.priority and spec.preemptionPolicy. The Priority plugin has computed these
two from the old class before we are asked, and computes them again after us: a pod whose numbers differ from its class is
refused. So they are written from the class that the watch knows, which costs one call per pod; while the watch is not
fresh they are taken away instead, which is always right and costs a second call (`reinvocationPolicy: IfNeeded`).
Source: plugin/pkg/admission/priority/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Context, Injector, Outcome
from webhook.kube import cel
from webhook.kube.gpus import Gpus
from webhook.kube.json_patch import Edit
from webhook.text import quoted

_NAME, _PRIORITY, _PREEMPTION = ("spec", "priorityClassName"), ("spec", "priority"), ("spec", "preemptionPolicy")


class PriorityClassName(Injector):
    """A priority class by class of workload. One that the author chose is kept; one that does not exist is never named."""

    claims: ClassVar[bool] = True

    classes: dict[str, str] = {
        "inference-critical": "gpu-inference-critical",
        "inference": "gpu-inference",
        "service": "gpu-service",
        "training": "gpu-training",
        "development": "gpu-development",
    }
    """Class of workload: name of a PriorityClass (50-priority-classes.yaml). A class that is not here, or as "", gets none."""
    override_global_default: bool = True
    """The cluster's globalDefault class counts as not chosen."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        wanted = self.classes.get(context.workload.name)
        spec = edit.object["spec"]
        chosen = spec.get("priorityClassName")
        if not wanted or not (context.gpu_names or context.other_gpus):
            return Outcome("none")
        if chosen == wanted:
            return Outcome("kept", wanted)
        known = context.cluster.priority_classes
        if chosen:
            default = known.get(chosen)
            if not (self.override_global_default and default and default.global_default):
                return Outcome("kept", chosen)
        priority_class = known.get(wanted)
        if priority_class is None:
            missing = context.cluster.knows_priority_classes
            warning = f"PriorityClass {quoted(wanted)} does not exist: the pod keeps its priority" if missing else None
            return Outcome("missing" if missing else "unknown", wanted, warning)
        edit.set(_NAME, wanted)
        if context.cluster.fresh:
            if "priority" in spec:
                edit.set(_PRIORITY, priority_class.value)
            if "preemptionPolicy" in spec:
                edit.set(_PREEMPTION, priority_class.preemption_policy)
        else:
            edit.remove(_PRIORITY)
            edit.remove(_PREEMPTION)
        return Outcome("set", wanted)

    def variables(self) -> Iterable[tuple[str, str]]:
        wanted = '""'
        for workload, name in reversed(self.classes.items()):
            wanted = f"variables.class == {cel.literal(workload)} ? {cel.literal(name)} : {wanted}"
        yield "priorityClass", wanted

    def exported(self, gpus: Gpus) -> Iterable[str]:
        """The API server computed `priority` and `preemptionPolicy` before; without them it computes them again."""
        if not self.classes:
            return
        steps = ['[JSONPatch{op: "add", path: "/spec/priorityClassName", value: variables.priorityClass}]']
        for name in ("priority", "preemptionPolicy"):
            steps.append(f'(has(object.spec.{name}) ? [JSONPatch{{op: "remove", path: "/spec/{name}"}}] : [])')
        chosen = 'object.spec.?priorityClassName.orValue("") != ""'
        yield f'variables.priorityClass == "" || {chosen} ? [] :\n' + " +\n".join(steps)

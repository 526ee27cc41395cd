"""Sets the PriorityClass by the class of workload, so that inference does not starve behind training.

A PriorityClass that the user chose is kept. The cluster's globalDefault counts as not chosen (see the setting), since the API
server sets it before we see the pod. A PriorityClass that does not exist is never set: the API server would refuse the pod. A
pod of a pod group keeps its priority, which must be that of the group. A pod of KAI or Run:ai gets none: their scheduler gives it
one of its own by the kind of workload, and takes 100 or more for «never preempted, and never over quota».

Fields: spec.priorityClassName, spec.priority and spec.preemptionPolicy. The Priority plugin computes the last two before we
are called and again after us, and refuses a pod whose values differ from its PriorityClass. So they are set from the
PriorityClass that the watch has shown. While the watch is not fresh they are removed: that is always right, but costs a
second call (`reinvocationPolicy: IfNeeded`). Sources: plugin/pkg/admission/priority/admission.go; KAI-Scheduler
pkg/podgrouper/podgrouper/plugins/defaultgrouper.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from webhook.framework.interface import Context, Edit, Gpus, Injector, Outcome
from webhook.kube import cel
from webhook.kube.other_gpus import KAI
from webhook.kube.pod import in_pod_group
from webhook.text import quoted

_NAME, _PRIORITY, _PREEMPTION = ("spec", "priorityClassName"), ("spec", "priority"), ("spec", "preemptionPolicy")


class PriorityClassName(Injector):
    handles_claims: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "the policy has no priority class for its class of workload",
        "vendor": "no priority class: it is not known whether its claims ask for GPUs",
        "kept": "it keeps its own priority class {}",
        "podGroup": "it keeps the priority of its pod group",
        "scheduler": "no priority class: its scheduler gives it one of its own",
        "missing": "it did not get priority class {}, which does not exist",
        "unknown": "it did not get priority class {}: priority classes are not known yet",
        "set": "it got priority class {}",
    }

    classes: dict[str, str] = {
        "inference-critical": "gpu-inference-critical",
        "inference": "gpu-inference",
        "service": "gpu-service",
        "training": "gpu-training",
        "development": "gpu-development",
    }
    """Class of workload: name of a PriorityClass (50-priority-classes.yaml). A class of workload that is missing here, or has
    "", gets none."""
    override_global_default: bool = True
    """true: a pod with the cluster's globalDefault counts as a pod without a PriorityClass."""

    def inject(self, edit: Edit, context: Context) -> Outcome:
        class_name = self.classes.get(context.workload.name)
        spec = edit.object["spec"]
        chosen = spec.get("priorityClassName")
        if not class_name:
            return Outcome("none")
        if not (context.pod.gpu_names or context.other_gpus):
            return Outcome("vendor")
        if in_pod_group(edit.object):
            return Outcome("podGroup")
        if chosen == class_name:
            return Outcome("kept", class_name)
        priority_classes = context.cluster.priority_classes
        if chosen:
            default = priority_classes.get(chosen)
            if not (self.override_global_default and default and default.global_default):
                return Outcome("kept", chosen)
        if spec.get("schedulerName") in KAI:
            return Outcome("scheduler")
        priority_class = priority_classes.get(class_name)
        if priority_class is None and not context.cluster.knows_priority_classes:
            return Outcome("unknown", class_name)
        if priority_class is None:
            warning = f"PriorityClass {quoted(class_name)} does not exist: the pod keeps its priority"
            return Outcome("missing", class_name, warning)
        edit.set(_NAME, class_name)
        if context.cluster.fresh:
            if "priority" in spec:
                edit.set(_PRIORITY, priority_class.value)
            if "preemptionPolicy" in spec:
                edit.set(_PREEMPTION, priority_class.preemption_policy)
        else:
            edit.remove(_PRIORITY)
            edit.remove(_PREEMPTION)
        return Outcome("set", class_name)

    def variables(self) -> Iterable[tuple[str, str]]:
        expression = '""'
        for workload, name in reversed(self.classes.items()):
            expression = f"variables.class == {cel.literal(workload)} ? {cel.literal(name)} : {expression}"
        yield "priorityClass", expression

    def exported(self, gpus: Gpus) -> Iterable[str]:
        """`priority` and `preemptionPolicy` are removed: then the API server computes them again."""
        if not self.classes:
            return
        steps = ['[JSONPatch{op: "add", path: "/spec/priorityClassName", value: variables.priorityClass}]']
        for name in ("priority", "preemptionPolicy"):
            steps.append(f'(has(object.spec.{name}) ? [JSONPatch{{op: "remove", path: "/spec/{name}"}}] : [])')
        chosen = 'object.spec.?priorityClassName.orValue("") != ""'
        left = cel.any_of(['variables.priorityClass == ""', chosen, cel.BY_KAI, cel.IN_POD_GROUP])
        yield f"{left} ? [] :\n" + " +\n".join(steps)

"""Sets the PriorityClass by the class of workload, so that inference does not starve behind training.

A PriorityClass that the user chose is kept. The cluster's globalDefault counts as not chosen (see the setting), since the API
server sets it before we see the pod. A PriorityClass that does not exist is never set: the API server would refuse the pod. A
pod of a pod group keeps its priority, which must be that of the group, and neither can be changed later. So a new Job that makes
its group (`spec.scheduling`, KEP-5547) gets the PriorityClass in its template: its group and its pods both have it from there,
also if we are asked about only one of them. A pod of KAI or Run:ai gets none: their scheduler gives it
one of its own by the kind of workload, and takes 100 or more for «never preempted, and never over quota».

A class of workload that no label asks for is a guess. With a guess a pod can do no less than without it, so it gets no
PriorityClass, and a warning, where the PriorityClass

- is below the priority that the pod has anyway, as that of a globalDefault;
- never preempts, and the cluster has a PriorityClass whose pods this pod could preempt without it: the pause pods of
  overprovisioning have a priority below 0, so that every pod takes their place at once. It is enough that the PriorityClass
  exists: pods of it may come while this pod waits, whose priority cannot be changed then. And if pods counted, any tenant could
  switch guesses off for all with one;
- moves the pod into a ResourceQuota that is scoped by PriorityClass, or out of one. (That the API server may demand such a quota,
  `limitedResources`, is not visible here.)

Nor does it get one by a guess where others order pods by that number (`webhook/kube/schedulers.py`). `gpu-admission doctor` names
each of these (`guessedClasses`). A label that asks for the class gives the PriorityClass all the same.

Fields: spec.priorityClassName, spec.priority and spec.preemptionPolicy. The Priority plugin computes the last two before we
are called and again after us, and refuses a pod whose values differ from its PriorityClass. So they are set from the
PriorityClass that the watch has shown. While the watch is not fresh they are removed: that is always right, but costs a
second call (`reinvocationPolicy: IfNeeded`). One that an earlier call set is not the pod's own: it is decided anew if another
webhook has changed the pod since, and the pod may get back what it had without us. Sources:
plugin/pkg/admission/priority/admission.go; KAI-Scheduler pkg/podgrouper/podgrouper/plugins/defaultgrouper.

Read by:
    kube-scheduler: orders its queue by priority, and preempts by it
    cluster-autoscaler: adds no nodes for a priority below -10; none of ours is
    Karpenter: counts it in the cost of emptying a node
    Kueue, KAI, Volcano, YuniKorn: order their queues by it, so their pods get one only if a label asks for it
    descheduler: evicts lower priorities first, and none from `priorityThreshold` on
    quotas and others: ResourceQuota counts pods by PriorityClass, but [a guess changes no quota](injectors.md). The kubelet
      evicts lower priorities first
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from webhook.framework.cluster_view import PriorityClass, Workload
from webhook.framework.interface import Context, Edit, Gpus, Injector, Outcome
from webhook.kube import cel
from webhook.kube.json_patch import Path
from webhook.kube.other_gpus import KAI
from webhook.kube.pod import OF_KUEUE, Pod, in_pod_group, labels_of
from webhook.kube.record import outcome_of
from webhook.kube.schedulers import ORDERED_BY_OTHERS
from webhook.text import quoted

_NAME, _PRIORITY, _PREEMPTION = ("spec", "priorityClassName"), ("spec", "priority"), ("spec", "preemptionPolicy")
_FIELDS = (_NAME, _PRIORITY, _PREEMPTION)


class PriorityClassName(Injector):
    differs: ClassVar[str] = (
        "does not see other PriorityClasses and quotas: by a guess a pod gets a PriorityClass even if it can do less with it; a "
        "globalDefault is kept; Jobs that make a PodGroup get none"
    )
    handles_claims: ClassVar[bool] = True
    sentences: ClassVar[Mapping[str, str]] = {
        "none": "the policy has no priority class for its class of workload",
        "vendor": "no priority class: it is not known whether its claims ask for GPUs",
        "kept": "it keeps its own priority class {}",
        "podGroup": "it keeps the priority of its pod group",
        "scheduler": "no priority class: its scheduler gives it one of its own",
        "missing": "it did not get priority class {}, which does not exist",
        "unknown": "it did not get priority class {}: priority classes are not known yet",
        "ordered": "no priority class, which would be a guess: {} orders its pods by priority",
        "lower": "it did not get priority class {}, a guess: its priority is higher without it",
        "preempts": "it did not get priority class {}, a guess: without it, it may preempt pods of low priority",
        "quota": "it did not get priority class {}, a guess: a ResourceQuota counts pods by priority class",
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
    """true: a pod with the cluster's globalDefault counts as a pod without a PriorityClass. If a label of the pod asks for its
    class, that takes it out of a ResourceQuota for the globalDefault."""

    every_job: bool = False
    """true: every new Job gets the PriorityClass in its template, not only those with `spec.scheduling`. For clusters with the
    feature gate WorkloadWithJob, where every Job makes a group."""

    def gives_group(self, job: dict[str, Any], workload: Workload) -> bool:
        """Whether a new Job gets the PriorityClass in its template.

        The API server refuses `scheduling` where the Job controller makes no groups. Source: pkg/controller/job
        (getManagementMode).
        """
        if workload.guessed and not labels_of(job).keys().isdisjoint(OF_KUEUE):
            return False
        here = job["spec"].get("managedBy") in (None, "kubernetes.io/job-controller")
        return here and (self.every_job or bool(job["spec"].get("scheduling")))

    def inject(self, edit: Edit, context: Context) -> Outcome:
        ours = outcome_of(context.pod.record, "priorityClass") == ["set", edit.get(_NAME)]
        if not ours or not context.cluster.fresh:
            return self._give(edit, context)
        anew, without = Edit(edit.object), unchosen(context.cluster.priority_classes.values())
        values = (without.name or None, without.value, without.preemption_policy)
        _copy({path: value for path, value in zip(_FIELDS, values, strict=True) if edit.get(path) is not None}, anew)
        outcome = self._give(anew, context)
        _copy({path: anew.get(path) for path in _FIELDS}, edit)
        return outcome

    def _give(self, edit: Edit, context: Context) -> Outcome:
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
        if context.workload.guessed and (orders := _orders(edit.object)):
            return Outcome("ordered", orders)
        priority_class = priority_classes.get(class_name)
        if priority_class is None and not context.cluster.knows_priority_classes:
            return Outcome("unknown", class_name)
        if priority_class is None:
            warning = f"PriorityClass {quoted(class_name)} does not exist: the pod keeps its priority"
            return Outcome("missing", class_name, warning)
        if context.workload.guessed and (less := _less(priority_class, spec, context)):
            result, why = less
            warning = (
                f"PriorityClass {quoted(class_name)} is a guess and is not given: {why}. The pod keeps its priority"
            )
            return Outcome(result, class_name, warning)
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
        others = f'object.spec.?schedulerName.orValue("") in {cel.literal([*ORDERED_BY_OTHERS])}'
        queued = f"object.metadata.?labels.orValue({{}}).exists(k, k in {cel.literal(OF_KUEUE)})"
        ordered = cel.all_of(["variables.guessed", cel.any_of([others, queued])])
        left = cel.any_of(['variables.priorityClass == ""', chosen, cel.BY_KAI, cel.IN_POD_GROUP, ordered])
        yield f"{left} ? [] :\n" + " +\n".join(steps)


def _copy(values: Mapping[Path, Any], edit: Edit) -> None:
    """Set these fields, and remove those that are None."""
    for path, value in values.items():
        if value is None:
            edit.remove(path)
        elif value != edit.get(path):
            edit.set(path, value)


def loss(given: PriorityClass, without: PriorityClass, known: Iterable[PriorityClass]) -> tuple[str, str] | None:
    """What a pod can no longer do with the PriorityClass `given`: a constant word, and the reason in words. None: it can do as
    much as without it. `without`: its priority otherwise. `known`: all PriorityClasses.

    Source: pkg/scheduler/framework/preemption (PodEligibleToPreemptOthers).
    """
    if given.value < without.value:
        return "lower", f"its value {given.value} is below {without.value}, which a pod has without it"
    if given.preemption_policy != "Never" or without.preemption_policy == "Never":
        return None
    lowest = min(known, key=lambda each: (each.value, each.name), default=without)
    if lowest.value >= without.value:
        return None
    return (
        "preempts",
        f"it never preempts, and without it a pod takes the place of pods of {quoted(lowest.name)} ({lowest.value})",
    )


def unchosen(known: Iterable[PriorityClass]) -> PriorityClass:
    """What a pod has that names no PriorityClass: the globalDefault, else priority 0. Of several the API server takes the lowest.

    Source: plugin/pkg/admission/priority (getDefaultPriority).
    """
    defaults = [each for each in known if each.global_default]
    return min(defaults, key=lambda each: each.value, default=PriorityClass("", 0, "PreemptLowerPriority", False))


def _less(given: PriorityClass, spec: Mapping[str, Any], context: Context) -> tuple[str, str] | None:
    """`loss` for this pod, or that a quota counts it otherwise."""
    known = context.cluster.priority_classes.values()
    without = unchosen(known)
    if spec.get("priority") is not None:
        policy = spec.get("preemptionPolicy") or "PreemptLowerPriority"
        without = PriorityClass(spec.get("priorityClassName") or "", spec["priority"], policy, False)
    if less := loss(given, without, known):
        return less
    of, quota = context.namespace, context.cluster.quota_covering
    if name := quota(of, given.name, but=without.name):
        return "quota", f"ResourceQuota {quoted(name)} would count the pod"
    if name := quota(of, without.name, but=given.name):
        return "quota", f"ResourceQuota {quoted(name)} would no longer count the pod"
    return None


def _orders(pod: Pod) -> str:
    """Who else orders this pod by its priority; "" if nobody is known to."""
    queued = not labels_of(pod).keys().isdisjoint(OF_KUEUE)
    return "Kueue" if queued else ORDERED_BY_OTHERS.get(pod["spec"].get("schedulerName") or "", "")

"""Rules as validations in CEL. Each says the same as its rule in `webhook/rules`, of what can be told from the pod alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from webhook.export import devices
from webhook.export.cel import ASKS, CLAIMS, all_of, any_of, counts, env, harmless, is_gpu, limits, literal, matches
from webhook.export.check import Check
from webhook.kube.gpus import GpuKind, Gpus
from webhook.policy.model import Rules

NOT_EXPORTED: Mapping[str, str] = {
    "gpuQuantity": "the API server refuses the same by itself",
    "gpuNames": "needs the state of the cluster",
    "gpuSharing": "needs the state of the cluster",
    "gpuFraction": "needs to parse numbers that its author wrote as text",
    "gpuFits": "needs the state of the cluster",
    "cpuPerGpu": "compares quantities by class of workload",
    "cudaVisibleDevices": "compares a list with the number of GPUs",
    "restartPolicy": "is advice by class of workload",
    "spreadMissing": "is about templates, and needs the state of the cluster",
    "pdbMissing": "is about templates, and needs the state of the cluster",
}
"""Rules that stay with the webhook, and why."""


def checks(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    """Every check of every rule, in the order of the rules. What a rule's action is does not matter here."""
    for name, field_info in type(rules).model_fields.items():
        if export := _EXPORTED.get(field_info.alias or name):
            yield from export(rules, gpus)


def _gpu_zero(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    zero = f'{limits("c")}.exists(k, {is_gpu("k", gpus)} && c.resources.limits[k] == "0")'
    closed = env('e.name == "NVIDIA_VISIBLE_DEVICES" && ' + harmless(("", "void", "none")))
    wanted = "at least 1 GPU, or no such limit"
    yield Check("gpuZero", "container", all_of([zero, f"!{ASKS}", f"!{closed}"]), wanted)
    yield Check("gpuZero", "container", all_of([zero, f"!{ASKS}", closed]), wanted, only_warn=True)


def _gpu_mixing(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    mine = counts("c", gpus)
    vendors = f'{mine}.exists(a, {mine}.exists(b, a.split("/")[0] != b.split("/")[0]))'
    whole = _of_kinds("k", gpus, ("whole",))
    kinds = all_of([f"{mine}.exists(k, {whole})", f"{mine}.exists(k, !{whole})"])
    yield Check("gpuMixing", "container", vendors, "GPUs of one vendor")
    yield Check("gpuMixing", "container", kinds, "either whole GPUs or parts of GPUs")


def _gpu_limit(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.gpu_limit
    counted = _of_kinds("k", gpus, rule.kinds)
    count = "quantity(c.resources.limits[k]).asInteger()"
    if rule.per_container is not None:
        bad = f"{limits('c')}.exists(k, {counted} && {count} > {rule.per_container})"
        yield Check("gpuLimit", "container", bad, f"at most {rule.per_container} GPUs in a container")
    if rule.sizes:
        bad = f"{limits('c')}.exists(k, {counted} && {count} > 0 && !({count} in {literal(rule.sizes)}))"
        yield Check("gpuLimit", "container", bad, f"one of {', '.join(map(str, rule.sizes))} GPUs in a container")
    if rule.per_pod is not None:
        total = f"variables.running.map(c, {limits('c')}.filter(k, {counted}).map(k, {count}).sum()).sum()"
        yield Check("gpuLimit", "pod", f"{total} > {rule.per_pod}", f"at most {rule.per_pod} GPUs in a pod")


def _priority_class(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    name = 'object.spec.?priorityClassName.orValue("")'
    bad = "false"
    for pattern, namespaces in reversed(rules.priority_class.kept):
        entitled = matches("request.namespace", namespaces)
        bad = f"({matches(name, [pattern])} ? !{entitled} : {bad})"
    yield Check("priorityClass", "pod", bad, "a priority class that is not kept for other namespaces")


def _runtime_class(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    named = matches('object.spec.?runtimeClassName.orValue("")', rules.runtime_class.classes)
    yield Check(
        "runtimeClass", "pod", f"({named} && !variables.asksForGpu)", "a GPU limit beside the GPU runtime class"
    )


def _node_name(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    by_others = f"!request.userInfo.groups.exists(g, g in {literal(rules.node_name.groups)})"
    bad = f'(object.spec.?nodeName.orValue("") != "" && {by_others})'
    yield Check("nodeName", "pod", bad, "no node name: it goes past the scheduler and past the taints of the node")


def _ld_preload(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    names = rules.ld_preload.names
    yield Check("ldPreload", "container", env(f"e.name in {literal(names)}"), f"no {', '.join(names)}")


def _cpu_pod_on_gpu_node(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    key = 't.?key.orValue("")'
    everything = f'{key} == "" && t.?operator.orValue("") == "Exists" && t.?effect.orValue("") != "NoExecute"'
    named = f'{key} != "" && {matches(key, rules.cpu_pod_on_gpu_node.taints)}'
    tolerates = f"object.spec.?tolerations.orValue([]).exists(t, ({named}) || ({everything}))"
    daemon = (
        'object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == "DaemonSet")'
    )
    wanted = "no toleration of the taints of GPU nodes in a pod without a GPU"
    uses = any_of(["variables.asksForGpu", CLAIMS])
    yield Check("cpuPodOnGpuNode", "pod", all_of([tolerates, f"!{uses}", f"!{daemon}"]), wanted)


_EXPORTED: Mapping[str, Callable[[Rules, Gpus], Iterator[Check]]] = {
    "gpuZero": _gpu_zero,
    "gpuMixing": _gpu_mixing,
    "gpuLimit": _gpu_limit,
    "priorityClass": _priority_class,
    "deviceEnv": devices.device_env,
    "deviceEnvFrom": devices.device_env_from,
    "deviceMounts": devices.device_mounts,
    "deviceAnnotations": devices.device_annotations,
    "hostDevices": devices.host_devices,
    "hostNamespaces": devices.host_namespaces,
    "privileged": devices.privileged,
    "capabilities": devices.capabilities,
    "runtimeClass": _runtime_class,
    "nodeName": _node_name,
    "ldPreload": _ld_preload,
    "cpuPodOnGpuNode": _cpu_pod_on_gpu_node,
}
THEFT = (
    *("gpuZero", "deviceEnv", "deviceEnvFrom", "deviceMounts", "deviceAnnotations", "hostDevices", "hostNamespaces"),
    *("privileged", "capabilities", "runtimeClass", "nodeName", "ldPreload"),
)
"""Rules that keep a pod from GPUs it did not ask for: they make sense in namespaces that did not opt in, too."""


def _of_kinds(name: str, gpus: Gpus, kinds: tuple[GpuKind, ...]) -> str:
    return matches(name, [gpu.name for gpu in gpus.names if gpu.kind in kinds])

"""Rules as validations in CEL. Each says the same as its rule in `webhook/rules`, of what can be told from the pod alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from webhook.export.cel import ASKS, all_of, any_of, counts, field, is_gpu, limits, literal, matches
from webhook.gpus import Gpus, Kind
from webhook.pod import clean_path
from webhook.policy import Rules

Subject = Literal["container", "pod"]

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


class Check(NamedTuple):
    """What is refused: `bad` is an expression, over container `c` or over the pod."""

    rule: str
    subject: Subject
    bad: str
    wanted: str
    only_warn: bool = False


def checks(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    """Every check of every rule, in the order of the rules. What a rule's action is does not matter here."""
    for name, field_info in type(rules).model_fields.items():
        if export := _EXPORTED.get(field_info.alias or name):
            yield from export(rules, gpus)


def _gpu_zero(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    zero = f'{limits("c")}.exists(k, {is_gpu("k", gpus)} && c.resources.limits[k] == "0")'
    closed = _env('e.name == "NVIDIA_VISIBLE_DEVICES" && ' + _harmless(("", "void", "none")))
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
    for pattern, namespaces in reversed(rules.priority_class.reserved.items()):
        entitled = matches("request.namespace", namespaces)
        bad = f"({matches(name, [pattern])} ? !{entitled} : {bad})"
    yield Check("priorityClass", "pod", bad, "a priority class that is not kept for other namespaces")


def _device_env(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.device_env
    harmless = _harmless(rule.harmless)
    named, first = f"e.name in {literal(rule.names)}", f"e.name == {literal(rule.names[0])}"
    wanted = f"none of the variables {', '.join(rule.names)}: they hand out devices past the GPU limit"
    yield Check("deviceEnv", "container", _env(f"{named} && !{harmless}"), wanted)
    if rule.legacy:
        alone = all_of([_env(f"e.name in {literal(rule.legacy)}"), f"!{ASKS}", f"!{_env(f'{first} && {harmless}')}"])
        wanted = f"no {', '.join(rule.legacy)} without a GPU: alone it stands for all GPUs of the node"
        yield Check("deviceEnv", "container", alone, wanted)
    hidden = all_of([_env(f"{named} && {harmless}"), ASKS])
    yield Check("deviceEnv", "container", hidden, "no variable that hides the GPU from its container", only_warn=True)
    if rule.advised:
        wanted = f"no {', '.join(rule.advised)}: it switches off the check that the driver fits the image"
        yield Check("deviceEnv", "container", _env(f"e.name in {literal(rule.advised)}"), wanted, only_warn=True)


def _device_env_from(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.device_env_from
    prefix = 's.?prefix.orValue("")'
    completed = f'{prefix} != "" && {literal(rule.names)}.exists(n, n.startsWith({prefix}))'
    wanted = "a prefix that cannot make the name of a variable that hands out devices"
    yield Check("deviceEnvFrom", "container", f"{field('c', 'envFrom')}.exists(s, {completed})", wanted)
    if rule.unknown != "off":
        open_ended = all_of([f'{field("c", "envFrom")}.exists(s, {prefix} == "")', ASKS])
        wanted = "variables by name, or a prefix: a source without one may hand out devices past the GPU limit"
        yield Check("deviceEnvFrom", "container", open_ended, wanted, only_warn=rule.unknown == "warn")


def _device_mounts(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    bad = f'{field("c", "volumeMounts")}.exists(m, m.mountPath.contains("nvidia-container-devices"))'
    yield Check("deviceMounts", "container", bad, "no mount below /var/run/nvidia-container-devices")


def _device_annotations(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    bad = f"object.metadata.?annotations.orValue({{}}).exists(k, {matches('k', rules.device_annotations.keys)})"
    yield Check("deviceAnnotations", "pod", bad, "no annotation that asks the container runtime for devices")


def _host_devices(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    """`//`, `.` and /var/run are resolved here as there; `..` the API server refuses in host paths."""
    inside = [
        f"folder.startsWith({literal(clean_path(p.removesuffix('*')) + ('' if p.endswith('*') else '/'))})"
        for p in rules.host_devices.paths
    ]
    inside.append('folder.matches("^/proc/(self|thread-self|[0-9]+)/")')
    beginnings = literal([clean_path(p.removesuffix("*")) for p in rules.host_devices.paths])
    bad = f"variables.hostFolders.exists(folder, {any_of(inside)} || {beginnings}.exists(p, p.startsWith(folder)))"
    yield Check("hostDevices", "pod", bad, "no host path that leads to devices, or to what hands them out")


def _host_namespaces(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    ipc = "object.spec.?hostIPC.orValue(false)"
    yield Check("hostNamespaces", "pod", "object.spec.?hostPID.orValue(false)", "no hostPID")
    yield Check("hostNamespaces", "pod", f"({ipc} && !variables.asksForGpu)", "no hostIPC in a pod without a GPU")
    wanted = "no hostIPC; for shared memory mount an emptyDir with medium Memory at /dev/shm"
    yield Check("hostNamespaces", "pod", f"({ipc} && variables.asksForGpu)", wanted, only_warn=True)


def _privileged(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    bad = "c.?securityContext.?privileged.orValue(false)"
    yield Check("privileged", "container", bad, "no privileged container: it sees every GPU of the node")


def _capabilities(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    denied = literal([name for one in rules.capabilities.denied for name in (one, f"CAP_{one}")])
    bad = f"c.?securityContext.?capabilities.?add.orValue([]).exists(a, a.upperAscii() in {denied})"
    yield Check("capabilities", "container", bad, "no capability that opens devices past the GPU limit")


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
    yield Check("ldPreload", "container", _env(f"e.name in {literal(names)}"), f"no {', '.join(names)}")


def _cpu_pod_on_gpu_node(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    key = 't.?key.orValue("")'
    everything = f'{key} == "" && t.?operator.orValue("") == "Exists" && t.?effect.orValue("") != "NoExecute"'
    named = f'{key} != "" && {matches(key, rules.cpu_pod_on_gpu_node.taints)}'
    tolerates = f"object.spec.?tolerations.orValue([]).exists(t, ({named}) || ({everything}))"
    daemon = (
        'object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) && o.kind == "DaemonSet")'
    )
    wanted = "no toleration of the taints of GPU nodes in a pod without a GPU"
    yield Check("cpuPodOnGpuNode", "pod", all_of([tolerates, "!variables.asksForGpu", f"!{daemon}"]), wanted)


_EXPORTED: Mapping[str, Callable[[Rules, Gpus], Iterator[Check]]] = {
    "gpuZero": _gpu_zero,
    "gpuMixing": _gpu_mixing,
    "gpuLimit": _gpu_limit,
    "priorityClass": _priority_class,
    "deviceEnv": _device_env,
    "deviceEnvFrom": _device_env_from,
    "deviceMounts": _device_mounts,
    "deviceAnnotations": _device_annotations,
    "hostDevices": _host_devices,
    "hostNamespaces": _host_namespaces,
    "privileged": _privileged,
    "capabilities": _capabilities,
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


def _env(condition: str) -> str:
    return f"{field('c', 'env')}.exists(e, {condition})"


def _harmless(values: tuple[str, ...]) -> str:
    return f'(!has(e.valueFrom) && e.?value.orValue("") in {literal(values)})'


def _of_kinds(name: str, gpus: Gpus, kinds: tuple[Kind, ...]) -> str:
    return matches(name, [gpu.name for gpu in gpus.names if gpu.kind in kinds])

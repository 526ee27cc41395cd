"""The rules about ways to a device, as validations in CEL. Each says the same as its rule in `webhook/rules`."""

from __future__ import annotations

from collections.abc import Iterator

from webhook.export.cel import ASKS, all_of, any_of, env, field, harmless, literal, matches
from webhook.export.check import Check
from webhook.kube.gpus import Gpus
from webhook.kube.pod import clean_path
from webhook.policy.model import Rules


def device_env(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.device_env
    none = harmless(rule.harmless)
    others = [f'e.name.endsWith("_VISIBLE_DEVICES") && !{matches("e.name", rule.programs)}']
    told = f"!(e.name in {literal((*rule.legacy, *rule.beside_gpu, *rule.advised))})"
    named = all_of([told, any_of([matches("e.name", rule.names), *others])])
    first = f"e.name == {literal(rule.names[0])}"
    wanted = f"no variable such as {rule.names[0]}: it hands out devices past the GPU limit"
    yield Check("deviceEnv", "container", env(f"{named} && !{none}"), wanted)
    if rule.legacy:
        alone = all_of([env(f"e.name in {literal(rule.legacy)}"), f"!{ASKS}", f"!{env(f'{first} && {none}')}"])
        wanted = f"no {', '.join(rule.legacy)} without a GPU: alone it stands for all GPUs of the node"
        yield Check("deviceEnv", "container", alone, wanted)
    if rule.beside_gpu:
        node = env(f"e.name in {literal(rule.beside_gpu)} && !{none}")
        wanted = f"no {', '.join(rule.beside_gpu)}: devices of the node that no limit counts"
        yield Check("deviceEnv", "container", all_of([node, f"!{ASKS}"]), wanted)
        yield Check("deviceEnv", "container", all_of([node, ASKS]), wanted, only_warn=True)
    hidden = all_of([env(f"{named} && {none}"), ASKS])
    yield Check("deviceEnv", "container", hidden, "no variable that hides the GPU from its container", only_warn=True)
    if rule.advised:
        wanted = f"no {', '.join(rule.advised)}: it switches off the check that the driver fits the image"
        yield Check("deviceEnv", "container", env(f"e.name in {literal(rule.advised)}"), wanted, only_warn=True)


def device_env_from(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.device_env_from
    prefix, names = 's.?prefix.orValue("")', rule.names or ()
    longer = any_of([f"{prefix}.startsWith({literal(n[:-1])})" for n in names if n.endswith("*")])
    begins = f"{literal([n.removesuffix('*') for n in names])}.exists(n, n.startsWith({prefix}))"
    completed = f'{prefix} != "" && ({begins} || {longer})'
    wanted = "a prefix that cannot make the name of a variable that hands out devices"
    yield Check("deviceEnvFrom", "container", f"{field('c', 'envFrom')}.exists(s, {completed})", wanted)
    if rule.unknown != "off":
        open_ended = all_of([f'{field("c", "envFrom")}.exists(s, {prefix} == "")', ASKS])
        wanted = "variables by name, or a prefix: a source without one may hand out devices past the GPU limit"
        yield Check("deviceEnvFrom", "container", open_ended, wanted, only_warn=rule.unknown == "warn")


def device_mounts(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    bad = f'{field("c", "volumeMounts")}.exists(m, m.mountPath.contains("nvidia-container-devices"))'
    yield Check("deviceMounts", "container", bad, "no mount below /var/run/nvidia-container-devices")


def device_annotations(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    rule = rules.device_annotations
    small, head = "k.lowerAscii()", '("." + k.lowerAscii().split("/")[0] + ".")'
    asks = any_of([matches(small, rule.keys), *[f"{head}.contains({literal(f'.{d}.')})" for d in rule.domains]])
    beside = matches(small, rule.beside_gpu)
    alone = f"{asks} && !{matches(small, rule.harmless)} && !{beside}"
    wanted = "no annotation that asks the container runtime for devices"
    annotations = "object.metadata.?annotations.orValue({})"
    yield Check("deviceAnnotations", "pod", f"{annotations}.exists(k, {alone})", wanted)
    needed = f"{annotations}.exists(k, {beside})"
    yield Check("deviceAnnotations", "pod", all_of([needed, "!variables.asksForGpu"]), wanted)
    yield Check("deviceAnnotations", "pod", all_of([needed, "variables.asksForGpu"]), wanted, only_warn=True)


def host_devices(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    """`//`, `.` and /var/run are resolved here as there; `..` the API server refuses in host paths."""
    beginnings = [
        clean_path(p.removesuffix("*")) + ("" if p.endswith("*") else "/") for p in rules.host_devices.allowed
    ]
    inside = any_of([f"folder.startsWith({literal(p)})" for p in beginnings])
    special = 'v.?hostPath.?type.orValue("") in ["CharDevice", "BlockDevice", "Socket"]'
    bad = any_of(
        [
            f"variables.hostFolders.exists(folder, !{inside} || folder.contains({literal(chr(92))}))",
            f"object.spec.?volumes.orValue([]).exists(v, {special})",
        ]
    )
    yield Check("hostDevices", "pod", bad, "no host path but the folders of data that the policy allows")


def host_namespaces(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    ipc = "object.spec.?hostIPC.orValue(false)"
    yield Check("hostNamespaces", "pod", "object.spec.?hostPID.orValue(false)", "no hostPID")
    yield Check("hostNamespaces", "pod", f"({ipc} && !variables.asksForGpu)", "no hostIPC in a pod without a GPU")
    wanted = "no hostIPC; for shared memory mount an emptyDir with medium Memory at /dev/shm"
    yield Check("hostNamespaces", "pod", f"({ipc} && variables.asksForGpu)", wanted, only_warn=True)


def privileged(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    wanted = "no privileged container: it sees every GPU of the node"
    security = "c.?securityContext"
    windows = "?securityContext.?windowsOptions.?hostProcess.orValue(false)"
    bad = any_of([f"{security}.?privileged.orValue(false)", f"c.{windows}"])
    yield Check("privileged", "container", bad, wanted)
    yield Check("privileged", "pod", f"object.spec.{windows}", wanted)
    unmasked = f'{security}.?procMount.orValue("") == "Unmasked"'
    yield Check("privileged", "container", unmasked, "the procMount Default", only_warn=True)


def capabilities(rules: Rules, gpus: Gpus) -> Iterator[Check]:
    denied = literal([name for one in rules.capabilities.denied for name in (one, f"CAP_{one}")])
    bad = f"c.?securityContext.?capabilities.?add.orValue([]).exists(a, a.upperAscii() in {denied})"
    yield Check("capabilities", "container", bad, "no capability that opens devices past the GPU limit")

"""Injectors as JSON Patches in CEL: what they do without knowing the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from webhook.export.cel import ASKS, all_of, any_of, asking, field, is_gpu, limits, literal, matches, requests
from webhook.injectors.tolerations import PolicyTaint
from webhook.kube.gpus import Gpus, vendor
from webhook.policy.model import Injectors, Policy
from webhook.policy.workload_classes import ClassRule

NOT_EXPORTED: Mapping[str, str] = {
    "cpuPerGpu": "needs the state of the cluster",
    "topologySpread": "must agree with the chosen node",
    "nodeAffinity": "needs the state of the cluster",
}
"""Injectors that stay with the webhook, and why."""

_LISTS = ("containers", "initContainers")


def variables(policy: Policy, injectors: Injectors) -> Iterator[tuple[str, str]]:
    """Name and expression, each may use those before it."""
    yield "gpuContainers", asking("variables.containers", policy.gpus)
    yield "class", _class(policy.file.classes)
    wanted = '""'
    for workload, name in reversed(injectors.priority_class.classes.items()):
        wanted = f"variables.class == {literal(workload)} ? {literal(name)} : {wanted}"
    yield "priorityClass", wanted


def patches(injectors: Injectors, gpus: Gpus) -> Iterator[tuple[str, str]]:
    """Unit and expression: a list of JSONPatch. Each is idempotent: it is asked again when another hook changed the pod."""
    if injectors.gpu_resources.enabled:
        for kind in _LISTS:
            yield "gpuResources", _limits_from_requests(kind, gpus)
    if injectors.tolerations.enabled and injectors.tolerations.taints:
        yield "tolerations", _tolerations(injectors.tolerations.taints, gpus)
    if injectors.priority_class.enabled and injectors.priority_class.classes:
        yield "priorityClass", _priority_class()
    if injectors.void_devices.enabled:
        for kind in _LISTS:
            yield "voidDevices", _void(kind, injectors.void_devices.variable, injectors.void_devices.value)


def _class(rules: tuple[ClassRule, ...]) -> str:
    """The first rule that matches, as `Policy.classify` has it."""
    labels = "object.metadata.?labels.orValue({})"
    owners = "object.metadata.?ownerReferences.orValue([])"
    found = '"none"'
    for rule in reversed(rules):
        terms = []
        if rule.labels:
            terms.append(any_of(f'{labels}[?{literal(k)}].orValue("") in {literal(v)}' for k, v in rule.labels.items()))
        if rule.owner_kinds:
            terms.append(f"{owners}.exists(o, o.?controller.orValue(false) && o.kind in {literal(rule.owner_kinds)})")
        if "*" not in rule.namespaces:
            terms.append(matches("request.namespace", rule.namespaces))
        found = f"{all_of(terms)} ? {literal(rule.name)} :\n{found}"
    return found


def _each(kind: str, condition: str, patch: str) -> str:
    """`patch`, a list, for each container `c` with index `i` of a list of the pod that satisfies the condition."""
    return f"object.spec.?{kind}.orValue([]).transformList(i, c, {condition}, {patch}).flatten()"


def _limits_from_requests(kind: str, gpus: Gpus) -> str:
    """Only limits are written: from these the API server fills in the requests."""
    missing = f"{requests('c')}.filter(k, {is_gpu('k', gpus)} && !(k in {limits('c')}))"
    path = f'"/spec/{kind}/" + string(i) + "/resources/limits"'
    whole = f'JSONPatch{{op: "add", path: {path}, value: {{}}}}'
    one = f'JSONPatch{{op: "add", path: {path} + "/" + jsonpatch.escapeKey(k), value: c.resources.requests[k]}}'
    patch = f"(has(c.resources.limits) ? [] : [{whole}]) + {missing}.map(k, {one})"
    return _each(kind, f"{missing}.size() > 0", patch)


def _tolerations(taints: tuple[PolicyTaint, ...], gpus: Gpus) -> str:
    parts = ['(has(object.spec.tolerations) ? [] : [JSONPatch{op: "add", path: "/spec/tolerations", value: []}])']
    for taint in taints:
        mine = [g.name for g in gpus.names if taint.vendor is None or vendor(g.name) == taint.vendor]
        k = matches("k", mine)
        wanted = f"variables.containers.exists(c, {limits('c')}.exists(k, {k}) || {requests('c')}.exists(k, {k}))"
        value = f", value: {literal(taint.value)}" if taint.value is not None else ""
        operator = "Equal" if taint.value is not None else "Exists"
        toleration = (
            f"Object.spec.tolerations{{key: {literal(taint.key)}, operator: {literal(operator)}"
            f"{value}, effect: {literal(taint.effect)}}}"
        )
        patch = f'[JSONPatch{{op: "add", path: "/spec/tolerations/-", value: {toleration}}}]'
        parts.append(f"({wanted} && !{_covered(taint)} ? {patch} : [])")
    return " +\n".join(parts)


def _covered(taint: PolicyTaint) -> str:
    """Whether the pod tolerates it already (`tolerations.covers`)."""
    key, effect = 't.?key.orValue("")', 't.?effect.orValue("")'
    same = [f"{key} == {literal(taint.key)}", f'({effect} == "" || {effect} == {literal(taint.effect)})']
    exists = 't.?operator.orValue("") == "Exists"'
    fits = exists
    if taint.value is not None:
        fits = f'({exists} || t.?value.orValue("") == {literal(taint.value)})'
    everything = all_of([f'{key} == ""', exists, same[1]])
    return (
        "object.spec.?tolerations.orValue([]).exists(t, "
        f"!has(t.tolerationSeconds) && ({everything} || {all_of([*same, fits])}))"
    )


def _priority_class() -> str:
    """The API server computed `priority` and `preemptionPolicy` before; without them it computes them again."""
    steps = ['[JSONPatch{op: "add", path: "/spec/priorityClassName", value: variables.priorityClass}]']
    for name in ("priority", "preemptionPolicy"):
        steps.append(f'(has(object.spec.{name}) ? [JSONPatch{{op: "remove", path: "/spec/{name}"}}] : [])')
    chosen = 'object.spec.?priorityClassName.orValue("") != ""'
    return f'variables.priorityClass == "" || {chosen} ? [] :\n' + " +\n".join(steps)


def _void(kind: str, variable: str, value: str) -> str:
    exists = f"{field('c', 'env')}.exists(e, e.name == {literal(variable)})"
    path = f'"/spec/{kind}/" + string(i) + "/env"'
    entry = f"Object.spec.{kind}.env{{name: {literal(variable)}, value: {literal(value)}}}"
    patch = (
        f'(has(c.env) ? [] : [JSONPatch{{op: "add", path: {path}, value: []}}]) + '
        f'[JSONPatch{{op: "add", path: {path} + "/-", value: {entry}}}]'
    )
    return _each(kind, f"!{ASKS} && !{exists}", patch)

"""Checks what protects the webhook and other tenants: guards of the API server, network policies, and who can preempt others."""

from collections.abc import Mapping, Set
from typing import Final

from webhook.cli.checks.result import All, opted_in, warn
from webhook.cli.cluster.answers import replica_pods
from webhook.framework import entitlement
from webhook.kube.pod import PROFILE_LABEL
from webhook.policy.model import Policy
from webhook.rules.device_annotations import DeviceAnnotations
from webhook.rules.priority_class import PriorityClassAllowed
from webhook.text import bare, listed
from webhook.whatif.cluster.release import NAME
from webhook.whatif.cluster.snapshot import Object, Snapshot

_RUNNING_PODS: Final = "gpu-admission-running-pods"
_SCHEDULERS: Final = "gpu-admission-schedulers"
_OWN: Final = "gpu-admission-own-configuration"
_GUARDS: Final = {
    _OWN: "whoever takes over a replica may widen its webhooks",
    "gpu-admission-profile-label": "whoever may label a namespace opts it out, or chooses its profile",
    "gpu-admission-preemption": "whoever may create pods, in any namespace, preempts the pods of all others",
    _RUNNING_PODS: "while no replica answers, annotations that ask for devices may be added to pods",
    _SCHEDULERS: "whoever may do all in a namespace binds its pods with annotations that ask for devices, to any node",
}


def guards(snapshot: Snapshot, policy: Policy) -> All:
    """The ValidatingAdmissionPolicies of the manifests are bound and deny, and agree with the policy."""
    bound = {
        binding["spec"].get("policyName")
        for binding in snapshot.of("ValidatingAdmissionPolicyBinding")
        if "Deny" in (binding["spec"].get("validationActions") or ())
    }
    missing = {name: risk for name, risk in _GUARDS.items() if name not in bound}
    found = []
    for name, risk in missing.items():
        file = "71-running-pods.yaml" if name in (_RUNNING_PODS, _SCHEDULERS) else "70-guards.yaml"
        found.append(warn(f"{name} does not guard: {risk}", f"install it: {snapshot.release.file(file)}"))
    account = f"system:serviceaccount:{snapshot.release.namespace}:{NAME}"
    own = snapshot.named("ValidatingAdmissionPolicy").get(("", _OWN), {}).get("spec", {})
    if _OWN not in missing and account not in str(own.get("matchConditions")):
        step = "install with the chart: `namespace` in a kustomization does not reach its expression"
        found.append(warn(f"{_OWN} does not bind {account}: {_GUARDS[_OWN]}", step))
    profiles = {name: policy.profile(name)[1] for name in policy.file.profiles}
    other = [
        name for name, each in profiles.items() if each.dry_run or each.rules.device_annotations != DeviceAnnotations()
    ]
    if other and _RUNNING_PODS not in missing:
        text = f"{_RUNNING_PODS} refuses by the shipped settings of deviceAnnotations, profile {listed(other)} by others or not"
        found.append(warn(text, "correct manifests/71-running-pods.yaml, and apply it"))
    return found or listed(sorted(_GUARDS))


def network_policy(snapshot: Snapshot, policy: Policy) -> All:
    """A NetworkPolicy, or the check of client certificates, keeps pods away from the webhook."""
    ours = [name for namespace, name in snapshot.named("NetworkPolicy") if namespace == snapshot.release.namespace]
    if _wants_client_certificates(snapshot):
        return listed(ours) or "none; clients show a certificate (--client-ca)"
    step = snapshot.release.component("client-certificate")
    if exposed := [str(pod["metadata"]["name"]) for pod in replica_pods(snapshot) if pod["spec"].get("hostNetwork")]:
        text = f"none holds for {listed(exposed)} on the network of their node: every pod may reach the webhook"
        return [warn(text, step)]
    if ours:
        return listed(ours)
    return [warn("none: every pod may reach the webhook", f"{step}, or apply manifests/optional/network-policy.yaml")]


def _wants_client_certificates(snapshot: Snapshot) -> bool:
    """Whether all replicas run with --client-ca."""
    with_option = [
        any(str(argument).startswith("--client-ca") for argument in container.get("args") or ())
        for pod in replica_pods(snapshot)
        for container in pod["spec"].get("containers") or ()
        if container.get("name") == NAME
    ]
    return bool(with_option) and all(with_option)


GUARD: Final = "gpu-admission-preemption"
_ENTITLED: Final = f"{entitlement.CLASS_LABELS}inference-critical"


def preemption(snapshot: Snapshot, policy: Policy) -> All:
    """The namespaces that can preempt others are those that the policy entitles and the guard of the API server lets through."""
    guarded, critical = _guarded(snapshot)
    given = {name for each in policy.file.profiles.values() for name in each.injectors.priority_class.classes.values()}
    found, able, anybody = [], [], False
    for name, priority_class in sorted(_classes(snapshot)):
        if name not in given or priority_class.get("preemptionPolicy") == "Never":
            continue
        if f"'{name}'" not in guarded:
            text = f"every namespace may use {bare(name)}, which preempts: {GUARD} does not name it"
            found.append(warn(text, "add it there: manifests/70-guards.yaml"))
        may = []
        for namespace, labels in sorted(opted_in(snapshot).items()):
            if f"'{name}'" not in critical or _ENTITLED in labels:
                may += [namespace] if _may_name(name, namespace, labels, policy) else []
            elif _is_given(name, namespace, labels, policy):
                text = f"the policy gives {bare(name)} to pods of namespace {namespace}; the API server refuses them"
                found.append(warn(text, command=("kubectl", "label", "namespace", namespace, f"{_ENTITLED}=")))
        anybody = anybody or bool(may)
        able.append(f"by {bare(name)}: {listed(may, 10) or 'none'}")
    who = f"namespaces that can preempt others {'; '.join(able) or 'by our classes: none'}"
    return found or who + (_whom(snapshot, given) if anybody else "")


def _whom(snapshot: Snapshot, given: Set[str]) -> str:
    """Whose pods give way: those of a lower priority. `given`: the classes that the policy gives."""
    values = {name: int(each.get("value") or 0) for name, each in _classes(snapshot)}
    never = {name for name, each in _classes(snapshot) if each.get("preemptionPolicy") == "Never"}
    order = ", ".join(
        f"{bare(name)} {values[name]}{' (never preempts)' if name in never else ''}"
        for name in sorted(given & values.keys(), key=lambda name: (-values[name], name))
    )
    default = next((values[name] for name, each in _classes(snapshot) if each.get("globalDefault")), 0)
    system = "Kubernetes lets namespaces that have not opted in use system-cluster-critical, before all of these"
    return f". Pods of a lower priority give way, in any namespace: {order}; without a class {default}. {system}"


def _classes(snapshot: Snapshot) -> list[tuple[str, Object]]:
    return [(name, each) for (_, name), each in snapshot.named("PriorityClass").items()]


def _guarded(snapshot: Snapshot) -> tuple[str, str]:
    """The expressions of the guard that name all classes, and those for entitled namespaces."""
    spec = snapshot.named("ValidatingAdmissionPolicy").get(("", GUARD), {}).get("spec", {})
    every = [each.get("expression") or "" for each in spec.get("matchConditions") or ()]
    some = [each.get("expression") or "" for each in spec.get("variables") or () if each.get("name") == "critical"]
    return " ".join(every), " ".join(some)


def _may_name(name: str, namespace: str, labels: Mapping[str, str], policy: Policy) -> bool:
    """Whether the rule priorityClass lets pods of this namespace name this class."""
    profile, settings = policy.profile(labels[PROFILE_LABEL])
    rule = dict(policy.units[profile].rules).get("priorityClass")
    if not isinstance(rule, PriorityClassAllowed) or rule.action != "deny" or settings.dry_run:
        return True
    return rule.reserved_for(name, namespace, labels) is None


def _is_given(name: str, namespace: str, labels: Mapping[str, str], policy: Policy) -> bool:
    """Whether pods of this namespace can get this class from the injector."""
    _, settings = policy.profile(labels[PROFILE_LABEL])
    injector = settings.injectors.priority_class
    return (injector.enabled and not settings.dry_run) and any(
        injector.classes.get(rule.name) == name and entitlement.covers(rule.namespaces, namespace, labels)
        for rule in policy.file.classes
    )

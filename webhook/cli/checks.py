"""The checks of `gpu-admission doctor`: of the installation, the policy and the cluster."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from cryptography import x509

from webhook.admission.context import PROFILE_LABEL
from webhook.cli.cluster.report import gpu_nodes, gpus_of, record_of, report
from webhook.cli.cluster.snapshot import OUR_NAMESPACE, Object, Snapshot
from webhook.kube.pod import MIRROR, annotations_of, owner
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.text import bare, listed, matches_any, nearest, plural

_NAME: Final = "gpu-admission"
_POLICIES: Final = {"mutate.gpu-admission.io": "Ignore", "validate.gpu-admission.io": "Fail"}
_SOON: Final = 7
"""Days before a certificate ends, from which on it is said."""


class Result(NamedTuple):
    """`state`: ok, warn, broken, or unknown, where a right is missing. `next`: what to do."""

    check: str
    state: str
    text: str
    next: str = ""


def _webhooks(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = snapshot.named(kind).get(("", _NAME))
        if found is None:
            yield Result(kind, "broken", "not there: no pod is sent to the webhook", "kubectl apply -k manifests/")
            continue
        hooks = found.get("webhooks") or []
        empty = [hook["name"] for hook in hooks if not (hook.get("clientConfig") or {}).get("caBundle")]
        step, text = f"kubectl -n {OUR_NAMESPACE} logs deployment/{_NAME}", "the API server trusts nobody"
        yield Result(kind, "broken", f"no caBundle in {listed(empty)}: {text}", step) if empty else _expiry(kind, hooks)
        for hook in hooks:
            wanted = _POLICIES.get(hook["name"])
            if wanted and hook.get("failurePolicy") != wanted:
                text = f"{hook['name']}: failurePolicy {hook.get('failurePolicy')}, shipped is {wanted}"
                yield Result(kind, "warn", text, "kubectl apply -k manifests/, if nobody meant it")


def _expiry(kind: str, hooks: list[Object]) -> Result:
    """Of the authority in caBundle: the webhook renews it by itself long before."""
    try:
        bundles = [b64decode(hook["clientConfig"]["caBundle"]) for hook in hooks]
        ends = max(cert.not_valid_after_utc for bundle in bundles for cert in x509.load_pem_x509_certificates(bundle))
    except ValueError as error:
        return Result(kind, "broken", f"caBundle is no certificate: {error}", "remove it: the webhook writes it again")
    days = (ends - datetime.now(UTC)).days
    state = "broken" if days < 0 else "warn" if days < _SOON else "ok"
    step = f"restart it: kubectl -n {OUR_NAMESPACE} rollout restart deployment/{_NAME}" if state != "ok" else ""
    return Result(kind, state, f"there, its authority is valid for {plural(days, 'day')}", step)


def _endpoints(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    slices = [
        s
        for s in snapshot.of("EndpointSlice")
        if s["metadata"].get("labels", {}).get("kubernetes.io/service-name") == _NAME
    ]
    hooks = snapshot.named("MutatingWebhookConfiguration").get(("", _NAME), {}).get("webhooks") or []
    if any("url" in (hook.get("clientConfig") or {}) for hook in hooks):
        yield Result("endpoints", "unknown", "the webhook is called by URL, not by a Service")
        return
    ready = sum((e.get("conditions") or {}).get("ready", True) for s in slices for e in s.get("endpoints") or ())
    step = f"kubectl -n {OUR_NAMESPACE} get pods"
    if not ready:
        yield Result("endpoints", "broken", "no replica is ready: namespaces that opted in start no pods", step)
    elif ready == 1:
        yield Result(
            "endpoints", "warn", "1 replica is ready: its restart stops pod creation", f"{step}; run two at least"
        )
    else:
        yield Result("endpoints", "ok", f"{ready} replicas are ready")


def _others(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Other mutating webhooks for pods: called in the order of the names of their configurations."""
    names = [
        c["metadata"]["name"]
        for c in snapshot.of("MutatingWebhookConfiguration")
        if c["metadata"]["name"] != _NAME and _takes_pods(c)
    ]
    after = sorted(name for name in names if name > _NAME)
    again = f"; after us: {listed(after)}, and we are asked again (reinvocationPolicy)" if after else ""
    before = sorted(set(names) - set(after))
    yield Result("otherWebhooks", "ok", f"before us: {listed(before) or 'none'}{again}")


def _takes_pods(configuration: Object) -> bool:
    rules = [rule for hook in configuration.get("webhooks") or () for rule in hook.get("rules") or ()]
    return any(
        {"pods", "*", "*/*"} & set(r.get("resources") or ()) and {"CREATE", "*"} & set(r.get("operations") or ())
        for r in rules
    )


def _guards(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    bound = {b["spec"].get("policyName") for b in snapshot.of("ValidatingAdmissionPolicyBinding")}
    guards = sorted(name for name in bound if isinstance(name, str) and name.startswith(_NAME))
    text = "no guard: whoever takes over a replica may widen its webhooks, and whoever labels a namespace opts it out"
    yield Result("guards", "ok", listed(guards)) if guards else _lacking("guards", text, "70-guards.yaml")


def _network(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    ours = [
        n["metadata"]["name"] for n in snapshot.of("NetworkPolicy") if n["metadata"].get("namespace") == OUR_NAMESPACE
    ]
    text = "none: every pod may reach the webhook"
    yield Result("networkPolicy", "ok", listed(ours)) if ours else _lacking("networkPolicy", text, "components")


def _lacking(check: str, text: str, where: str) -> Result:
    return Result(check, "warn", text, f"install it: manifests/{where}")


def _namespaces(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    chosen = {
        n["metadata"]["name"]: (n["metadata"].get("labels") or {}).get(PROFILE_LABEL) for n in snapshot.of("Namespace")
    }
    opted = {name: profile for name, profile in chosen.items() if profile is not None}
    unknown = {name: profile for name, profile in opted.items() if profile and policy.profile(profile)[0] != profile}
    for name, profile in unknown.items():
        near = nearest(profile, list(policy.file.profiles))
        text = f"namespace {name} names profile {bare(profile)}, which the policy lacks: {DEFAULT_PROFILE} is used"
        yield Result(
            "namespaces",
            "warn",
            text,
            f"kubectl label namespace {name} {PROFILE_LABEL}={near or DEFAULT_PROFILE} --overwrite",
        )
    if not opted:
        step = f"kubectl label namespace NAME {PROFILE_LABEL}={DEFAULT_PROFILE}"
        yield Result("namespaces", "warn", "none has opted in: the webhook is never asked", step)
    elif not unknown:
        yield Result("namespaces", "ok", f"{plural(len(opted), 'namespace')} opted in: {listed(sorted(opted))}")
    for entry in policy.file.classes:
        if entry.namespaces and not any(matches_any(entry.namespaces, name) for name in chosen):
            text = f"class {entry.name} is for namespaces {listed(entry.namespaces)}, and there is none"
            yield Result("classes", "warn", text, "mend `classes` in the policy")


def _priorities(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    known = [name for _, name in snapshot.named("PriorityClass")]
    wanted = set(policy.profile(DEFAULT_PROFILE)[1].injectors.priority_class.classes.values())
    if missing := sorted(wanted - set(known)):
        text = f"the policy names what does not exist: {listed(missing)}; pods keep their priority"
        yield Result("priorityClasses", "broken", text, "kubectl apply -f manifests/50-priority-classes.yaml")
    else:
        yield Result("priorityClasses", "ok", listed(sorted(wanted)) or "the policy names none")


def _nodes(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    nodes = report(snapshot, policy, gpu_nodes(snapshot, policy))
    if not nodes:
        yield Result("nodes", "warn", "no node has GPUs", "install a device plugin, or add nodes")
        return
    sick: dict[str, list[str]] = {}
    for node in nodes:
        sick.setdefault(node["health"], []).append(node["name"])
    healthy = len(sick.pop("healthy", []))
    yield Result(
        "nodes",
        "ok" if healthy else "broken",
        f"{healthy} of {plural(len(nodes), 'GPU node')} healthy",
        "" if healthy else "gpu-admission nodes",
    )
    for health, names in sick.items():
        state = "ok" if health == "cordoned" else "warn"
        yield Result(
            "nodes", state, f"{health}: {listed(names)}", f"kubectl describe node {names[0]}" if state == "warn" else ""
        )
    bare_nodes = [n for n in nodes if not any(t.endswith((":NoSchedule", ":NoExecute")) for t in n["taints"])]
    guests = {n["name"]: sum(_is_guest(pod, policy) for pod in snapshot.pods_on.get(n["name"], ())) for n in bare_nodes}
    if busy := sorted(name for name, count in guests.items() if count):
        text = f"{plural(sum(guests.values()), 'pod')} without GPUs on GPU nodes without a taint: {listed(busy)}"
        yield Result(
            "taints",
            "warn",
            text,
            f"kubectl taint node {busy[0]} nvidia.com/gpu=present:NoSchedule; and everyPod in the policy",
        )
    else:
        yield Result("taints", "ok", "no pods without GPUs on GPU nodes but those of DaemonSets")
    plain = [node["name"] for node in nodes if "nvidia.com/gpu" in node["gpus"]]
    shared = [name for name in plain if _shares(snapshot.nodes[name])]
    whole = [name for name in plain if name not in shared]
    if shared and whole:
        text = f"nvidia.com/gpu is a share of a GPU on {listed(shared)}, and a whole one on {listed(whole)}: pods cannot tell"
        yield Result(
            "timeSlicing", "warn", text, "set renameByDefault: true in the device plugin's time-slicing configuration"
        )


def _shares(node: Object) -> bool:
    return (node["metadata"].get("labels") or {}).get("nvidia.com/gpu.replicas", "1") not in ("0", "1")


def _is_guest(pod: Any, policy: Policy) -> bool:
    controller = owner(pod)
    kept = (controller is not None and controller.kind in ("DaemonSet", "Node")) or MIRROR in annotations_of(pod)
    return not kept and not gpus_of(pod, policy)


def _decisions(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    opted = {
        n["metadata"]["name"] for n in snapshot.of("Namespace") if PROFILE_LABEL in (n["metadata"].get("labels") or {})
    }
    pods = [
        p
        for pods in snapshot.pods_on.values()
        for p in pods
        if p["metadata"]["namespace"] in opted and gpus_of(p, policy)
    ]
    without = [p for p in pods if not record_of(p)]
    if without:
        text = f"{len(without)} of {plural(len(pods), 'GPU pod')} in namespaces that opted in have no decision"
        yield Result("decisions", "warn", text, "gpu-admission audit says what the rules would say of them")
    else:
        yield Result(
            "decisions", "ok", f"{plural(len(pods), 'GPU pod')} in namespaces that opted in, all with a decision"
        )


CHECKS: Final[tuple[tuple[str, tuple[str, ...], Callable[[Snapshot, Policy], Iterator[Result]]], ...]] = (
    ("webhooks", ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _webhooks),
    ("endpoints", ("EndpointSlice",), _endpoints),
    ("otherWebhooks", ("MutatingWebhookConfiguration",), _others),
    ("guards", ("ValidatingAdmissionPolicyBinding",), _guards),
    ("networkPolicy", ("NetworkPolicy",), _network),
    ("namespaces", ("Namespace",), _namespaces),
    ("priorityClasses", ("PriorityClass",), _priorities),
    ("nodes", (), _nodes),
    ("decisions", (), _decisions),
)
"""Each check with its name, and the kinds that it cannot do without."""

"""Checks that the cluster has what the policy refers to: namespaces, workload classes, priority classes, taints, labels.

Taints and labels of the shipped policy are not reported: they are for all clusters, and no cluster has all of them.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Final

from webhook.cli.checks.result import All, Result, broken, opted_in, warn
from webhook.kube.pod import FINISHED, PROFILE_LABEL, labels_of, owner
from webhook.policy.model import DEFAULT_PROFILE, Policy
from webhook.policy.references import Reference, added, hard_spread, node_labels, node_taints
from webhook.policy.workload_classes import ANY, ClassRule
from webhook.text import bare, listed, matches, matches_any, nearest, plural, suggestion
from webhook.whatif.cluster.report import asks_for_gpus, gpu_nodes
from webhook.whatif.cluster.snapshot import Object, Snapshot
from webhook.whatif.offline import load_policy

_ANY: Final = ("*",)


def namespaces(snapshot: Snapshot, policy: Policy) -> All:
    """Some namespaces have opted in, and name profiles that the policy has."""
    opted = {name: labels[PROFILE_LABEL] for name, labels in opted_in(snapshot).items()}
    unknown = {name: profile for name, profile in opted.items() if profile and policy.profile(profile)[0] != profile}
    found = []
    for name, profile in unknown.items():
        near = nearest(profile, list(policy.file.profiles)) or DEFAULT_PROFILE
        text = f"namespace {name} names profile {bare(profile)}, which the policy lacks: {DEFAULT_PROFILE} is used"
        label = ("kubectl", "label", "namespace", name, f"{PROFILE_LABEL}={near}", "--overwrite")
        found.append(warn(text, command=label))
    if not opted:
        step = f"kubectl label namespace NAME {PROFILE_LABEL}={DEFAULT_PROFILE}"
        return [warn("none has opted in: the webhook is never asked", step)]
    return found or f"{plural(len(opted), 'namespace')} opted in: {listed(sorted(opted))}"


def classes(snapshot: Snapshot, policy: Policy) -> All:
    """Every entry of `classes` can match a pod, and no label of a pod is misspelt."""
    rules, names = policy.file.classes, [n["metadata"]["name"] for n in snapshot.of("Namespace")]
    found = []
    for number, rule in enumerate(rules):
        covering = [at for at, earlier in enumerate(rules[:number]) if _covers(earlier, rule)]
        why = f"entry {covering[0] + 1} takes all its pods first" if covering else ""
        by_label = any("/" in entry for entry in rule.namespaces)
        if not why and names and not by_label and not any(matches_any(rule.namespaces or _ANY, name) for name in names):
            why = f"it is for namespaces {listed(rule.namespaces)}, and there is none"
        if why:
            text = f"entry {number + 1} of `classes`, {bare(rule.name)}, fits no pod: {why}"
            found.append(warn(text, "correct `classes`", snapshot.release.edit_policy))
    step = "correct it in their manifests, or add it to `classes`"
    for warning, pods in sorted(_warned(snapshot, policy).items()):
        found.append(warn(f"{plural(pods, 'GPU pod')}: {warning}", step))
    return found or listed(list(dict.fromkeys(rule.name for rule in rules)), 10)


def _covers(one: ClassRule, other: ClassRule) -> bool:
    """Whether `one` matches every pod that `other` matches."""
    labels = not one.labels or (
        bool(other.labels) and all(_within(values, one.labels.get(key, ())) for key, values in other.labels.items())
    )
    kinds = not one.owner_kinds or (bool(other.owner_kinds) and _within(other.owner_kinds, one.owner_kinds))
    ends = not one.restart_policies or (
        bool(other.restart_policies) and set(other.restart_policies) <= set(one.restart_policies)
    )
    namespaces = one.namespaces == _ANY or (bool(other.namespaces) and set(other.namespaces) <= set(one.namespaces))
    return labels and kinds and ends and namespaces


def _within(values: tuple[str, ...], wider: tuple[str, ...]) -> bool:
    """Whether a label with one of `values` has one of `wider`, or a kind is one of these."""
    return ANY in wider or set(values) <= set(wider)


def _warned(snapshot: Snapshot, policy: Policy) -> Counter[str]:
    """Why GPU pods are not of the class that their labels ask for: each warning with the number of pods."""
    warnings, opted = Counter[str](), opted_in(snapshot)
    for pod in snapshot.of("Pod"):
        namespace = pod["metadata"]["namespace"]
        ended = pod["status"].get("phase") in FINISHED
        if namespace in opted and not ended and asks_for_gpus(pod, policy):
            warnings[policy.classify(pod, owner(pod), namespace, opted[namespace]).warning or ""] += 1
    del warnings[""]
    return warnings


def priority_classes(snapshot: Snapshot, policy: Policy) -> All:
    """The PriorityClasses that the policy gives to pods exist, with the shipped order: a value is immutable, so that an upgrade
    may have left an old one."""
    known = {name: int(each.get("value") or 0) for (_, name), each in snapshot.named("PriorityClass").items()}
    wanted = {
        name
        for profile in [policy.profile(name)[1] for name in policy.file.profiles]
        if profile.injectors.priority_class.enabled
        for name in profile.injectors.priority_class.classes.values()
        if name
    }
    if missing := sorted(wanted - known.keys()):
        text = f"the policy names what does not exist: {listed(missing)}; pods keep their priority"
        step = snapshot.release.created("priorityClasses", "50-priority-classes.yaml")
        return [broken(text, f"{step}, or correct the policy")]
    for one, other in pairwise(load_policy().profile(DEFAULT_PROFILE)[1].injectors.priority_class.classes.values()):
        if {one, other} <= known.keys() & wanted and known[one] <= known[other]:
            text = f"{one} ({known[one]}) is not above {other} ({known[other]})"
            return [warn(text, command=("kubectl", "apply", "--force", "-f", "manifests/50-priority-classes.yaml"))]
    return listed(sorted(wanted), 10) or "the policy names none"


def taints(snapshot: Snapshot, policy: Policy) -> All:
    """Some node has each taint that the policy adds to the shipped one."""
    seen = {pair for node in snapshot.nodes.values() for pair in _taints_of(node)}
    found = _report(snapshot, "taint", added(policy, node_taints), seen)
    on_gpus = {key for name in gpu_nodes(snapshot, policy) for key, _ in _taints_of(snapshot.nodes[name])}
    return found or f"those of GPU nodes: {listed(sorted(on_gpus)) or 'none'}"


def _taints_of(node: Object) -> list[tuple[str, str]]:
    return [(str(each.get("key")), str(each.get("value") or "")) for each in node["spec"].get("taints") or ()]


def labels(snapshot: Snapshot, policy: Policy) -> All:
    """Some node has each label that the policy adds to the shipped one."""
    seen = {pair for node in snapshot.nodes.values() for pair in labels_of(node).items()}
    found = _report(snapshot, "label", added(policy, node_labels), seen)
    return found or "nodes have every label that the policy adds to the shipped one"


def topology_spread(snapshot: Snapshot, policy: Policy) -> All:
    """No constraint with DoNotSchedule counts a domain in which no node has GPUs (see `hard_spread`)."""
    with_gpus, found, hard = set(gpu_nodes(snapshot, policy)), [], [*hard_spread(policy)]
    for profile, constraint in hard:
        keys = {each.key for name, each in hard if name == profile}
        counted = {name: labels_of(node) for name, node in snapshot.nodes.items() if keys <= labels_of(node).keys()}
        domains = {each[constraint.key] for name, each in counted.items() if name in with_gpus}
        empty = {each[constraint.key] for each in counted.values()} - domains
        if empty and len(domains) > 1:  # with one, pods get no constraint
            text = (
                f"profiles.{profile}.injectors.topologySpread.constraints: DoNotSchedule over {bare(constraint.key)} also counts "
                f"{listed(sorted(empty))}, which have no node with GPUs: of a workload at most "
                f"{plural(constraint.max_skew, 'pod')} (maxSkew) starts in each of {listed(sorted(domains))}, and the rest waits"
            )
            step = "use ScheduleAnyway, or give the pods a nodeSelector for GPU nodes"
            found.append(warn(text, step, snapshot.release.edit_policy))
    return found or ("DoNotSchedule counts only domains with GPUs" if hard else "no constraint with DoNotSchedule")


def _report(
    snapshot: Snapshot, noun: str, wanted: Iterable[tuple[str, Reference]], seen: Collection[tuple[str, str]]
) -> list[Result]:
    """A result for each taint or label that no node has. `seen`: the keys and values that nodes have."""
    found, known = [], {key for key, _ in seen}
    for profile, ref in wanted:
        if any(matches(ref.key, key) and (not ref.values or value in ref.values) for key, value in seen):
            continue
        hint = suggestion(ref.key, sorted(known), "; nearest: {}") if ref.key not in known else ""
        waits = ": its pods wait for ever" if ref.required else ""
        text = f"profiles.{profile}.{ref.field}: no node has the {noun} {ref.text}{hint}{waits}"
        state = broken if ref.required else warn
        found.append(state(text, f"correct it, or {noun} nodes", snapshot.release.edit_policy))
    return found

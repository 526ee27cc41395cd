"""Checks that the cluster has what the policy refers to: namespaces, workload classes, priority classes, taints, labels.

Taints and labels of the shipped policy are not reported: they are for all clusters, and no cluster has all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from webhook.cli.checks.result import EDIT_POLICY, All, Found, broken, opted_in, warn
from webhook.cli.cluster.report import gpu_nodes, gpus_of
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.offline import load_policy
from webhook.kube.pod import PROFILE_LABEL, labels_of, owner
from webhook.policy.model import DEFAULT_PROFILE, Policy, Profile
from webhook.policy.workload_classes import ClassRule
from webhook.text import bare, listed, matches, matches_any, nearest, plural

_ANY: Final = ("*",)


def namespaces(snapshot: Snapshot, policy: Policy) -> All:
    """Some namespaces have opted in, and name profiles that the policy has."""
    opted = {name: labels[PROFILE_LABEL] for name, labels in opted_in(snapshot).items()}
    unknown = {name: profile for name, profile in opted.items() if profile and policy.profile(profile)[0] != profile}
    found = []
    for name, profile in unknown.items():
        near = nearest(profile, list(policy.file.profiles)) or DEFAULT_PROFILE
        text = f"namespace {name} names profile {bare(profile)}, which the policy lacks: {DEFAULT_PROFILE} is used"
        found.append(warn(text, f"kubectl label namespace {name} {PROFILE_LABEL}={near} --overwrite"))
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
            found.append(warn(text, f"correct `classes`: {EDIT_POLICY}"))
    step = "correct it in their manifests, or add it to `classes`"
    for warning, pods in sorted(_warned(snapshot, policy).items()):
        found.append(warn(f"{plural(pods, 'GPU pod')}: {warning}", step))
    return found or listed(list(dict.fromkeys(rule.name for rule in rules)), 10)


def _covers(one: ClassRule, other: ClassRule) -> bool:
    """Whether `one` matches every pod that `other` matches."""
    labels = not one.labels or (
        bool(other.labels) and all(set(values) <= set(one.labels.get(key, ())) for key, values in other.labels.items())
    )
    kinds = not one.owner_kinds or (bool(other.owner_kinds) and set(other.owner_kinds) <= set(one.owner_kinds))
    namespaces = one.namespaces == _ANY or (bool(other.namespaces) and set(other.namespaces) <= set(one.namespaces))
    return labels and kinds and namespaces


def _warned(snapshot: Snapshot, policy: Policy) -> Counter[str]:
    """Why GPU pods are not of the class that their labels ask for: each warning with the number of pods."""
    warnings, opted = Counter[str](), opted_in(snapshot)
    for pod in snapshot.of("Pod"):
        namespace = pod["metadata"]["namespace"]
        if namespace in opted and gpus_of(pod, policy):
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
        return [broken(text, "kubectl apply -f manifests/50-priority-classes.yaml, or correct the policy")]
    for one, other in pairwise(_shipped().injectors.priority_class.classes.values()):
        if {one, other} <= known.keys() & wanted and known[one] <= known[other]:
            text = f"{one} ({known[one]}) is not above {other} ({known[other]})"
            return [warn(text, "kubectl apply --force -f manifests/50-priority-classes.yaml")]
    return listed(sorted(wanted), 10) or "the policy names none"


class _Reference(NamedTuple):
    """A taint or label that a profile refers to, and the `field` that does."""

    field: str
    key: str
    values: tuple[str, ...] = ()
    """It has one of these values; () is any value."""
    required: bool = False
    """Whether pods wait for ever without it."""

    @property
    def text(self) -> str:
        return f"{bare(self.key)}{f'={listed(map(bare, self.values))}' if self.values else ''}"


def taints(snapshot: Snapshot, policy: Policy) -> All:
    """Some node has each taint that the policy adds to the shipped one."""
    node_taints = {
        (str(taint.get("key")), str(taint.get("value") or ""))
        for node in snapshot.nodes.values()
        for taint in node["spec"].get("taints") or ()
    }
    lacking = [
        (profile, ref)
        for profile, ref in _added(policy, _taints)
        if not any(matches(ref.key, key) and (not ref.values or value in ref.values) for key, value in node_taints)
    ]
    on_gpus = {
        str(taint.get("key"))
        for name in gpu_nodes(snapshot, policy)
        for taint in snapshot.nodes[name]["spec"].get("taints") or ()
    }
    found = _report("taint", lacking, [key for key, _ in node_taints])
    return found or f"those of GPU nodes: {listed(sorted(on_gpus)) or 'none'}"


def labels(snapshot: Snapshot, policy: Policy) -> All:
    """Some node has each label that the policy adds to the shipped one."""
    node_labels: dict[str, set[str]] = {}
    for node in snapshot.nodes.values():
        for key, value in labels_of(node).items():
            node_labels.setdefault(key, set()).add(value)
    lacking = [
        (profile, ref)
        for profile, ref in _added(policy, _labels)
        if ref.key not in node_labels or (ref.values and node_labels[ref.key].isdisjoint(ref.values))
    ]
    found = _report("label", lacking, list(node_labels))
    return found or "nodes have every label that the policy adds to the shipped one"


def _report(noun: str, lacking: Iterable[tuple[str, _Reference]], known: list[str]) -> list[Found]:
    """A result for each taint or label that no node has. `known` are the keys that nodes have."""
    found = []
    for profile, ref in lacking:
        near = nearest(ref.key, sorted(set(known))) if ref.key not in known else None
        hint = f"; nearest: {bare(near)}" if near else ""
        waits = ": its pods wait for ever" if ref.required else ""
        text = f"profiles.{profile}.{ref.field}: no node has the {noun} {ref.text}{hint}{waits}"
        found.append((broken if ref.required else warn)(text, f"correct it, or {noun} nodes: {EDIT_POLICY}"))
    return found


def _taints(profile: Profile) -> Iterator[_Reference]:
    for section in ("taints", "allowed"):
        for taint in getattr(profile.injectors.tolerations, section):
            yield _Reference(f"injectors.tolerations.{section}", taint.key, (taint.value,) if taint.value else ())
    for key in profile.rules.cpu_pod_on_gpu_node.taints:
        yield _Reference("rules.cpuPodOnGpuNode.taints", key)


def _labels(profile: Profile) -> Iterator[_Reference]:
    spread = profile.injectors.topology_spread
    for constraint in spread.constraints if spread.enabled and spread.mode == "constraints" else ():
        required = constraint.when_unsatisfiable == "DoNotSchedule"
        yield _Reference("injectors.topologySpread.constraints", constraint.key, required=required)
    for key in profile.placement.gangs.keys:
        yield _Reference("placement.gangs.keys", key)
    for key in profile.placement.health.labels:
        yield _Reference("placement.health.labels", key)
    for preference in profile.placement.preferences:
        for expression in preference.nodes:
            if expression.operator not in ("NotIn", "DoesNotExist"):
                values = tuple(expression.values) if expression.operator == "In" else ()
                yield _Reference("placement.preferences", expression.key, values)


def _added(policy: Policy, references: Callable[[Profile], Iterator[_Reference]]) -> Iterator[tuple[str, _Reference]]:
    """The references that the shipped profile does not have, each with the name of the first profile that has it."""
    seen = set(references(_shipped()))
    for name in policy.file.profiles:
        for reference in references(policy.profile(name)[1]):
            if reference not in seen:
                seen.add(reference)
                yield name, reference


@cache
def _shipped() -> Profile:
    return load_policy().profile(DEFAULT_PROFILE)[1]

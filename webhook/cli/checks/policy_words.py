"""What the policy names, and whether the cluster has it: namespaces, classes of workload, priority classes, taints, labels.

Entries of the shipped policy are for all clusters: no cluster has all of them, and they are not reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

from webhook.admission.context import PROFILE_LABEL
from webhook.cli.checks.result import Result
from webhook.cli.cluster.kinds import OUR_NAMESPACE
from webhook.cli.cluster.report import gpu_nodes, gpus_of
from webhook.cli.cluster.snapshot import OUR_POLICY, Snapshot
from webhook.cli.offline import load_policy
from webhook.kube.pod import labels_of
from webhook.policy.model import DEFAULT_PROFILE, Policy, Profile
from webhook.policy.workload_classes import ClassRule
from webhook.text import bare, listed, matches, matches_any, nearest, plural

_EDIT: Final = f"kubectl -n {OUR_NAMESPACE} edit configmap {OUR_POLICY}"
_ANY: Final = ("*",)


def namespaces(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Some have opted in, to profiles that there are."""
    chosen = {
        n["metadata"]["name"]: (n["metadata"].get("labels") or {}).get(PROFILE_LABEL) for n in snapshot.of("Namespace")
    }
    opted = {name: profile for name, profile in chosen.items() if profile is not None}
    unknown = {name: profile for name, profile in opted.items() if profile and policy.profile(profile)[0] != profile}
    for name, profile in unknown.items():
        near = nearest(profile, list(policy.file.profiles)) or DEFAULT_PROFILE
        text = f"namespace {name} names profile {bare(profile)}, which the policy lacks: {DEFAULT_PROFILE} is used"
        yield Result("namespaces", "warn", text, f"kubectl label namespace {name} {PROFILE_LABEL}={near} --overwrite")
    if not opted:
        step = f"kubectl label namespace NAME {PROFILE_LABEL}={DEFAULT_PROFILE}"
        yield Result("namespaces", "warn", "none has opted in: the webhook is never asked", step)
    elif not unknown:
        yield Result("namespaces", "ok", f"{plural(len(opted), 'namespace')} opted in: {listed(sorted(opted))}")


def classes(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Every entry of `classes` can fit a pod, and labels of pods that are nearly those of an entry are named."""
    rules, names = policy.file.classes, [n["metadata"]["name"] for n in snapshot.of("Namespace")]
    wrong = False
    for number, rule in enumerate(rules):
        why = next(
            (
                f"entry {at + 1} takes all its pods first"
                for at, earlier in enumerate(rules[:number])
                if _covers(earlier, rule)
            ),
            "",
        )
        if not why and names and not any(matches_any(rule.namespaces or _ANY, name) for name in names):
            why = f"it is for namespaces {listed(rule.namespaces)}, and there is none"
        if why:
            wrong = True
            text = f"entry {number + 1} of `classes`, {bare(rule.name)}, fits no pod: {why}"
            yield Result("classes", "warn", text, f"mend `classes`: {_EDIT}")
    for key, value, near, pods in _nearly(snapshot, policy):
        wrong = True
        text = f"label {bare(key)}={bare(value)} on {plural(pods, 'GPU pod')} is of no class"
        yield Result(
            "classes", "warn", text, f"write {bare(key)}={bare(near)} in their manifests, or add it to `classes`"
        )
    if not wrong:
        yield Result("classes", "ok", listed(list(dict.fromkeys(rule.name for rule in rules)), 10))


def _covers(one: ClassRule, other: ClassRule) -> bool:
    """Whether every pod that `other` fits, `one` fits too."""
    labels = not one.labels or (
        bool(other.labels) and all(set(values) <= set(one.labels.get(key, ())) for key, values in other.labels.items())
    )
    kinds = not one.owner_kinds or (bool(other.owner_kinds) and set(other.owner_kinds) <= set(one.owner_kinds))
    return (
        labels
        and kinds
        and (one.namespaces == _ANY or (bool(other.namespaces) and set(other.namespaces) <= set(one.namespaces)))
    )


def _nearly(snapshot: Snapshot, policy: Policy) -> Iterator[tuple[str, str, str, int]]:
    """Label, value, the nearest value that a class has, and how many pods have it."""
    known: dict[str, list[str]] = {}
    for rule in policy.file.classes:
        for key, values in rule.labels.items():
            known.setdefault(key, []).extend(values)
    seen: dict[tuple[str, str], int] = {}
    opted = {
        n["metadata"]["name"] for n in snapshot.of("Namespace") if PROFILE_LABEL in (n["metadata"].get("labels") or {})
    }
    for pod in snapshot.of("Pod"):
        labels = labels_of(pod) if pod["metadata"]["namespace"] in opted else {}
        for key in known.keys() & labels.keys():
            if labels[key] not in known[key] and gpus_of(pod, policy):
                seen[key, labels[key]] = seen.get((key, labels[key]), 0) + 1
    for (key, value), pods in sorted(seen.items()):
        if near := nearest(value, known[key]):
            yield key, value, near, pods


def priorities(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """The PriorityClasses that are given to pods exist."""
    known = {name for _, name in snapshot.named("PriorityClass")}
    wanted = {
        name
        for _, profile in _profiles(policy)
        if profile.injectors.priority_class.enabled
        for name in profile.injectors.priority_class.classes.values()
        if name
    }
    if missing := sorted(wanted - known):
        text = f"the policy names what does not exist: {listed(missing)}; pods keep their priority"
        yield Result(
            "priorityClasses", "broken", text, "kubectl apply -f manifests/50-priority-classes.yaml, or mend the policy"
        )
    else:
        yield Result("priorityClasses", "ok", listed(sorted(wanted), 10) or "the policy names none")


class _Named(NamedTuple):
    """A word that a profile names, and `where`. `values`: one of these; (): any. `hard`: pods may wait for ever for it."""

    where: str
    word: str
    values: tuple[str, ...] = ()
    hard: bool = False

    @property
    def text(self) -> str:
        return f"{bare(self.word)}{f'={listed(map(bare, self.values))}' if self.values else ''}"


def taints(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Taints that the policy names are on nodes, and taints of nodes with GPUs are tolerated by it."""
    node_taints = {
        (str(taint.get("key")), str(taint.get("value") or ""))
        for node in snapshot.nodes.values()
        for taint in node["spec"].get("taints") or ()
    }
    lacking = [
        (profile, named)
        for profile, named in _beyond_shipped(policy, _taints)
        if not any(
            matches(named.word, key) and (not named.values or value in named.values) for key, value in node_taints
        )
    ]
    yield from _report("policyTaints", "taint", lacking, [key for key, _ in node_taints])
    if not lacking:
        on_gpus = {
            str(taint.get("key"))
            for name in gpu_nodes(snapshot, policy)
            for taint in snapshot.nodes[name]["spec"].get("taints") or ()
        }
        yield Result("policyTaints", "ok", f"those of GPU nodes: {listed(sorted(on_gpus)) or 'none'}")


def labels(snapshot: Snapshot, policy: Policy) -> Iterator[Result]:
    """Labels of nodes that the policy names are on nodes."""
    node_labels: dict[str, set[str]] = {}
    for node in snapshot.nodes.values():
        for key, value in (node["metadata"].get("labels") or {}).items():
            node_labels.setdefault(key, set()).add(value)
    lacking = [
        (profile, named)
        for profile, named in _beyond_shipped(policy, _labels)
        if named.word not in node_labels or (named.values and node_labels[named.word].isdisjoint(named.values))
    ]
    yield from _report("policyLabels", "label", lacking, list(node_labels))
    if not lacking:
        yield Result("policyLabels", "ok", "nodes have every label that the policy adds to the shipped one")


def _report(check: str, noun: str, lacking: Iterable[tuple[str, _Named]], known: list[str]) -> Iterator[Result]:
    for profile, named in lacking:
        near = nearest(named.word, sorted(key for key in set(known) if key != named.word))
        waits = ": its pods wait for ever" if named.hard else ""
        hint = f"; nearest: {bare(near)}" if near and named.word not in known else ""
        text = f"profiles.{profile}.{named.where}: no node has the {noun} {named.text}{hint}{waits}"
        yield Result(check, "broken" if named.hard else "warn", text, f"mend it, or {noun} nodes: {_EDIT}")


def _taints(profile: Profile) -> Iterator[_Named]:
    for section in ("taints", "allowed"):
        for taint in getattr(profile.injectors.tolerations, section):
            yield _Named(f"injectors.tolerations.{section}", taint.key, (taint.value,) if taint.value else ())
    for key in profile.rules.cpu_pod_on_gpu_node.taints:
        yield _Named("rules.cpuPodOnGpuNode.taints", key)


def _labels(profile: Profile) -> Iterator[_Named]:
    spread = profile.injectors.topology_spread
    for constraint in spread.constraints if spread.enabled and spread.mode == "constraints" else ():
        hard = constraint.when_unsatisfiable == "DoNotSchedule"
        yield _Named("injectors.topologySpread.constraints", constraint.key, hard=hard)
    for key in profile.placement.gangs.keys:
        yield _Named("placement.gangs.keys", key)
    for key in profile.placement.health.labels:
        yield _Named("placement.health.labels", key)
    for preference in profile.placement.preferences:
        for expression in preference.nodes:
            if expression.operator not in ("NotIn", "DoesNotExist"):
                yield _Named(
                    "placement.preferences",
                    expression.key,
                    tuple(expression.values) if expression.operator == "In" else (),
                )


def _beyond_shipped(policy: Policy, names: Any) -> Iterator[tuple[str, _Named]]:
    """What a profile names that the shipped one does not."""
    seen = set(names(_shipped()))
    for name, profile in _profiles(policy):
        for named in names(profile):
            if named not in seen:
                seen.add(named)
                yield name, named


@cache
def _shipped() -> Profile:
    return load_policy().profile(DEFAULT_PROFILE)[1]


def _profiles(policy: Policy) -> Iterator[tuple[str, Profile]]:
    for name in policy.file.profiles:
        yield policy.profile(name)

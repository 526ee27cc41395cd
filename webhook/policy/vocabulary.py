"""Finds misspelt words in a policy: classes that no entry gives, and slips in kinds, labels, taints and GPU names.

Nobody would notice such a word, since the setting would just never apply. So the policy is refused, with the nearest word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

from webhook.kube.gpus import MODEL_LABELS
from webhook.policy.templates import CUSTOM
from webhook.policy.workload_classes import CLASSES, GPUS, ClassRule
from webhook.text import bare, nearest, one_edit_apart, quoted

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
_DEFAULT_CLASSES: Final = (*dict.fromkeys(rule.name for rule in CLASSES), "none")
"""Class names in the default policy. `none` is the class of a pod that no entry of `classes` matches."""
_CREATORS: Final = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Kinds whose pods are created by another kind."""
_KINDS: Final = tuple(
    dict.fromkeys(
        (
            *(kind for rule in CLASSES for kind in rule.owner_kinds),
            *(custom.kind for custom in CUSTOM),
            *("DaemonSet", "Notebook", "SparkApplication", "SeldonDeployment", "Rollout"),
        )
    )
)
_GROUPS: Final = tuple(dict.fromkeys(custom.group for custom in CUSTOM))
_LABELS: Final = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type"),
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.kubernetes.io/rack"),
    *MODEL_LABELS,
    *[f"nvidia.com/gpu.{name}" for name in ("memory", "count", "family", "replicas", "present", "sharing-strategy")],
    *(
        "nvidia.com/gpu-driver-upgrade-state",
        "nvidia.com/mig.config",
        "nvidia.com/mig.strategy",
        "nvidia.com/mig.capable",
    ),
    *("nvidia.com/gpu.clique", "karpenter.sh/nodepool", "karpenter.sh/capacity-type", "cloud.google.com/gke-nodepool"),
    *("cloud.google.com/gke-spot", "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool"),
)
_GPUS: Final = tuple([gpu.name for gpu in GPUS])


def problems(classes: tuple[ClassRule, ...], gpus: Iterable[str], profiles: Mapping[str, Any]) -> Iterator[Problem]:
    """The misspelt words, each with its location in the policy."""
    for index, name in enumerate(gpus):
        yield from _slip(("gpus", index, "name"), name, _GPUS, "resource")
    for number, rule in enumerate(classes):
        for index, kind in enumerate(rule.owner_kinds):
            yield from _kind(("classes", number, "ownerKinds", index), kind)
    class_names = tuple(dict.fromkeys(rule.name for rule in classes))
    yield from _made_by_a_slip(classes, {name for settings in profiles.values() for _, name in _class_names(settings)})
    for profile, settings in profiles.items():
        for place, name in _class_names(settings):
            if name not in class_names and name not in _DEFAULT_CLASSES:
                near = nearest(name, class_names)
                hint = (
                    f"did you mean {quoted(near)}?" if near else f"`classes` makes {', '.join(map(bare, class_names))}"
                )
                yield ("profiles", profile, *place), f"no entry of `classes` makes the class {quoted(name)}; {hint}"
        for place, label in _labels(settings):
            yield from _slip(("profiles", profile, *place), label, _LABELS, "label")
        for index, kind in enumerate(settings.placement.gangs.kinds):
            yield from _kind(("profiles", profile, "placement", "gangs", "kinds", index), kind)
        for section in ("taints", "allowed"):
            for index, taint in enumerate(getattr(settings.injectors.tolerations, section)):
                place = ("profiles", profile, "injectors", "tolerations", section, index, "key")
                yield from _slip(place, taint.key, _GPUS, "taint")
        for index, custom in enumerate(settings.templates.custom):
            place = ("profiles", profile, "templates", "custom", index)
            yield from _slip((*place, "kind"), custom.kind, _KINDS, "kind")
            yield from _slip((*place, "group"), custom.group, _GROUPS, "group")


def _made_by_a_slip(classes: tuple[ClassRule, ...], named: Set[str]) -> Iterator[Problem]:
    """Entries that make a class of which no profile says what it means, and whose name is like that of a known class."""
    known = tuple(dict.fromkeys([*_DEFAULT_CLASSES, *sorted(named)]))
    made = {rule.name for rule in classes}
    for number, rule in enumerate(classes):
        if rule.name in known:
            continue
        word = rule.name.casefold().replace("_", "-")
        # Two slips are enough if no entry makes the known class.
        lost = [name for name in known if name not in made and abs(len(name) - len(word)) <= 1]
        near = next((name for name in known if one_edit_apart(word, name)), nearest(word, lost))
        if near:
            problem = f"no profile says what the class {quoted(rule.name)} means; did you mean {quoted(near)}?"
            yield ("classes", number, "class"), problem


def _class_names(profile: Any) -> Iterator[tuple[Location, str]]:
    """The classes of workload that a profile names, with their locations."""
    injectors, rules, placement = profile.injectors, profile.rules, profile.placement
    for place, names in (
        (("injectors", "priorityClass", "classes"), injectors.priority_class.classes),
        (("injectors", "cpuPerGpu", "classes"), injectors.cpu_per_gpu.classes or ()),
        (("rules", "cpuPerGpu", "classes"), rules.cpu_per_gpu.classes),
        (("rules", "restartPolicy", "classes"), rules.restart_policy.classes),
        (("rules", "pdbMissing", "classes"), rules.pdb_missing.classes),
        (("placement", "strategies"), placement.strategies),
    ):
        for index, name in enumerate(names):
            yield (*place, name if isinstance(names, dict) else index), name
    for number, preference in enumerate(placement.preferences):
        for index, name in enumerate(preference.classes):
            yield ("placement", "preferences", number, "classes", index), name


def _labels(profile: Any) -> Iterator[tuple[Location, str]]:
    """The node labels that a profile names, with their locations."""
    for index, constraint in enumerate(profile.injectors.topology_spread.constraints):
        yield ("injectors", "topologySpread", "constraints", index, "key"), constraint.key
    for index, key in enumerate(profile.placement.gangs.keys):
        yield ("placement", "gangs", "keys", index), key
    for number, preference in enumerate(profile.placement.preferences):
        for index, requirement in enumerate(preference.nodes):
            yield ("placement", "preferences", number, "nodes", index, "key"), requirement.key
    for key in profile.placement.health.labels:
        yield ("placement", "health", "labels", key), key


def _kind(place: Location, kind: str) -> Iterator[Problem]:
    if creator := _CREATORS.get(kind):
        yield place, f"the pods of a {kind} are made by its {creator}: write {creator}"
    else:
        yield from _slip(place, kind, _KINDS, "kind")


def _slip(place: Location, word: str, known: tuple[str, ...], noun: str) -> Iterator[Problem]:
    """The problem with a word that differs from a known one by a slip. Patterns and quite different words are accepted."""
    if word in known or word.endswith("*"):
        return
    domain, slash, name = word.rpartition("/")
    for known_word in known:
        known_domain, _, known_name = known_word.rpartition("/")
        same = word.lower() == known_word.lower() or word.lower().rstrip("s") == known_word.lower().rstrip("s")
        slip = (domain == known_domain and one_edit_apart(name, known_name)) or (
            bool(slash) and name == known_name and one_edit_apart(domain, known_domain)
        )
        if same or slip:
            yield place, f"saw {quoted(word)}, which is no {noun} that is known; did you mean {quoted(known_word)}?"
            return

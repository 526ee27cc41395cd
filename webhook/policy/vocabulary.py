"""Finds misspelt words in a policy: classes that no entry gives, and slips in kinds, labels, taints and GPU names.

Nobody would notice such a word, since the setting would just never apply. So the policy is refused, with the nearest word.
"""

from collections.abc import Iterator, Set
from typing import Any, Final

from webhook.kube.json_patch import at
from webhook.kube.workload_kinds import MADE_OF, WORKLOAD_KINDS
from webhook.policy.templates import paths
from webhook.policy.workload_classes import CLASSES, GPUS
from webhook.text import bare, nearest, one_edit_apart, quoted, suggestion
from webhook.vendors.catalogue import every
from webhook.vendors.model import Label

Location = tuple[str | int, ...]
Problem = tuple[Location, str]
_DEFAULT_CLASSES: Final = (*dict.fromkeys(rule.name for rule in CLASSES), "none")
"""Class names in the default policy. `none` is the class of a pod that no entry of `classes` matches."""
_KINDS: Final = tuple(dict.fromkeys(row.kind for row in WORKLOAD_KINDS))
_GROUPS: Final = tuple(dict.fromkeys(row.group for row in WORKLOAD_KINDS if row.group))
_LABELS: Final = (
    *("kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "node.kubernetes.io/instance-type"),
    *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.kubernetes.io/rack"),
    *[label.key for label in every(Label) if not label.key.endswith("*")],
)
_GPUS: Final = tuple([gpu.name for gpu in GPUS])


_WORDS: Final = (
    ("gpus.*.name", _GPUS, "resource"),
    ("classes.*.ownerKinds.*", _KINDS, "kind"),
    ("profiles.*.injectors.topologySpread.constraints.*.key", _LABELS, "label"),
    ("profiles.*.placement.gangs.keys.*", _LABELS, "label"),
    ("profiles.*.placement.preferences.*.nodes.*.key", _LABELS, "label"),
    ("profiles.*.placement.health.labels.*", _LABELS, "label"),
    ("profiles.*.placement.gangs.kinds.*", _KINDS, "kind"),
    ("profiles.*.injectors.tolerations.taints.*.key", _GPUS, "taint"),
    ("profiles.*.injectors.tolerations.allowed.*.key", _GPUS, "taint"),
    ("profiles.*.templates.custom.*.kind", _KINDS, "kind"),
    ("profiles.*.templates.custom.*.group", _GROUPS, "group"),
)
"""Where a policy has words, what is known of them, and what they are. `*` stands for every entry of a list or map."""
_OWNER_KINDS: Final = ("classes.*.ownerKinds.*", "profiles.*.placement.gangs.kinds.*")
"""Where it names kinds that create pods themselves."""
_CLASSES: Final = (
    "profiles.*.injectors.priorityClass.classes.*",
    "profiles.*.injectors.cpuPerGpu.classes.*",
    "profiles.*.rules.cpuPerGpu.classes.*",
    "profiles.*.rules.restartPolicy.classes.*",
    "profiles.*.placement.strategies.*",
    "profiles.*.placement.preferences.*.classes.*",
)
"""Where profiles name classes of workload."""


def problems(policy: dict[str, Any]) -> Iterator[Problem]:
    """The misspelt words of a complete policy, each with its location."""
    for pattern, known, noun in _WORDS:
        for place, word in _words(policy, pattern):
            yield from _slip(place, word, known, noun)
    for pattern in _OWNER_KINDS:
        for place, kind in _words(policy, pattern):
            if creator := MADE_OF.get(kind):
                yield place, f"the pods of a {kind} are made by its {creator}: write {creator}"
    made = [rule["class"] for rule in policy["classes"]]
    named = [found for pattern in _CLASSES for found in _words(policy, pattern)]
    yield from _made_by_a_slip(made, {name for _, name in named})
    for place, name in named:
        if name not in made and name not in _DEFAULT_CLASSES:
            hint = suggestion(
                name, made, 'did you mean "{}"?', f"`classes` makes {', '.join(map(bare, dict.fromkeys(made)))}"
            )
            yield place, f"no entry of `classes` makes the class {quoted(name)}; {hint}"


def _words(policy: dict[str, Any], pattern: str) -> Iterator[tuple[Location, str]]:
    """The words at the paths that match a pattern: the keys of a map, or the values."""
    for path in paths(policy, pattern.split(".")):
        key = path[-1]
        yield path, key if pattern.endswith("*") and isinstance(key, str) else at(policy, path)


def _made_by_a_slip(made: list[str], named: Set[str]) -> Iterator[Problem]:
    """Entries that make a class of which no profile says what it means, and whose name is like that of a known class."""
    known = tuple(dict.fromkeys([*_DEFAULT_CLASSES, *sorted(named)]))
    for number, name in enumerate(made):
        if name in known:
            continue
        word = name.casefold().replace("_", "-")
        # Two slips are enough if no entry makes the known class.
        lost = [other for other in known if other not in made and abs(len(other) - len(word)) <= 1]
        near = next((other for other in known if one_edit_apart(word, other)), nearest(word, lost))
        if near:
            problem = f"no profile says what the class {quoted(name)} means; did you mean {quoted(near)}?"
            yield ("classes", number, "class"), problem


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

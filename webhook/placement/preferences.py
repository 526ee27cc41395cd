"""What a pod prefers of a node: by its annotations, and by the preferences of the policy.

    gpu-admission.io/preferred-nodes: gpu-a1, gpu-a2     these nodes, the best of them first
    gpu-admission.io/gpu-model: H100, A100               these models: exact values of a node's product label, else parts
                                                         of them, whatever the case

All of it is preference: it ranks the nodes that fit, and forbids none. Before everything else stand the preferred terms of the
pod's own affinity, then the nodes that it names, then the models, then the policy. What the pod's author says is never said
otherwise by the policy: a label key that stands in the pod's selector or affinity takes the policy's preferences on that key
away, and the annotation for models if it is a label for models. A model named by annotation takes those on models away, and
nodes named by annotation all. A key that no GPU node has changes nothing.

Preferences are ranked by, and they go into the pod's affinity too: where all ranked nodes are taken, the scheduler still keeps
to the preferred pool. There they must not change the order of the ranked nodes. Their weights are a tenth of the policy's, and
less where they would come to more than _ROOM together. A pod that has no preferred terms has its nodes ranked by the sum of
these very weights first, so what stands further up never has less of them, and the weights of the ranked terms only widen the
distance; the scheduler scales the best sum to 100 and doubles it (see `strategies.WEIGHTS`), so the first node stays
(100 - 35) / (100 + _ROOM) * 200 = 108 points ahead of the second (92 for a pod that names a model besides). Among nodes that
are not ranked the same scaling makes 200 points of whatever the best of them has: small weights lose nothing there. A pod with
preferred terms of its own is ranked by these first: sums of their weights differ by their greatest common divisor at least, so
what stays below that changes no order; what does not is ranked by, and left out of the affinity. So are preferences beside
nodes that the author names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import gcd
from typing import Any, Final, NamedTuple

from webhook.cluster.nodes import Nodes
from webhook.framework.cluster_view import Cluster, Expression, Preferred
from webhook.kube.gpus import MODEL_LABELS, Gpus
from webhook.kube.pod import DECISION, Pod, annotations_of, labels_of
from webhook.placement.constraints import Constraints, Term
from webhook.placement.settings import Preference
from webhook.text import nearest, quoted

NODES: Final = "gpu-admission.io/preferred-nodes"
MODELS: Final = "gpu-admission.io/gpu-model"
_OURS: Final = "gpu-admission.io/"
_MAX_NAMES: Final = 10
_MAX_CHARACTERS: Final = 4096
_ROOM: Final = 20


class Preferences(NamedTuple):
    """What a pod prefers, whatever the cluster. Equal for pods that prefer the same."""

    nodes: tuple[str, ...]
    models: tuple[str, ...]
    pools: tuple[Preferred, ...]
    """The policy's preferences for this pod, with the policy's weights."""
    room: int | None
    """What the weights that are added may come to; None where the pod prefers nothing itself."""
    warning: str | None


class ResolvedPreferences(NamedTuple):
    """What of it some node of this cluster can meet."""

    terms: tuple[tuple[Term, int], ...]
    """To rank by, below the pod's own preferred terms."""
    step: int
    """More than all terms of a node together."""
    preferred: tuple[Preferred, ...]
    """To be added to the pod's affinity, beside ranked nodes."""
    by_name: tuple[Preferred, ...]
    """To be added instead where no node was ranked."""
    warning: str | None
    key: bytes
    """Equal where `terms` are; of bounded length."""

    def below(self, own: Constraints) -> Constraints:
        """The pod's constraints with these preferences below its own ones."""
        stated = [(term, weight * self.step) for term, weight in own.preferred]
        return own._replace(preferred=(*stated, *self.terms))


NO_PREFERENCES: Final = ResolvedPreferences((), 1, (), (), None, b"")


def preferences_of(pod: Pod, preferences: Sequence[Preference], workload: str) -> Preferences | None:
    """What `pod`, of the class `workload`, prefers besides its own affinity; None where that is nothing."""
    annotations = annotations_of(pod)
    by_author = NODES in annotations or MODELS in annotations
    pools = [p for p in preferences if not p.classes or workload in p.classes]
    misplaced = _misplaced(annotations, labels_of(pod))
    if not by_author and not pools and not misplaced:
        return None
    (nodes, more_nodes), (models, more_models) = _listed(annotations, NODES), _listed(annotations, MODELS)
    terms, weights = _stated(pod["spec"])
    keys = {expression.get("key") for term in terms for expression in term.get("matchExpressions") or ()}
    keys.update(pod["spec"].get("nodeSelector") or ())
    if models:
        models = models if keys.isdisjoint(MODEL_LABELS) else ()
        keys.update(MODEL_LABELS)
    pod_preferences = Preferences(
        nodes,
        models,
        () if nodes else tuple([p.preferred for p in pools if keys.isdisjoint(p.keys)]),
        gcd(*weights) - 1 if weights else None,
        more_nodes or more_models or misplaced,
    )
    return pod_preferences if nodes or models or pod_preferences.pools or pod_preferences.warning else None


def resolved(stated: Preferences, nodes: Nodes, cluster: Cluster, gpus: Gpus) -> ResolvedPreferences:
    """What nodes of the cluster can meet of it. `cluster`: what units see of these nodes."""
    alive = [n for n in stated.nodes if (row := nodes.row_of.get(n)) is not None and nodes.columns.alive[row]]
    pools = [p for p in stated.pools if all([cluster.domains(e.key, gpus) for e in p.expressions])]
    values = {key: cluster.label_values(key, gpus) for key in MODEL_LABELS} if stated.models else {}
    models = {name: product for name in stated.models if (product := _models_like(name, values)) is not None}
    ours = _scaled([pool.weight for pool in pools])
    model = sum(ours) + 1
    by_model = [(Expression(key, "In", tuple(sorted(set(products)))),) for key, products in _by_key(models.values())]
    by_node = [(Expression("metadata.name", "In", (name,), field=True),) for name in alive]
    node = sum(ours) + model * len(by_model) + 1
    terms = (
        *((term, node) for term in by_node),
        *((term, model) for term in by_model),
        *((pool.expressions, weight) for pool, weight in zip(pools, ours, strict=True)),
    )
    preferred = [Preferred(model, term) for term in by_model]
    preferred += [Preferred(weight, pool.expressions) for pool, weight in zip(pools, ours, strict=True)]
    fits = stated.room is None or node - 1 <= stated.room
    return ResolvedPreferences(
        terms,
        2 * node,
        tuple(preferred) if fits and not alive else (),
        tuple([Preferred(_ROOM, term) for term in by_node]),
        stated.warning or (_missing(stated, alive, models) if cluster.fresh else None),
        blake2b(repr(terms).encode(), digest_size=16).digest() if terms else b"",
    )


def _scaled(weights: Sequence[int]) -> list[int]:
    """A tenth of each, less where that comes to more than _ROOM; 1 at least."""
    divisor = max(10.0, sum(weights) / _ROOM)
    return [max(1, int(weight / divisor)) for weight in weights]


def _listed(annotations: Mapping[str, str], key: str) -> tuple[tuple[str, ...], str | None]:
    """The names in an annotation, each once, and what is wrong with it. A tenant writes it."""
    text = annotations.get(key, "")
    if len(text) > _MAX_CHARACTERS:
        return (), f"{key} is longer than {_MAX_CHARACTERS} characters: it is not looked at"
    names = list(dict.fromkeys([name for part in text.split(",") if (name := part.strip())]))
    warning = f"{key} has {len(names)} names: the first {_MAX_NAMES} count" if len(names) > _MAX_NAMES else None
    return tuple(names[:_MAX_NAMES]), warning


def _misplaced(annotations: Mapping[str, str], labels: Mapping[str, str]) -> str | None:
    """What to say of a preference that is written where nobody reads it."""
    for key in (NODES, MODELS):
        if key in labels and key not in annotations:
            return f"{key} is a label here: write it as an annotation"
    unknown = [key for key in annotations if key.startswith(_OURS) and key not in (NODES, MODELS, DECISION)]
    for key in unknown[:_MAX_NAMES]:
        near = nearest(key.removeprefix(_OURS), [known.removeprefix(_OURS) for known in (NODES, MODELS)])
        if near:
            return f"there is no annotation {quoted(key)}; nearest: {_OURS}{near}"
    return None


def _stated(spec: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[int]]:
    """All terms of the pod's node affinity, and the weights of the preferred ones."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    weighed = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    return [*required, *[term.get("preference") or {} for term in weighed]], [
        term.get("weight") or 0 for term in weighed
    ]


def _models_like(name: str, values: Mapping[str, Sequence[str]]) -> tuple[str, list[str]] | None:
    """The label and its values that a name of a model means; None where no node has such a model."""
    for key, known in values.items():
        if name in known:
            return key, [name]
    part = name.casefold()
    for key, known in values.items():
        if matching := [value for value in known if part in value.casefold()]:
            return key, matching
    return None


def _by_key(pairs: Iterable[tuple[str, list[str]]]) -> Iterator[tuple[str, list[str]]]:
    keys: dict[str, list[str]] = {}
    for key, values in pairs:
        keys.setdefault(key, []).extend(values)
    return iter(keys.items())


def _missing(stated: Preferences, nodes: Sequence[str], models: Mapping[str, object]) -> str | None:
    """The first preference that nothing in the cluster can meet."""
    for name in stated.nodes:
        if name not in nodes:
            return f"{NODES}: there is no node {quoted(name)}"
    for name in stated.models:
        if name not in models:
            return f"{MODELS}: no GPU node has a model like {quoted(name)}"
    return None

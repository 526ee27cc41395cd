"""The nodes that a pod prefers: by its annotations, and by the preferences of the policy.

    gpu-admission.io/preferred-nodes: gpu-a1, gpu-a2     these nodes, the best of them first
    gpu-admission.io/gpu-model: H100, A100               these models: exact values of a node's product label, else parts
                                                         of them, in upper or lower case

Preferences rank the nodes that fit, and forbid none. First come the preferred terms of the pod's own affinity, then the
nodes that it names, then the models, then the policy. The policy never contradicts the pod's author:

- A label key in the pod's node selector or affinity removes the preferences on that key from the policy. If the key is a
  label of GPU models, it removes the annotation for models too.
- Models named by annotation remove the policy's preferences on models. Nodes named by annotation remove all of them.
- A key that no GPU node has changes nothing.

Preferences are also added to the pod's affinity: if all ranked nodes are taken, the scheduler still keeps to the preferred
pool. Their weights there are a tenth of the policy's, and less if their sum would exceed _ROOM, so that they do not change
the order of the ranked nodes:

- A pod without preferred terms has its nodes ranked by the sum of these weights first, so they only widen the distance. The
  scheduler scales the best sum to 100 and doubles it (see `strategies.WEIGHTS`): the first node stays
  (100 - 35) / (100 + _ROOM) * 200 = 108 points ahead of the second (92 for a pod that also names a model).
- A pod with preferred terms of its own is ranked by these first. Sums of their weights differ by at least their greatest
  common divisor: preferences with larger sums are ranked by, but not added. Nor are those of a pod whose author names nodes.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import gcd
from typing import Any, Final, NamedTuple

from webhook.framework.cluster_view import Cluster, Expression, Preferred
from webhook.kube.gpus import MODEL_LABELS, Gpus
from webhook.kube.pod import PREFERRED, REQUIRED, Pod, annotations_of
from webhook.nodes.nodes import Nodes
from webhook.placement.constraints import Constraints, Term
from webhook.placement.settings import Preference
from webhook.text import quoted

NODES: Final = "gpu-admission.io/preferred-nodes"
MODELS: Final = "gpu-admission.io/gpu-model"
_MAX_NAMES: Final = 10
_MAX_CHARACTERS: Final = 4096
_ROOM: Final = 20
"""Maximum sum of the weights of a policy that are added to the affinity of a pod."""


class Preferences(NamedTuple):
    """What a pod prefers, whatever the cluster. Equal for pods with equal preferences."""

    nodes: tuple[str, ...]
    models: tuple[str, ...]
    pools: tuple[Preferred, ...]
    """The policy's preferences for this pod, with the policy's weights."""
    room: int | None
    """Maximum sum of the weights that are added to the affinity; None (no maximum) if the pod has no preferred terms."""
    warning: str | None


class ResolvedPreferences(NamedTuple):
    """The preferences that some node of this cluster can meet."""

    terms: tuple[tuple[Term, int], ...]
    """Terms and weights to rank by, after the pod's own preferred terms."""
    step: int
    """More than the sum of all weights in `terms`."""
    preferred: tuple[Preferred, ...]
    """To add to the pod's affinity, together with ranked nodes."""
    by_name: tuple[Preferred, ...]
    """To add instead if no node is ranked."""
    warning: str | None
    key: bytes
    """Equal if `terms` are; of bounded length."""

    def below(self, own: Constraints) -> Constraints:
        """The pod's constraints with these preferences after its own preferred terms."""
        preferred = [(term, weight * self.step) for term, weight in own.preferred]
        return own._replace(preferred=(*preferred, *self.terms))


NO_PREFERENCES: Final = ResolvedPreferences((), 1, (), (), None, b"")


def preferences_of(pod: Pod, preferences: Sequence[Preference], workload: str) -> Preferences | None:
    """What `pod`, of the class `workload`, prefers besides its own affinity; None if nothing."""
    annotations = annotations_of(pod)
    annotated = NODES in annotations or MODELS in annotations
    pools = [p for p in preferences if not p.classes or workload in p.classes]
    if not annotated and not pools:
        return None
    (nodes, node_warning), (models, model_warning) = _listed(annotations, NODES), _listed(annotations, MODELS)
    terms, weights = _affinity_terms(pod["spec"])
    keys = {expression.get("key") for term in terms for expression in term.get("matchExpressions") or ()}
    keys.update(pod["spec"].get("nodeSelector") or ())
    if models:
        models = models if keys.isdisjoint(MODEL_LABELS) else ()
        keys.update(MODEL_LABELS)
    policy = () if nodes else tuple([p.preferred for p in pools if keys.isdisjoint(p.keys)])
    warning = node_warning or model_warning
    if not (nodes or models or policy or warning):
        return None
    return Preferences(nodes, models, policy, gcd(*weights) - 1 if weights else None, warning)


def resolved(preferences: Preferences, nodes: Nodes, cluster: Cluster, gpus: Gpus) -> ResolvedPreferences:
    """The preferences that nodes of the cluster can meet. `cluster`: what units see of the same nodes."""
    alive = [n for n in preferences.nodes if (row := nodes.row_of.get(n)) is not None and nodes.columns.alive[row]]
    pools = [p for p in preferences.pools if all([cluster.domains(e.key, gpus) for e in p.expressions])]
    values = {key: cluster.label_values(key, gpus) for key in MODEL_LABELS} if preferences.models else {}
    models = {name: product for name in preferences.models if (product := _matching_models(name, values)) is not None}
    products_by_key: dict[str, set[str]] = {}
    for key, products in models.values():
        products_by_key.setdefault(key, set()).update(products)
    pool_weights = _scaled([pool.weight for pool in pools])
    model_weight = sum(pool_weights) + 1
    model_terms = [(Expression(key, "In", tuple(sorted(products))),) for key, products in products_by_key.items()]
    node_weight = sum(pool_weights) + model_weight * len(model_terms) + 1
    node_terms = [(Expression("metadata.name", "In", (name,), field=True),) for name in alive]
    preferred: list[tuple[Term, int]] = [(term, model_weight) for term in model_terms]
    preferred += [(pool.expressions, weight) for pool, weight in zip(pools, pool_weights, strict=True)]
    terms = (*[(term, node_weight) for term in node_terms], *preferred)
    added = not alive and (preferences.room is None or node_weight - 1 <= preferences.room)
    return ResolvedPreferences(
        terms=terms,
        step=2 * node_weight,
        preferred=tuple([Preferred(weight, term) for term, weight in preferred]) if added else (),
        by_name=tuple([Preferred(_ROOM, term) for term in node_terms]),
        warning=preferences.warning or (_missing(preferences, alive, models) if cluster.fresh else None),
        key=blake2b(repr(terms).encode(), digest_size=16).digest() if terms else b"",
    )


def _scaled(weights: Sequence[int]) -> list[int]:
    """A tenth of each weight, less if their sum would exceed _ROOM; at least 1."""
    divisor = max(10.0, sum(weights) / _ROOM)
    return [max(1, int(weight / divisor)) for weight in weights]


def _listed(annotations: Mapping[str, str], key: str) -> tuple[tuple[str, ...], str | None]:
    """The names in an annotation, each once, and a warning if it is too long. A tenant writes it."""
    text = annotations.get(key, "")
    if len(text) > _MAX_CHARACTERS:
        return (), f"{key} is longer than {_MAX_CHARACTERS} characters: it is not looked at"
    names = list(dict.fromkeys([name for part in text.split(",") if (name := part.strip())]))
    warning = f"{key} has {len(names)} names: the first {_MAX_NAMES} count" if len(names) > _MAX_NAMES else None
    return tuple(names[:_MAX_NAMES]), warning


def _affinity_terms(spec: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[int]]:
    """All terms of the pod's node affinity, and the weights of the preferred ones."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ()
    weighted = affinity.get(PREFERRED) or ()
    terms = [*required, *[term.get("preference") or {} for term in weighted]]
    return terms, [term.get("weight") or 0 for term in weighted]


def _matching_models(name: str, values: Mapping[str, Sequence[str]]) -> tuple[str, list[str]] | None:
    """The label and those of its values that a model name means; None if no node has such a model."""
    for key, known in values.items():
        if name in known:
            return key, [name]
    part = name.casefold()
    for key, known in values.items():
        if matching := [value for value in known if part in value.casefold()]:
            return key, matching
    return None


def _missing(preferences: Preferences, nodes: Sequence[str], models: Mapping[str, object]) -> str | None:
    """A warning about the first preference that nothing in the cluster can meet."""
    for name in preferences.nodes:
        if name not in nodes:
            return f"{NODES}: there is no node {quoted(name)}"
    for name in preferences.models:
        if name not in models:
            return f"{MODELS}: no GPU node has a model like {quoted(name)}"
    return None

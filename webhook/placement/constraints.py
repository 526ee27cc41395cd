"""A pod's node selector, node affinity and tolerations, compiled once per pod signature.

Follows k8s.io/component-helpers scheduling/corev1/nodeaffinity: terms are ORed, the expressions and fields of a term are
ANDed, and a term that is empty or malformed matches nothing. Also follows k8s.io/kubernetes
pkg/scheduler/framework/plugins/{nodeaffinity,tainttoleration,nodeunschedulable}.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from webhook.framework.cluster_view import Expression
from webhook.kube.pod import PREFERRED, REQUIRED
from webhook.kube.taints import CORDON, KEEPS_AWAY, Taint, Tolerated, matched, tolerates
from webhook.nodes.nodes import Nodes
from webhook.nodes.table import Rows

Mask = NDArray[np.bool_]

_MAX_EXPRESSIONS = 256
_MAX_KEYS = 16
"""Maximum number of label keys that a pod selects by: the first pod that uses a key pays for its column (`labels`)."""
_MAX_VALUES = 4096
_MAX_WEIGHT = 100  # the API server refuses other weights, but later than this webhook
_MAX_TOLERATIONS = 256
_DIGITS = re.compile(r"[0-9]{1,63}", re.ASCII)


Term = tuple[Expression, ...]


class Constraints(NamedTuple):
    selector: Term
    required: tuple[Term, ...] | None
    """ORed; None if there is no required affinity."""
    preferred: tuple[tuple[Term, int], ...]
    tolerations: frozenset[Tolerated]

    def admits(self, taint: Taint) -> bool:
        """Whether a taint does not keep the pod away: it is soft or tolerated."""
        return taint.effect not in KEEPS_AWAY or self.tolerates(taint)

    def tolerates(self, taint: Taint) -> bool:
        return tolerates(self.tolerations, taint)

    def soft(self, taints: Iterable[Taint]) -> int:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        return sum([taint.effect == "PreferNoSchedule" and not self.tolerates(taint) for taint in taints])

    @property
    def tolerates_cordon(self) -> bool:
        return self.tolerates(CORDON)


NO_CONSTRAINTS: Final = Constraints((), None, (), frozenset())
"""Of a pod that states none."""


def compiled(spec: Mapping[str, Any]) -> Constraints | None:
    """Compile the constraints of a pod spec. None if they are too many to evaluate in reasonable time: a tenant wrote them."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    selector = affinity.get(REQUIRED)
    terms = (selector or {}).get("nodeSelectorTerms") or ()
    weighted = affinity.get(PREFERRED) or ()
    tolerations = spec.get("tolerations") or ()
    all_terms = [*terms, *(term.get("preference") or {} for term in weighted)]
    expressions = [e for t in all_terms for part in ("matchExpressions", "matchFields") for e in t.get(part) or ()]
    keys = {str(e.get("key")) for e in expressions}
    if (
        len(keys.union(spec.get("nodeSelector") or ())) > _MAX_KEYS
        or len(expressions) > _MAX_EXPRESSIONS
        or len(all_terms) > _MAX_EXPRESSIONS
        or sum(len(e.get("values") or ()) for e in expressions) > _MAX_VALUES
        or len(tolerations) > _MAX_TOLERATIONS
    ):
        return None
    preferred = []
    for term in weighted:
        parsed = _term(term.get("preference") or {})
        weight = term.get("weight")
        if parsed is not None and isinstance(weight, int) and 0 < weight <= _MAX_WEIGHT:
            preferred.append((parsed, weight))
    return Constraints(
        tuple(Expression(key, "In", (value,)) for key, value in sorted((spec.get("nodeSelector") or {}).items())),
        None if selector is None else terms_of(terms),
        tuple(preferred),
        frozenset([tolerated for toleration in tolerations if (tolerated := matched(toleration)) is not None]),
    )


def terms_of(terms: Iterable[Mapping[str, Any]]) -> tuple[Term, ...]:
    """Compile NodeSelectorTerms, without those that match nothing."""
    return tuple([parsed for term in terms if (parsed := _term(term)) is not None])


def _term(term: Mapping[str, Any]) -> Term | None:
    """None if the term matches nothing."""
    expressions = []
    for part in ("matchExpressions", "matchFields"):
        for expression in term.get(part) or ():
            operator, values = str(expression.get("operator")), tuple(expression.get("values") or ())
            if not _valid(operator, values, part == "matchFields"):
                return None
            expressions.append(Expression(str(expression.get("key")), operator, values, part == "matchFields"))
    return tuple(expressions) or None


def _valid(operator: str, values: tuple[str, ...], field: bool) -> bool:
    if field:
        return operator in ("In", "NotIn") and len(values) == 1
    if operator in ("In", "NotIn"):
        return bool(values)
    if operator in ("Exists", "DoesNotExist"):
        return not values
    return operator in ("Gt", "Lt") and len(values) == 1 and _number(values[0]) is not None


def _number(text: str) -> int | None:
    """The number that a label value is, as strconv.ParseInt reads it. The API server allows no signs."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    return number if number is None or number < 2**63 else None


def matches(term: Term, nodes: Nodes, rows: Rows) -> Mask:
    """Which of `rows` match every expression of a term."""
    mask = np.ones(nodes.columns.alive[rows].shape, bool)
    for expression in term:
        mask &= _matches(expression, nodes, rows)
    return mask


def _matches(expression: Expression, nodes: Nodes, rows: Rows) -> Mask:
    key, operator, values, field = expression
    if field:
        codes = np.arange(nodes.columns.size)[rows]
        row = nodes.row_of.get(values[0], -1) if key == "metadata.name" else -1
        named: Mask = codes == row
        return named if operator == "In" else ~named
    column = nodes.labels.column(key)
    shape = nodes.columns.alive[rows].shape
    if column is None:
        return np.full(shape, operator in ("NotIn", "DoesNotExist"))
    table = np.zeros(len(column.values), bool)  # whether each value of the label matches; index 0 means no label
    if operator in ("In", "NotIn"):
        table[[column.ids[value] for value in values if value in column.ids]] = True
    elif operator in ("Exists", "DoesNotExist"):
        table[1:] = True
    else:
        limit, numbers = int(values[0]), map(_number, column.values)
        table = np.array([n is not None and (n > limit if operator == "Gt" else n < limit) for n in numbers])
    if operator in ("NotIn", "DoesNotExist"):
        table = ~table
    matching: Mask = table[column.padded(nodes.columns.size)[rows]]
    return matching


def matches_any(terms: Iterable[Term], nodes: Nodes, rows: Rows) -> Mask:
    """Which of `rows` match one of the terms."""
    mask = np.zeros(nodes.columns.alive[rows].shape, bool)
    for term in terms:
        mask |= matches(term, nodes, rows)
    return mask

"""Finds the label of nodes that is most similar to one that no node has: another spelling of the key, of the value, or of
both."""

from collections.abc import Iterable

import numpy as np

from webhook.cluster.nodes import Nodes
from webhook.framework.cluster_view import Expression
from webhook.kube.gpus import MODEL_LABELS
from webhook.placement.constraints import Mask
from webhook.text import bare, listed, nearest, plural

_MAX_CHARACTERS = 63
_MAX_KEYS = 1000
_MAX_VALUES = 1000


def nearest_label(
    nodes: Nodes, key: str, values: Iterable[str], rows: Mask | None = None
) -> tuple[str, str, str] | None:
    """The nearest label that some node (of these rows) has: its key, its value, and both with the number of nodes in words. None
    if none is similar.

    Searched are the key itself, keys that differ from it only in punctuation, case and domain, and the labels of GPU
    models.
    """
    wanted = [value for value in values if len(value) <= _MAX_CHARACTERS][:8]
    keys = sorted(nodes.labels.keys())[:_MAX_KEYS]  # sorted, as the values below: every replica finds the same
    alike = [known_key for known_key in keys if _bare_key(known_key) == _bare_key(key)]
    for candidate in (key, *alike, *MODEL_LABELS):
        column = nodes.labels.column(candidate)
        if column is None:
            continue
        codes = column.padded(nodes.columns.rows)[: nodes.columns.rows]
        counts = np.bincount(codes if rows is None else codes[rows], minlength=len(column.values))
        if np.count_nonzero(counts) > _MAX_VALUES:
            continue
        known = sorted(value for value, count in zip(column.values, counts.tolist(), strict=True) if value and count)
        for value in wanted:
            nearest_value = _like(value, known) or (None if candidate in MODEL_LABELS else nearest(value, known))
            if nearest_value is not None and (candidate, nearest_value) != (key, value):
                count = int(counts[column.ids[nearest_value]])
                return candidate, nearest_value, f"{bare(candidate)}={bare(nearest_value)} ({plural(count, 'node')})"
    return None


def _like(value: str, known: list[str]) -> str | None:
    """A known value that differs only in punctuation and case, or contains `value`: `a100` in `NVIDIA-A100-SXM4-80GB`."""
    bare_value = _signless(value)
    if not bare_value:
        return None
    same = [each for each in known if _signless(each) == bare_value]
    parts = [each for each in known if len(bare_value) > 1 and bare_value in _signless(each)]
    return next(iter(same or parts), None)


def _bare_key(key: str) -> str:
    return _signless(key.rpartition("/")[2])


def _signless(text: str) -> str:
    return "".join([c for c in text.lower() if c.isalnum()])


def label_words(expression: Expression) -> str:
    """ "zone=a", "zone in (a, b)", "cores > 8", "gpu Exists"."""
    key, operator, values, _ = expression
    shown = listed(map(bare, values), 3)
    if operator == "In":
        return f"{bare(key)}={shown}" if len(values) == 1 else f"{bare(key)} in ({shown})"
    return " ".join([bare(key), {"Gt": ">", "Lt": "<"}.get(operator, operator), *([shown] if values else [])])

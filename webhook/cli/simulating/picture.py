"""A simulation as one HTML page: the GPUs of each node before, without and with the webhook. Nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

from webhook.cli.simulating.outcome import Outcome, Workload

_MOST: Final = 500
"""Nodes that are drawn: those that change first."""
_VIEWS: Final = {"before": "before", "without": "without the webhook", "with": "with the webhook"}
_STYLE: Final = """
body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}table{border-collapse:collapse}
td,th{padding:2px 10px;text-align:left;vertical-align:middle}th{border-bottom:1px solid #999}
i{display:inline-block;width:9px;height:12px;margin-right:1px;border-radius:1px}
.old{background:#9aa5b1}.new{background:#2b7de9}.free{background:#e4e9ee}.whole td{background:#eefaf0}
.bad{color:#b3261e}.good{color:#1b7a36}code{white-space:pre-wrap}
"""


def picture(found: Outcome, pools: Mapping[str, str]) -> str:
    """The page. `pools`: of each node. Every name in it is escaped."""
    changed = sorted(found.nodes, key=lambda name: (not _changes(found.nodes[name]), pools.get(name, ""), name))
    rows = "".join(_node(name, pools.get(name, ""), found.nodes[name]) for name in changed[:_MOST])
    more = f"<p>… and {len(changed) - _MOST} more nodes</p>" if len(changed) > _MOST else ""
    heads = "".join(f"<th>{title}</th>" for title in ("node", "pool", "GPUs", *_VIEWS.values()))
    legend = (
        '<p><i class="old"></i> taken <i class="new"></i> taken by these pods <i class="free"></i> free; '
        "a number stands for GPUs that are too many to draw</p>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gpu-admission simulate</title>'
        f"<style>{_STYLE}</style></head><body><h1>Would it start?</h1>"
        f"<table><tr><th>workload</th><th>pods</th><th>without the webhook</th><th>with the webhook</th></tr>"
        f"{''.join(map(_workload, found.workloads))}</table>{_sums(found)}"
        f"<h2>Nodes</h2>{legend}<table><tr>{heads}</tr>{rows}</table>{more}</body></html>\n"
    )


def _changes(resources: Mapping[str, Mapping[str, int]]) -> bool:
    return any(len({amounts[view] for view in _VIEWS}) > 1 for amounts in resources.values())


def _workload(workload: Workload) -> str:
    cells = [f"{workload.namespace}/{workload.name}", str(workload.pods)]
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    for found in workload.sides.values():
        if found.refused:
            told += f'<td class="bad">refused: <code>{escape(workload.message)}</code></td>'
            continue
        waits = len(found.waiting)
        causes = "<br>".join(escape(f"{cause.cause}: {cause.text}") for cause in found.causes)
        word = f"{found.bound.total()} start, {waits} wait<br>{causes}" if waits else "all start"
        told += f'<td class="{"bad" if waits else "good"}">{word}</td>'
    return f"<tr>{told}</tr>"


def _sums(found: Outcome) -> str:
    rows = ""
    for resource, amounts in found.gpus.items():
        for title, key in (("free", "free"), ("whole nodes", "wholeNodes")):
            numbers = "".join(f"<td>{amounts[key][view]}</td>" for view in _VIEWS)
            rows += f"<tr><td>{escape(resource)}</td><td>{title}</td>{numbers}</tr>"
    heads = "".join(f"<th>{title}</th>" for title in ("resource", "", *_VIEWS.values()))
    return f"<h2>Left</h2><table><tr>{heads}</tr>{rows}</table>"


def _node(name: str, pool: str, resources: Mapping[str, Mapping[str, int]]) -> str:
    return "".join(_line(name, pool, resource, amounts) for resource, amounts in resources.items())


def _line(name: str, pool: str, resource: str, amounts: Mapping[str, int]) -> str:
    views = "".join(f"<td>{''.join(_cells(amounts, view))}</td>" for view in _VIEWS)
    whole = ' class="whole"' if amounts["with"] == amounts["total"] else ""
    heads = "".join(f"<td>{escape(text)}</td>" for text in (name, pool, resource))
    return f"<tr{whole}>{heads}{views}</tr>"


def _cells(amounts: Mapping[str, int], view: str) -> Iterator[str]:
    total, free, before = amounts["total"], max(0, amounts[view]), max(0, amounts["before"])
    counts = {"old": total - before, "new": before - free, "free": free}
    for word, count in counts.items():
        yield f'<i class="{word}"></i>' * count if total <= 16 else f'<i class="{word}"></i>{count} '

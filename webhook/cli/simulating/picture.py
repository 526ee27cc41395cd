"""The result of a simulation as an HTML page: the GPUs of each node before, without the webhook, and with it."""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.cli.page import Html, cell, html, page, row, squares, table
from webhook.cli.simulating.run import Outcome, Side, Workload

_MAX_NODES: Final = 500
"""Maximum number of nodes drawn. Nodes that change come first."""
_VIEWS: Final = {"before": "before", "without": "without the webhook", "with": "with the webhook"}
_LEGEND: Final = Html(
    '<h2>Nodes</h2><p><i class="old"></i> taken <i class="new"></i> taken by these pods <i class="free"></i> free; '
    "a number stands for GPUs that are too many to draw</p>"
)


def picture(outcome: Outcome, pools: Mapping[str, str]) -> str:
    """The page. `pools`: the pool of each node, by the node's name."""
    names = sorted(outcome.nodes, key=lambda name: (not _changes(outcome.nodes[name]), pools.get(name, ""), name))
    lines = [
        _line(name, pools.get(name, ""), resource, amounts)
        for name in names[:_MAX_NODES]
        for resource, amounts in outcome.nodes[name].items()
    ]
    return page(
        "gpu-admission simulate",
        "Would it start?",
        table(["workload", "pods", "without the webhook", "with the webhook"], map(_workload, outcome.workloads)),
        "<h2>Left</h2>",
        table(["resource", "", *_VIEWS.values()], _sums(outcome)),
        _LEGEND,
        table(["node", "pool", "GPUs", *_VIEWS.values()], lines),
        f"<p>… and {len(names) - _MAX_NODES} more nodes</p>" if len(names) > _MAX_NODES else "",
    )


def _changes(resources: Mapping[str, Mapping[str, int | float]]) -> bool:
    """Whether the free GPUs of a node differ between the views."""
    return any(len({amounts[view] for view in _VIEWS}) > 1 for amounts in resources.values())


def _workload(workload: Workload) -> Html:
    sides = [_side(side, workload) for side in workload.sides.values()]
    return row([f"{workload.namespace}/{workload.title}", workload.pods, *sides])


def _side(side: Side, workload: Workload) -> Html:
    if side.refused:
        return cell(Html(f"refused: <code>{html(workload.message)}</code>"), "bad")
    if not side.waiting:
        return cell("all start", "good")
    causes = "".join(f"<br>{html(f'{cause.cause}: {cause.text}')}" for cause in side.causes)
    return cell(Html(f"{side.bound.total()} start, {len(side.waiting)} wait{causes}"), "bad")


def _sums(outcome: Outcome) -> Iterator[Html]:
    for resource, amounts in outcome.gpus.items():
        for title, key in (("free", "free"), ("whole nodes", "wholeNodes")):
            yield row([resource, title, *[amounts[key][view] for view in _VIEWS]])


def _line(name: str, pool: str, resource: str, amounts: Mapping[str, int | float]) -> Html:
    views = [_squares(amounts, view) for view in _VIEWS]
    return row([name, pool, resource, *views], "whole" if amounts["with"] == amounts["total"] else "")


def _squares(amounts: Mapping[str, int | float], view: str) -> Html:
    total, free, before = amounts["total"], max(0, amounts[view]), max(0, amounts["before"])
    return squares({"old": total - before, "new": before - free, "free": free})

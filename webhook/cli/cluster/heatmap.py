"""The GPUs of each node as one HTML page, by pool."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from webhook.cli.cluster.measured import Figures, Gpu
from webhook.cli.cluster.report import AMOUNTS
from webhook.cli.page import Html, cell, heat, html, page, row, shade, squares, table
from webhook.cluster.utilisation import Reading
from webhook.text import listed, plural

_BLUE, _VIOLET, _ORANGE = 212, 270, 24
"""Hues of utilisation, memory and temperature."""
_COOL, _HOT = 30, 90
"""Degrees Celsius at which the colour of a temperature begins and ends."""
_METRICS: Final = ("idle", "utilisation", "memory", "hottest")
"""The columns of GPU metrics."""
_LEGEND: Final = Html(
    '<p><i class="old"></i> allocated <i class="idle"></i> allocated and idle <i class="new"></i> promised by the webhook '
    '<i class="free"></i> free; a number stands for GPUs that are too many to draw. Darker is more.</p>'
)


def heatmap(
    nodes: Sequence[Mapping[str, Any]], sums: Sequence[Mapping[str, Any]], figures: Figures | None, taken: float
) -> str:
    """The page. `nodes` is what `report` returns, `sums` what `pools` yields."""
    when = f"{datetime.fromtimestamp(taken, UTC):%Y-%m-%d %H:%M:%S} UTC, " if taken else ""
    titles = ["pool", "nodes", "resource", *AMOUNTS, *_METRICS]
    pools = sorted({node["pool"] for node in nodes})
    return page(
        "gpu-admission nodes",
        "GPUs by node and pool",
        html(f"{when}{plural(len(nodes), 'node')}"),
        table(titles, [line for each in sums for line in _sum(each)]),
        _LEGEND,
        *[part for pool in pools for part in _pool(pool, [n for n in nodes if n["pool"] == pool], figures)],
    )


def _sum(pool_sum: Mapping[str, Any]) -> Iterator[Html]:
    pool = "all" if pool_sum["pool"] is None else pool_sum["pool"] or "-"
    for number, (resource, amounts) in enumerate(pool_sum["gpus"].items()):
        numbers = _numbers(pool_sum) if not number else [""] * len(_METRICS)
        yield row([pool, amounts["nodes"], resource, *[amounts[key] for key in AMOUNTS], *numbers])


def _pool(pool: str, nodes: Sequence[Mapping[str, Any]], figures: Figures | None) -> Iterator[Html]:
    yield Html(f"<h2>{html(pool or 'no pool')}</h2>")
    titles = ["node", "model", "health", "resource", "GPUs", "by GPU", *_METRICS, "taints", "pods"]
    yield table(titles, [line for node in nodes for line in _node(node, figures)])


def _node(node: Mapping[str, Any], figures: Figures | None) -> Iterator[Html]:
    health = cell(node["health"], "" if node["health"] == "healthy" else "bad")
    idle = node.get("idle", 0) if len(node["gpus"]) == 1 else 0
    for number, (resource, amounts) in enumerate(list(node["gpus"].items()) or [("", dict.fromkeys(AMOUNTS, 0))]):
        counts = {"old": amounts["allocated"] - idle, "idle": idle, "new": amounts["promised"], "free": amounts["free"]}
        drawn = squares(counts)
        if number:
            yield row(["", "", "", resource, drawn])
            continue
        by_gpu = Html("".join(map(_gpu, figures.gpus(node["name"])))) if figures else ""
        more = [listed(node["taints"]), _pods(node["pods"])]
        yield row([node["name"], node["model"], health, resource, drawn, by_gpu, *_numbers(node), *more])


def _numbers(document: Mapping[str, Any]) -> list[object]:
    """The cells of the columns `_METRICS`, empty if not known."""
    percent, memory, temperature = (document.get(key) for key in ("utilisation", "memory", "temperature"))
    return [
        document.get("idle", ""),
        "" if percent is None else heat(f"{percent} %", percent / 100, _BLUE),
        "" if memory is None else heat(gib(memory), memory["used"] / max(1, memory["total"]), _VIOLET),
        "" if temperature is None else heat(f"{temperature} °C", (temperature - _COOL) / (_HOT - _COOL), _ORANGE),
    ]


def gib(memory: Mapping[str, int]) -> str:
    """Used and total memory: 312/640 GiB. `memory` is in MiB."""
    return f"{memory['used'] / 1024:.0f}/{memory['total'] / 1024:.0f} GiB"


def _gpu(gpu: Gpu) -> str:
    """A square, darker if the GPU is used more, with its metrics as a tooltip."""
    temperature, memory = gpu.readings.get(Reading.TEMPERATURE), gpu.memory
    numbers = [f"{gpu.percent:.0f} %"] if gpu.percent is not None else []
    numbers += [gib({"used": round(memory[0]), "total": round(memory[1])})] if memory else []
    numbers += [f"{temperature:.0f} °C"] if temperature is not None else []
    title = html(f"{gpu.name}: {', '.join(numbers) or 'nothing known'}")
    colour = shade((gpu.percent or 0) / 100, _BLUE)
    return f'<i style="background:{colour}" title="{title}"></i>'


def _pods(pods: Sequence[Mapping[str, Any]]) -> Html:
    if not pods:
        return Html("")
    names = "<br>".join(html(f"{p['namespace']}/{p['name']} ({sum(p['gpus'].values())})") for p in pods)
    return Html(f"<details><summary>{plural(len(pods), 'pod')}</summary>{names}</details>")

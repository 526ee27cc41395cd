"""Draws the panels of the dashboard from the answers of a Prometheus, as docs/dashboard.svg."""

import time
from html import escape
from typing import Any

import aiohttp

from tests.feeds.prometheus_server import Prometheus
from tests.manifests.files import MANIFESTS
from tests.manifests.monitoring.files import dashboard

PICTURE = MANIFESTS.parent / "docs" / "dashboard.svg"
COLUMN, LINE, GAP = 50, 20, 6
"""Pixels: of a 24th of the width, of a line of the grid, and between two panels."""
SECONDS, STEP = 60, 1
COLOURS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0")
SHOWN = 4
"""Lines of a legend."""
UNITS = {"s": " s", "reqps": "/s", "ops": "/s", "percentunit": " %", "bytes": " MiB", "short": ""}
FACTORS = {"percentunit": 100.0, "bytes": 2.0**-20}
Line = tuple[str, list[tuple[float, float]]]


async def draw(prometheus: Prometheus) -> None:
    """Ask for each panel, and write the picture."""
    end = time.time()
    parts, bottom = [], 0
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        x, y, width, height = at["x"] * COLUMN, at["y"] * LINE, at["w"] * COLUMN - GAP, at["h"] * LINE - GAP
        bottom = max(bottom, y + height)
        if panel["type"] == "row":
            parts.append(_text(x, y + 16, panel["title"], "title"))
            continue
        lines = [line for target in panel["targets"] for line in await _ask(prometheus, target, end)]
        parts.append(_panel(panel, lines, (x, y, width, height), end))
    size = f'viewBox="0 0 {24 * COLUMN} {bottom}"'
    style = (
        "text{font:11px sans-serif;fill:#c7d0d9}.title{font-size:14px;font-weight:bold}.big{font-size:34px;fill:#7eb26d}"
        ".small{font-size:9px;fill:#8e959c}rect.p{fill:#1f2126}polyline{fill:none;stroke-width:1.5}"
    )
    body = "\n".join(parts)
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n'
        f'<rect width="100%" height="100%" fill="#111217"/>\n{body}\n</svg>\n'
    )


async def _ask(prometheus: Prometheus, target: dict[str, Any], end: float) -> list[Line]:
    expr = target["expr"].replace("$__rate_interval", "15s").replace("$job", "gpu-admission").replace("$instance", ".+")
    params = {"query": expr, "start": str(end - SECONDS), "end": str(end), "step": str(STEP)}
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{prometheus.url}/api/v1/query_range", params=params) as answer,
    ):
        found = (await answer.json())["data"]["result"]
    lines = []
    for series in found:
        name = target["legendFormat"]
        for label, value in series["metric"].items():
            name = name.replace(f"{{{{{label}}}}}", value)
        lines.append((name, [(float(at), float(value)) for at, value in series["values"] if value != "NaN"]))
    return lines


def _panel(panel: dict[str, Any], lines: list[Line], box: tuple[int, int, int, int], end: float) -> str:
    x, y, width, height = box
    unit = panel["fieldConfig"]["defaults"]["unit"]
    factor = FACTORS.get(unit, 1.0)
    parts = [
        f'<rect class="p" x="{x}" y="{y}" width="{width}" height="{height}" rx="3"/>',
        _text(x + 8, y + 16, panel["title"]),
    ]
    lines = [(name, [(at, value * factor) for at, value in values]) for name, values in lines if values]
    if panel["type"] == "stat":
        last = lines[0][1][-1][1]
        parts.append(_text(x + 8, y + 70, _number(last) + UNITS[unit], "big"))
        return "\n".join(parts)
    if panel["fieldConfig"]["defaults"].get("custom"):
        lines = _stacked(lines)
    highest = max([value for _, values in lines for _, value in values], default=0.0) or 1.0
    lines.sort(key=lambda line: -max(value for _, value in line[1]))
    lines = [line for line in lines if any(value for _, value in line[1])] or lines[:1]
    floor, top = y + height - 12 * min(len(lines), SHOWN) - 8, y + 26
    parts.append(_text(x + width - 8, y + 16, _number(highest) + UNITS[unit], "small", "end"))
    for number, (name, values) in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(
            f"{x + 8 + (width - 16) * (1 - (end - at) / SECONDS):.0f},{floor - (floor - top) * value / highest:.0f}"
            for at, value in values
        )
        parts.append(f'<polyline points="{points}" stroke="{colour}"/>')
        if number < SHOWN:
            parts.append(f'<rect x="{x + 8}" y="{floor + 6 + 12 * number}" width="8" height="3" fill="{colour}"/>')
            more = f" … {len(lines) - SHOWN} more" if number == SHOWN - 1 and len(lines) > SHOWN else ""
            parts.append(_text(x + 20, floor + 11 + 12 * number, name[:44] + more, "small"))
    return "\n".join(parts)


def _stacked(lines: list[Line]) -> list[Line]:
    sums: dict[float, float] = {}
    found = []
    for name, values in lines:
        for at, value in values:
            sums[at] = sums.get(at, 0.0) + value
        found.append((name, [(at, sums[at]) for at, _ in values]))
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(x: int, y: int, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'

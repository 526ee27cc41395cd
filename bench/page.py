"""How long the page takes for an update: `python -m bench.page`.

A cluster of 1,000 nodes with 8 GPUs each, in Chromium. Measured are an update in which every twentieth node has changed, the
choice of a waiting pod, and the first drawing: script, style and layout, until the next frame could be drawn.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import orjson
from rich.table import Table

from bench.commands import cluster
from bench.output import stdout
from tests.browser import Tab, browser
from webhook.cli.ui.live import Live
from webhook.cli.ui.page import page
from webhook.cli.ui.picture import Picture
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy

_TAKEN = 1_795_000_000.0
_NODES, _PODS, _TIMES = 1_667, 17_000, 9
"""Three of five nodes have GPUs."""
_MEASURED = (
    "(() => {{ const start = performance.now(); {}; document.body.offsetHeight; return performance.now() - start; }})()"
)
_CHANGE = """{
  const found = structuredClone(sent);
  for (const node of found.nodes.filter((_, at) => (at + turn) % 20 === 0)) {
    const counts = Object.values(node.gpus)[0];
    counts.free = (counts.free + 1 + turn) % 9;
  }
  turn += 1;
  window.next = found;
} 0"""


async def _each(tab: Tab, work: str, before: str = "0") -> list[float]:
    """The milliseconds that the work takes each time. `before`: what is done before it, and not measured."""
    times = []
    for _ in range(_TIMES):
        await tab.value(before)
        times.append(float(await tab.value(_MEASURED.format(work))))
    return times


async def _measured(file: Path) -> dict[str, list[float]]:
    async with browser() as tab:
        await tab.look(width=1440, height=1000)
        await tab.open(f"file://{file}")
        await tab.until("document.readyState === 'complete' && !!document.querySelector('.node')")
        await tab.value("window.turn = 0; { const { about, lists, ...rest } = state; window.sent = rest; } 0")
        pod = await tab.value("state.waiting[0].namespace + '/' + state.waiting[0].pods[0]")
        found = {
            "an update of 50 nodes": await _each(tab, "take(next); render()", _CHANGE),
            "an update without a change": await _each(tab, "render()"),
        }
        choose = f"choice.pod = choice.pod ? '' : {pod!r}; details = inFile(embedded.about[{pod!r}]); render()"
        found["a pod is chosen, or left"] = await _each(tab, choose)
        anew = "rows.clear(); drawn.clear(); document.getElementById('map').replaceChildren(); render()"
        found["everything anew"] = await _each(tab, anew)
        return found


def main() -> None:
    objects = cluster(_NODES, _PODS)
    started = time.perf_counter()
    picture = Picture(Snapshot(objects, {}, _TAKEN), load_policy())
    took = time.perf_counter() - started
    state = {**Live(picture, "bench").shown, **picture.for_file()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        # a plain script, so that its names are reached from outside, and without the policy that forbids it
        file.write_text(page(state).replace('<script type="module">', "<script defer>"))
        text = file.read_text().partition("<meta http-equiv")
        file.write_text(text[0] + text[2].partition(">")[2])
        found = asyncio.run(_measured(file))
    size = len(orjson.dumps(Live(picture, "bench").shown)) / 1e6
    title = f"{len(picture.document['nodes']):,} nodes; made in {took:.1f} s, {size:.1f} MB"
    table = Table("ms", "median", "slowest", title=title)
    for name, times in found.items():
        table.add_row(name, f"{statistics.median(times):.0f}", f"{max(times):.0f}")
    stdout().print(table)


if __name__ == "__main__":
    main()

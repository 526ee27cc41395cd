"""The page as the command serves it, and what a person does first."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser import Tab


@contextmanager
def served(cluster: Path) -> Iterator[str]:
    """Where the command serves the page."""
    command = [sys.executable, "-m", "webhook", "ui", "--from", str(cluster)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        found = running.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]{32}", found)
        yield found
        running.send_signal(signal.SIGINT)
        assert running.wait(600) == 0


async def opened(tab: Tab, address: str) -> Tab:
    await tab.open(address)
    await tab.until("!!document.querySelector('.node') && !!document.querySelector('.row')")
    return tab


async def search(tab: Tab, text: str) -> list[str]:
    """The nodes that are left."""
    field = "document.getElementById('search')"
    await tab.value(f"(s => {{ s.value = {text!r}; s.dispatchEvent(new Event('input')); }})({field})")
    shown = "[...document.querySelectorAll('.node')].filter(each => !each.hidden)"
    found: list[str] = await tab.value(f"{shown}.map(each => each.dataset.node)")
    return found

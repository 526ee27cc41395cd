"""A real Chromium for tests, driven by its own protocol (https://chromedevtools.github.io/devtools-protocol) over a WebSocket.

Debian's package is used; `make` installs it where it is missing.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
DEADLINE = 600.0
"""Seconds after which a test that waits is ended."""
Json = dict[str, Any]


def program() -> str:
    """The path of Chromium. Without: the test is skipped, and in CI failed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        why = "no Chromium is installed: apt-get install chromium"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(why, pytrace=False)
        pytest.skip(why)
    return found


class Navigated(Exception):
    """The page was left for another one before it answered."""


class Tab:
    """One page. Every uncaught error of its scripts and every violation of its content policy is in `errors`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._ids = socket, count(1)
        self._answers: dict[int, asyncio.Future[Json]] = {}
        self.errors: list[str] = []
        self.downloads: list[Json] = []
        self.reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            said = message.json()
            if (answer := self._answers.pop(said.get("id"), None)) is not None:
                answer.set_result(said)
            elif said.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(said["params"]["exceptionDetails"])[:500])
            elif said.get("method") == "Log.entryAdded" and said["params"]["entry"]["source"] == "security":
                self.errors.append(said["params"]["entry"]["text"])

    async def send(self, method: str, **params: Any) -> Json:
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, DEADLINE)
        if "error" in said:
            raise (
                Navigated(method) if "navigated" in said["error"]["message"] else AssertionError(method, said["error"])
            )
        found: Json = said["result"]
        return found

    async def open(self, url: str) -> None:
        for domain in ("Page", "Runtime", "Log"):
            await self.send(f"{domain}.enable")
        await self.send("Page.navigate", url=url)

    async def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript; a promise is awaited.

        `innerText` of what the page does not draw, as nodes outside the window, is empty: `textContent` has it.
        """
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, (expression, found["exceptionDetails"])
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The value of the expression once it is true, of the page that is there then."""
        async with asyncio.timeout(DEADLINE):
            while True:
                with suppress(Navigated):
                    if found := await self.value(expression):
                        return found
                await asyncio.sleep(0.05)

    async def texts(self, selector: str) -> list[str]:
        found: list[str] = await self.value(f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)")
        return found

    async def click(self, selector: str) -> None:
        """Click in the middle of an element, as a person does."""
        await self.value(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        at = await self.value(
            f"(r => [r.left + r.width / 2, r.top + r.height / 2])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    async def press(self, *keys: str) -> None:
        for name in keys:
            more = {"Enter": {"text": "\r", "windowsVirtualKeyCode": 13}, "Tab": {"windowsVirtualKeyCode": 9}}.get(
                name, {}
            )
            for kind in ("keyDown", "keyUp"):
                await self.send("Input.dispatchKeyEvent", type=kind, key=name, code=name, **more)

    async def look(self, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """As a person with this window and these colours sees it."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self) -> bytes:
        """The window as PNG."""
        return b64decode((await self.send("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def browser() -> AsyncIterator[Tab]:
    """A Chromium with one empty page. It ends with the block, and leaves nothing."""
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        flags = (
            "headless=new",
            "no-sandbox",
            "disable-gpu",
            "disable-dev-shm-usage",
            "no-first-run",
            "hide-scrollbars",
            "disable-lcd-text",
        )
        arguments = [*(f"--{flag}" for flag in flags), f"--user-data-dir={folder}", "--remote-debugging-port=0"]
        running = await asyncio.create_subprocess_exec(
            program(), *arguments, "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            port = await _port(folder, running)
            async with aiohttp.ClientSession() as http:
                async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    (target,) = [each for each in await answer.json() if each["type"] == "page"]
                async with http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    tab = Tab(socket)
                    yield tab
                    tab.reader.cancel()
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            await running.wait()


async def _port(folder: str, running: asyncio.subprocess.Process) -> int:
    """The port that Chromium writes to a file once it listens."""

    def written() -> list[str]:
        file = Path(folder) / "DevToolsActivePort"
        return file.read_text().splitlines() if file.exists() else []

    async with asyncio.timeout(DEADLINE):
        while not (lines := written()):
            assert running.returncode is None, f"chromium ended with {running.returncode}"
            await asyncio.sleep(0.05)
    return int(lines[0])

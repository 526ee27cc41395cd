"""Starts the whole server process as a user starts it."""

import asyncio
import os
import ssl
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import aiohttp
import orjson

from bench.load import anybody
from tests.builders import admission_review
from webhook.tls.issue import make_ca

CLUSTER = str(files("webhook.defaults").joinpath("cluster.yaml"))
NOW = datetime.now(UTC)
CA = make_ca(NOW)
ANYONE = anybody()
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"


@dataclass
class Server:
    process: Process
    port: int
    ops: int
    http: aiohttp.ClientSession
    log: asyncio.Task[bytes]
    """Read all the time: a server whose log is not read stands still once the pipe is full."""

    async def get(self, path: str) -> tuple[int, str]:
        async with self.http.get(f"http://127.0.0.1:{self.ops}{path}") as answer:
            return answer.status, await answer.text()

    async def ask(self, hook: str, trust: ssl.SSLContext = ANYONE) -> tuple[dict[str, Any], str | None]:
        """Send a review of a GPU pod. Returns the response, and the Connection header of the answer."""
        pod = {
            "metadata": {"name": "p", "namespace": "ml"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        }
        review = admission_review(pod, "ml")
        async with self.http.post(f"https://localhost:{self.port}/{hook}", json=review, ssl=trust) as answer:
            assert answer.status == 200, await answer.text()
            return (await answer.json())["response"], answer.headers.get("Connection")

    async def end(self) -> tuple[int, bytes, list[Any]]:
        """End the process. Returns the exit status, the rest of stdout, and the log."""
        if self.process.returncode is None:
            self.process.terminate()
        assert self.process.stdout is not None
        out, log = await self.process.stdout.read(), await self.log
        await self.process.wait()
        assert self.process.returncode is not None
        assert all(line.startswith(b"{") for line in log.splitlines()), log.decode()
        return self.process.returncode, out, [orjson.loads(line) for line in log.splitlines()]


async def start(*arguments: str, **environment: str) -> Process:
    command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", "-m", "webhook", "serve"]
    command += ["--host", "127.0.0.1", *arguments]
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, env={**os.environ, **environment})


@asynccontextmanager
async def serving(*arguments: str, **environment: str) -> AsyncIterator[Server]:
    process = await start("--port", "0", "--ops-port", "0", *arguments, **environment)
    assert process.stdout is not None
    assert process.stderr is not None
    log = asyncio.create_task(process.stderr.read())
    try:
        line = await process.stdout.readline()
        assert line, (await log).decode()
        ready = orjson.loads(line)
        assert set(ready) == {"port", "opsPort"}
        async with aiohttp.ClientSession() as http:
            yield Server(process, ready["port"], ready["opsPort"], http, log)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await log

"""The started server gets bodies that were made to be slow. It keeps answering other requests, in bounded memory.

`tests/test_hostile.py` counts the work for each body, and `bench.hostile` measures it.
"""

import asyncio
import io
from pathlib import Path

from bench.bodies import BODIES
from tests.server.started import ANYONE, CLUSTER, Server, serving

MIB = 1 << 10
"""One MiB in kB, the unit of the kernel."""


def memory(server: Server, field: str) -> int:
    """A line of the status of the process, in kB."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(text.partition(f"{field}:")[2].split()[0])


async def send(server: Server, hook: str, body: bytes) -> int:
    headers, url = {"Content-Type": "application/json"}, f"https://localhost:{server.port}/{hook}"
    async with server.http.post(url, data=io.BytesIO(body), headers=headers, ssl=ANYONE) as answer:
        await answer.read()
        return answer.status


async def test_hostile_bodies_delay_no_other_request_and_take_bounded_memory() -> None:
    async with serving("--from", CLUSTER) as server:
        await server.ask("mutate")
        before = memory(server, "VmRSS")
        for body in BODIES.values():
            text = body.make()
            for hook in body.hooks:
                sending = asyncio.create_task(send(server, hook, text))
                while not sending.done():
                    await server.ask("validate")
                    await asyncio.wait({sending}, timeout=0.05)
                assert sending.result() in (200, 400, 408, 503)  # 408: a large body took too long on a busy machine
        assert memory(server, "VmHWM") - before < 300 * MIB
        assert memory(server, "VmRSS") - before < 150 * MIB

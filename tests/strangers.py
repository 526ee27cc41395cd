"""What a stranger with any pod's reach does to the HTTPS port, for as long as it is let: for the tests and `bench.strangers`."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import orjson

from bench.bodies import BODIES
from bench.load import anybody
from tests.builders import admission_review

MIB = 1 << 20
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def head(length: int, path: str = "/mutate") -> bytes:
    sent = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    return sent.encode()


def many_containers(count: int) -> bytes:
    """A review of a pod with so many containers that ask for a GPU."""
    one = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    obj = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [one] * count}}
    return orjson.dumps(admission_review(obj, "default"))


class Stranger:
    """Attacks from one address; each method goes on until it is cancelled."""

    def __init__(self, port: int, address: str) -> None:
        self._port = port
        self._address = address
        self._tls = anybody()
        self._open: list[Stream] = []
        self.sent = 0
        """Connections and requests so far."""
        self.began = asyncio.Event()

    async def silent(self) -> None:
        await self._keep(1100, b"")

    async def before_the_handshake(self) -> None:
        await self._keep(1100, b"", tls=False)

    async def half_a_head(self) -> None:
        await self._keep(300, head(100)[:-4])

    async def half_a_body(self) -> None:
        await self._keep(300, head(100) + b"{")

    async def large_bodies(self) -> None:
        await self._keep(64, head(8 * MIB) + b" " * (7 * MIB))

    async def one_review_each(self) -> None:
        """1,024 connections that are answered once and then say nothing; none comes again."""
        request = head(len(body := many_containers(1))) + body

        async def asked() -> None:
            with suppress(OSError, asyncio.IncompleteReadError):  # the port that it is compared with answers nothing
                reader, writer = await self._dial()
                writer.write(request)
                await reader.readuntil(b"\r\n\r\n")

        for _ in range(16):
            await asyncio.gather(*(asked() for _ in range(64)))
        self.began.set()
        await asyncio.Event().wait()

    async def chunks_of_one_byte(self) -> None:
        await self._keep(
            40, head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"1\r\n \r\n" * 100_000
        )

    async def records_of_one_byte(self) -> None:
        """Each write of OpenSSL is a record; asyncio sends many at once."""
        while True:
            with suppress(OSError):
                _, writer = await self._dial()
                writer.write(head(MIB))
                for _ in range(5_000):
                    writer.get_extra_info("ssl_object").write(b" ")
                writer.write(b" ")
                await writer.drain()
            self.began.set()
            await asyncio.sleep(0.005)
            if len(self._open) > 100:
                self._open.pop(0)[1].transport.abort()

    async def unread(self) -> None:
        await self._keep(100, (head(2) + b"{}") * 1000)

    async def many_containers(self) -> None:
        body = many_containers(75_000)
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(self._ask(head(len(body)) + body))

    async def hammering(self, body: bytes = b"{}", path: str = "/mutate") -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(self._ask(head(len(body), path) + body))

    async def policies(self) -> None:
        """Their size does not tell that they take long."""
        body = BODIES["policy: 100 profiles of a large wrong default"].make()
        await self.hammering(body, "/validate")

    async def _dial(self, tls: bool = True) -> Stream:
        self.sent += 1
        stream = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls if tls else None, local_addr=(self._address, 0)
        )
        self._open.append(stream)
        return stream

    async def _keep(self, count: int, sent: bytes, *, tls: bool = True) -> None:
        """So many connections that say this, and again in place of those that the server ends."""
        while True:
            for gone in [stream for stream in self._open if stream[0].at_eof() or stream[1].transport.is_closing()]:
                self._open.remove(gone)
                gone[1].transport.abort()
            missing = min(50, count - len(self._open))
            await asyncio.gather(*(self._say(sent, tls) for _ in range(missing)))
            if self.sent >= count:
                self.began.set()
            await asyncio.sleep(0.02)

    async def _say(self, sent: bytes, tls: bool) -> None:
        with suppress(OSError):
            _, writer = await self._dial(tls)
            writer.write(sent)

    async def _ask(self, sent: bytes) -> None:
        """One request after the other."""
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await self._dial()
                while True:
                    writer.write(sent)
                    self.began.set()
                    await writer.drain()
                    found = await reader.readuntil(b"\r\n\r\n")
                    await reader.readexactly(int(found.lower().partition(b"content-length: ")[2].split()[0]))
                    self.sent += 1
            await asyncio.sleep(0.01)

    def close(self) -> None:
        for _, writer in self._open:
            writer.transport.abort()


ATTACKS: dict[str, Callable[[Stranger], Awaitable[None]]] = {
    "1,100 silent connections": Stranger.silent,
    "1,100 connections without a handshake": Stranger.before_the_handshake,
    "300 half-sent heads": Stranger.half_a_head,
    "300 half-sent bodies": Stranger.half_a_body,
    "64 bodies of 8 MB, but for their end": Stranger.large_bodies,
    "1,024 connections with one review each": Stranger.one_review_each,
    "bodies in chunks of one byte": Stranger.chunks_of_one_byte,
    "bodies in records of one byte": Stranger.records_of_one_byte,
    "answers that are not read": Stranger.unread,
    "six senders of 75,000 containers": Stranger.many_containers,
    "200 connections that ask all the time": Stranger.hammering,
    "200 connections with policies that take 90 times as long as a pod": Stranger.policies,
}


@asynccontextmanager
async def attacked(port: int, attack: str, address: str, niceness: int = 0) -> AsyncIterator[None]:
    """Meanwhile a stranger does this, and has begun to: in a process of its own, so that it delays no one but the server."""
    command = ["nice", f"-n{niceness}", sys.executable, "-m", "tests.strangers", str(port), attack, address]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(600):  # 1,100 handshakes at 16 in a second take 69 s on an idle machine
            assert await process.stdout.readline() == b"began\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()
        await asyncio.sleep(0.1)


async def attack_until_told(port: int, attack: str, address: str) -> None:
    """Until standard input ends, or the attack by itself: that is an error."""
    stranger, ended = Stranger(port, address), asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    steps = [asyncio.ensure_future(each) for each in (stranger.began.wait(), ended.wait(), ATTACKS[attack](stranger))]
    began, end, task = steps
    await asyncio.wait((began, end, task), return_when=asyncio.FIRST_COMPLETED)
    if began.done():
        print("began", flush=True)
    await asyncio.wait((end, task), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    stranger.close()
    for step in steps:
        step.cancel()


if __name__ == "__main__":
    with suppress(asyncio.CancelledError):
        asyncio.run(attack_until_told(int(sys.argv[1]), sys.argv[2], sys.argv[3]))

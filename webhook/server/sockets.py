"""A socket that listens, and as many open files as its connections need."""

from __future__ import annotations

import asyncio
import resource
import socket
from typing import Final

BACKLOG: Final = 1024
"""Connections that the kernel keeps until they are accepted: a burst of new ones, during a review that takes long."""
FILES: Final = 4096
"""Open files that we want to be allowed: the usual 1,024 would not be enough for all connections."""


async def listening(host: str, port: int, receive: int) -> socket.socket:
    """Bound to the first address that the host has, IPv4 before IPv6. `receive`: bytes that the kernel keeps of a connection.

    Raises OSError.
    """
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = min(infos)
    found = socket.socket(family, kind, protocol)
    try:
        found.setblocking(False)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)  # those that it accepts have it too
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # `::` is IPv4, too
        found.bind(address)
        found.listen(BACKLOG)
    except BaseException:
        found.close()
        raise
    return found


def allow_files() -> None:
    """A runtime gives 1,024 files, and lets whoever wants more say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""TLS 1.2 records that no library sends: messages of TLS itself on a connection, as many as a test wants."""

import asyncio
import hashlib
import hmac
import ssl
import struct
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.load import anybody
from tests.edge import Stream

_HELLO = b"\x01\0\0\0"
"""A ClientHello without content. After the handshake it asks for another one."""


def client_hello(name: str | None = "localhost") -> bytes:
    """What a client sends first: one record."""
    to_server = ssl.MemoryBIO()
    side = anybody().wrap_bio(ssl.MemoryBIO(), to_server, server_hostname=name)
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return to_server.read()
    raise AssertionError("a handshake without a server")


def in_records(hello: bytes, size: int) -> bytes:
    """The same message in many records."""
    message = hello[5:]
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(hello[:3] + len(piece).to_bytes(2) + piece for piece in pieces)


async def renegotiations(port: int, address: str, keys: Path, count: int) -> tuple[Stream, bytes]:
    """A connection after its handshake, and so many records that each ask for another handshake."""
    tls = anybody()
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    tls.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    tls.keylog_filename = str(keys)
    stream = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    side, seen, done = tls.wrap_bio(received, sent), b"", False
    while not done:
        try:
            side.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            stream[1].write(sent.read())
            seen += (part := await stream[0].read(1 << 16))
            received.write(part)
    stream[1].write(sent.read())
    _, client_random, secret = (bytes.fromhex(word) if word[0] != "C" else b"" for word in _logged(keys))
    block = _derived(secret, b"key expansion" + seen[11:43] + client_random, 72)  # seen[11:43]: of the ServerHello
    cipher, salt = AESGCM(block[:32]), block[64:68]
    return stream, b"".join(_sealed(cipher, salt, number) for number in range(1, count + 1))


def _logged(keys: Path) -> list[str]:
    return next(line.split() for line in keys.read_text().splitlines() if line.startswith("CLIENT_RANDOM"))


def _derived(secret: bytes, seed: bytes, length: int) -> bytes:
    """The pseudorandom function of RFC 5246, section 5."""
    found, mixed = b"", seed
    while len(found) < length:
        mixed = hmac.digest(secret, mixed, hashlib.sha384)
        found += hmac.digest(secret, mixed + seed, hashlib.sha384)
    return found[:length]


def _sealed(cipher: AESGCM, salt: bytes, number: int) -> bytes:
    """A handshake record, as RFC 5288 encrypts it."""
    nonce = number.to_bytes(8)
    head = nonce + struct.pack(">BHH", 22, 0x303, len(_HELLO))
    return struct.pack(">BHH", 22, 0x303, len(_HELLO) + 24) + nonce + cipher.encrypt(salt + nonce, _HELLO, head)

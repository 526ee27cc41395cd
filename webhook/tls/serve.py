"""Serves TLS handshakes with the newest certificate that passed all checks.

To load another pair into a context in use is not safe: a mismatched pair breaks it, and a pair of another key type is added to
the old one and does not replace it. So each pair gets a new context, which is completely built and checked, and each handshake
asks for the context anew. Open connections do not change.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, check, fingerprint, lifetime

HANDSHAKES: Final = 64
"""Handshakes with one context. OpenSSL keeps the session of each for two hours, about 1 KiB, although no API server resumes one.
Python cannot turn that off; a context that ends forgets its sessions."""


class LiveContext:
    """The TLS context of a server. Handshakes fail before the first `swap`."""

    def __init__(self, client_ca: bytes | None = None) -> None:
        """`client_ca` (PEM, one or more): if given, each client must have a certificate of these authorities.

        Raises CertificateError if `client_ca` has no certificate.
        """
        self._client_ca = client_ca
        self._context, self._handshakes = self._made(None), 0
        self._pair: Pair | None = None
        self.ends: datetime | None = None
        """The end of the served certificate; None while there is none."""
        self.lifetime = 0.0
        """Seconds from its beginning to its end; 0 while there is none."""

    def context(self) -> ssl.SSLContext:
        """The context for the next handshake."""
        self._handshakes += 1
        if self._handshakes % HANDSHAKES == 0:
            self._context = self._made(self._pair)
        return self._context

    def swap(self, pair: Pair, now: datetime) -> bool:
        """Serve `pair` from the next handshake on. False if it is served already.

        Raises CertificateError if it must not be served; then the last good pair stays.
        """
        if pair == self._pair:
            return False
        ends = check(pair, now)
        try:
            fresh = self._made(pair)
        except ssl.SSLError as error:
            raise CertificateError(f"OpenSSL does not take the certificate: {error.reason}: issue a new one") from None
        self._context, self._pair, self.ends = fresh, pair, ends
        self.lifetime = lifetime(pair.certificate).total_seconds()
        return True

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the served certificate; "" while there is none."""
        return fingerprint(self._pair.certificate) if self._pair else ""

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the served certificate ends; negative after its end, 0 while there is none."""
        return (self.ends - now).total_seconds() if self.ends else 0.0

    def _made(self, pair: Pair | None) -> ssl.SSLContext:
        """Raises ssl.SSLError if OpenSSL does not take the pair."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # One group, which every client has: ffdhe8192 takes 126 ms of a core, before a client is known.
        context.set_ecdh_curve("prime256v1")
        # No session tickets: the API server resumes no sessions (client-go sets no ClientSessionCache).
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        if self._client_ca is None:
            # In TLS 1.3 a KeyUpdate of 27 bytes takes 14 µs, and OpenSSL answers any number. Each API server speaks 1.2.
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        else:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cadata=self._client_ca.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise CertificateError("saw no CA certificate for clients, wanted one or more in PEM") from None
        if pair is not None:
            with _as_file(pair.key + b"\n" + pair.certificate) as name:
                context.load_cert_chain(name)
        return context


@contextmanager
def _as_file(secret: bytes) -> Iterator[str]:
    """The name of a file in memory with the content `secret`: OpenSSL reads keys from files only."""
    descriptor = os.memfd_create("pair")
    try:
        os.write(descriptor, secret)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)

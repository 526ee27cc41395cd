"""Serves TLS handshakes with the newest certificate that passed all checks.

A listening socket keeps its TLS context, and to load another pair into a context in use is not safe: a mismatched pair breaks it,
and a pair of another key type is added to the old one and does not replace it. So each pair gets a new context, which is
completely built and checked. The context of the listening socket passes each handshake to the newest context. Open connections
do not change.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, check, fingerprint, lifetime


class LiveContext:
    """The TLS contexts of a server. `listening`: the context of its socket. Handshakes fail before the first `swap`."""

    def __init__(self, client_ca: bytes | None = None) -> None:
        """`client_ca` (PEM, one or more): if given, each client must have a certificate of these authorities.

        Raises CertificateError if `client_ca` has no certificate.
        """
        self._client_ca = client_ca
        self.listening = self._context()
        self.listening.sni_callback = self._hand_over
        self._current: ssl.SSLContext | None = None
        self._pair: Pair | None = None
        self.ends: datetime | None = None
        """The end of the served certificate; None while there is none."""
        self.lifetime = 0.0
        """Seconds from its beginning to its end; 0 while there is none."""

    def swap(self, pair: Pair, now: datetime) -> bool:
        """Serve `pair` from the next handshake on. False if it is served already.

        Raises CertificateError if it must not be served; then the last good pair stays.
        """
        if pair == self._pair:
            return False
        ends = check(pair, now)
        fresh = self._context()
        try:
            with _as_file(pair.key + b"\n" + pair.certificate) as name:
                fresh.load_cert_chain(name)
        except ssl.SSLError as error:
            raise CertificateError(f"OpenSSL does not take the certificate: {error.reason}: issue a new one") from None
        self._current, self._pair, self.ends = fresh, pair, ends
        self.lifetime = lifetime(pair.certificate).total_seconds()
        return True

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the served certificate; "" while there is none."""
        return fingerprint(self._pair.certificate) if self._pair else ""

    def seconds_left(self, now: datetime) -> float:
        """Seconds until the served certificate ends; negative after its end, 0 while there is none."""
        return (self.ends - now).total_seconds() if self.ends else 0.0

    def _hand_over(self, handshake: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._current
        return None

    def _context(self) -> ssl.SSLContext:
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
            # In both contexts: OpenSSL takes the demand for a certificate from one and the authorities from the other.
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cadata=self._client_ca.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise CertificateError("saw no CA certificate for clients, wanted one or more in PEM") from None
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

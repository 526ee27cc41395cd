"""The live TLS context: each handshake is served by the newest pair that passed all checks.

A listening socket keeps the context it was opened with, and loading another pair into a live context is not safe: a
mismatched one breaks it, and one of another key type stands beside the old one, not in its place. So every pair gets a
fresh context, built and checked completely, and the listening one hands each handshake over to the current one.
Connections that are open stay as they are.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, check
from webhook.tls.read import fingerprint


class LiveContext:
    """`listening` is for the server socket, `swap` puts a pair behind it. Before the first swap handshakes fail."""

    def __init__(self, client_ca: bytes | None = None) -> None:
        """With `client_ca` (PEM, one or more) only who shows a certificate of these authorities is served.

        Raises CertificateError where it is none.
        """
        self._client_ca = client_ca
        self.listening = self._context()
        self.listening.sni_callback = self._hand_over
        self._current: ssl.SSLContext | None = None
        self._pair: Pair | None = None
        self.ends: datetime | None = None
        """When the certificate that is served ends; None while there is none."""

    def swap(self, pair: Pair, now: datetime) -> bool:
        """Serve `pair` from the next handshake on. False where it is served already.

        Raises CertificateError where it must not be served: the last good one stays.
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
        return True

    @property
    def fingerprint(self) -> str:
        """Of the certificate that is served; "" while there is none."""
        return fingerprint(self._pair.certificate) if self._pair else ""

    def seconds_left(self, now: datetime) -> float:
        """How long the certificate that is served is valid; negative after its end, 0 while there is none."""
        return (self.ends - now).total_seconds() if self.ends else 0.0

    def _hand_over(self, handshake: ssl.SSLObject, name: str | None, listening: ssl.SSLContext) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        handshake.context = self._current
        return None

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The API server's client keeps no sessions (client-go sets no ClientSessionCache): tickets would be of no use.
        context.num_tickets = 0
        context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        if (
            self._client_ca is not None
        ):  # on both: OpenSSL takes the demand from the one, the authorities from the other
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(cadata=self._client_ca.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise CertificateError("saw no CA certificate for clients, wanted one or more in PEM") from None
        return context


@contextmanager
def _as_file(secret: bytes) -> Iterator[str]:
    """`secret` under a name, since OpenSSL's loader wants one: in memory where there is memfd, else in a 0600 file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pair")
        try:
            os.write(descriptor, secret)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(secret)
            file.flush()
            yield file.name

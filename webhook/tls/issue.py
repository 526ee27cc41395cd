"""Makes and checks certificates: a CA and the leaf that it signs. Pure but for the keys themselves: `now` is given.

The shape satisfies the two that must accept it: Go's crypto/x509, which the API server calls us with (names only from
the SAN, never from the CN), and OpenSSL's X509_V_FLAG_X509_STRICT, which Python 3.13 sets by default (key identifiers,
key usage, critical basic constraints).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.errors import CertificateError
from webhook.text import listed
from webhook.tls.read import certificates, names_in, readable, signed_by

CA_LIFE = timedelta(days=365)
LEAF_LIFE = timedelta(days=30)
MAX_AUTHORITIES = (
    4  # of a bundle: the current CA and those that replicas may still serve, however often somebody makes new ones
)
SKEW = timedelta(hours=1)
"""Certificates begin this long before they are made: the clocks of control plane and nodes are never quite equal."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (chain) and its private key, both PEM. The key is kept out of `repr`, hence out of tracebacks."""

    certificate: bytes
    key: bytes = field(repr=False)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """What a certificate must be valid for: the API server asks for `<service>.<namespace>.svc` (webhook/client.go)."""
    name = f"{service}.{namespace}.svc"
    return (name, f"{name}.cluster.local", "localhost", "127.0.0.1")


def make_ca(now: datetime) -> Pair:
    """A new self-signed CA, good for CA_LIFE."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The day in the name tells one CA of a bundle from the next; verifiers go by the key identifiers.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gpu-admission CA {now:%Y-%m-%d}")])
    return _issued(name, key, name, key, now, CA_LIFE, x509.BasicConstraints(ca=True, path_length=0))


def make_leaf(ca: Pair, names: Iterable[str], now: datetime) -> Pair:
    """A serving certificate for `names` (DNS names and IP addresses), good for LEAF_LIFE but not longer than its CA.

    Raises CertificateError where `ca` is not a CA with its key.
    """
    issuer, issuer_key = _load(ca)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the CA key is not an elliptic curve key: give the CA that make_ca made")
    if now >= issuer[0].not_valid_after_utc:
        raise CertificateError(f"the CA ended at {_minute(issuer[0].not_valid_after_utc)}: make a new one")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-admission")])
    life = min(LEAF_LIFE, issuer[0].not_valid_after_utc - now)
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    san = x509.SubjectAlternativeName([_alternative(name) for name in names])
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    return _issued(subject, key, issuer[0].subject, issuer_key, now, life, constraints, server, san)


def check(pair: Pair, now: datetime) -> datetime:
    """When the certificate ends. Raises CertificateError where the pair must not be served."""
    chain, key = _load(pair)
    leaf = chain[0]
    if _public(leaf.public_key()) != _public(key.public_key()):
        raise CertificateError("the key does not belong to the certificate: give the two that were issued together")
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now >= ends:
        raise CertificateError(f"the certificate ended at {_minute(ends)}: issue a new one")
    if now < begins:
        raise CertificateError(f"the certificate begins only at {_minute(begins)}: check this machine's clock")
    return ends


def check_issued(pair: Pair, ca: bytes, names: Iterable[str], now: datetime) -> datetime:
    """As `check`, and the certificate is signed by the first certificate of `ca` (PEM) and valid for all `names`.

    A leaf judged by its dates alone outlives a CA that was replaced, and then nobody can call us any more.
    """
    end = check(pair, now)
    leaf, issuer = certificates(pair.certificate)[0], certificates(ca)[0]
    if not signed_by(leaf, issuer):
        raise CertificateError("the certificate is not signed by the current CA: issue a new one")
    if not issuer.not_valid_before_utc <= now < issuer.not_valid_after_utc:
        raise CertificateError(f"the CA ended at {_minute(issuer.not_valid_after_utc)}: make a new one")
    valid_for = names_in(leaf)
    if missing := [name for name in names if name not in valid_for]:
        raise CertificateError(
            f"the certificate is not for {listed(missing)}, only for {listed(valid_for)}: issue a new one"
        )
    return end


def check_ca(ca: Pair, now: datetime) -> None:
    """Raises CertificateError where `ca` is no CA that may sign now."""
    check(ca, now)
    try:
        is_ca = certificates(ca.certificate)[0].extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    if not is_ca:
        raise CertificateError("the certificate is not that of a CA: make a new CA")


def bundled(ca: Pair, other_authorities: Iterable[bytes], now: datetime) -> Pair:
    """`ca`, and behind it the other authorities (PEM) that are still valid: clients are to trust all of them.

    At most MAX_AUTHORITIES, each once, the first ones. Of `other_authorities` what is no certificate is left out.
    """
    bundle = certificates(ca.certificate)[:1]
    bundle += [c for pem in other_authorities for c in readable(pem) if now < c.not_valid_after_utc]
    bundle = list(dict.fromkeys(bundle))[:MAX_AUTHORITIES]
    return Pair(b"".join(c.public_bytes(Encoding.PEM) for c in bundle), ca.key)


def authorities(pem: bytes) -> list[bytes]:
    """Each certificate of a bundle by itself; none where it cannot be read."""
    return [c.public_bytes(Encoding.PEM) for c in readable(pem)]


def made_at(certificate: bytes) -> datetime:
    """When we made it."""
    return certificates(certificate)[0].not_valid_before_utc + SKEW


def renewal(certificate: bytes) -> datetime:
    """When to renew: after two thirds of its life, so that a third is left to notice that renewing fails."""
    begins, ends = certificates(certificate)[0].not_valid_before_utc, certificates(certificate)[0].not_valid_after_utc
    return begins + (ends - begins) * 2 / 3


def _issued(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
    constraints: x509.BasicConstraints,
    *extensions: x509.ExtensionType,
) -> Pair:
    usage = dict.fromkeys(_USAGES, False) | dict.fromkeys(_CA_USAGES if constraints.ca else _LEAF_USAGES, True)
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - SKEW)
        .not_valid_after(now.astimezone(UTC) + life)
        .add_extension(constraints, critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(issuer_key, SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), private)


_CA_USAGES, _LEAF_USAGES = ("key_cert_sign", "crl_sign"), ("digital_signature",)
_USAGES = (
    *(*_CA_USAGES, *_LEAF_USAGES),
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
)
"""All that there are: each has to be given."""


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load(pair: Pair) -> tuple[list[x509.Certificate], PrivateKeyTypes]:
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # what they say may quote the key: it is not passed on
        seen = f"{len(pair.key)} bytes that are no PEM private key, or an encrypted one"
        raise CertificateError(f"saw {seen}: give a private key without a password") from None
    return certificates(pair.certificate), key


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"

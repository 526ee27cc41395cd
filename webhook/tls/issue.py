"""Issues, checks and reads certificates: a CA, and the leaf that it signs. The caller gives the time; only the keys are random.

Two verifiers must accept the certificates: crypto/x509 of Go in the API server (names in the SAN, not in the CN), and OpenSSL
with X509_V_FLAG_X509_STRICT, the default since Python 3.13 (key identifiers, key usage, critical basic constraints).
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from webhook.errors import CertificateError

CA_LIFE = timedelta(days=365)
LEAF_LIFE = timedelta(days=30)
MAX_AUTHORITIES = 4
"""Maximum number of CAs in a bundle: the current one, and older ones whose leaf a replica may still serve."""
SKEW = timedelta(hours=1)
"""Certificates are valid from this long before their issue, because the clocks of control plane and nodes differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (chain) and its private key, both PEM. The key is not in `repr`, and so not in tracebacks."""

    certificate: bytes
    key: bytes = field(repr=False)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names for a certificate. The API server calls `<service>.<namespace>.svc` (webhook/client.go)."""
    name = f"{service}.{namespace}.svc"
    return (name, f"{name}.cluster.local", "localhost", "127.0.0.1")


def make_ca(now: datetime) -> Pair:
    """A new self-signed CA, valid for CA_LIFE."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The date lets people tell the CAs of a bundle apart. Verifiers use the key identifiers.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"gpu-admission CA {now:%Y-%m-%d}")])
    return _issued(name, key, name, key, now, CA_LIFE, x509.BasicConstraints(ca=True, path_length=0))


def make_leaf(ca: Pair, names: Iterable[str], now: datetime) -> Pair:
    """A serving certificate for `names` (DNS names and IP addresses), valid for LEAF_LIFE but not longer than its CA.

    Raises CertificateError if `ca` has no elliptic curve key.
    """
    issuer, issuer_key = _load(ca)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the CA key is not an elliptic curve key: give the CA that make_ca made")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu-admission")])
    life = min(LEAF_LIFE, issuer[0].not_valid_after_utc - now)
    server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    san = x509.SubjectAlternativeName([_alternative(name) for name in names])
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    return _issued(subject, key, issuer[0].subject, issuer_key, now, life, constraints, server, san)


def check(pair: Pair, now: datetime) -> datetime:
    """The end of the certificate. Raises CertificateError if the pair must not be served."""
    chain, key = _load(pair)
    leaf = chain[0]
    if leaf.public_key() != key.public_key():
        raise CertificateError("the key does not belong to the certificate: give the two that were issued together")
    begins, ends = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    if now >= ends:
        raise CertificateError(f"the certificate ended at {_minute(ends)}: issue a new one")
    if now < begins:
        raise CertificateError(f"the certificate begins only at {_minute(begins)}: check this machine's clock")
    return ends


def is_issued(pair: Pair, ca: bytes, names: Iterable[str], now: datetime) -> bool:
    """Whether a pair may be served (`check`), was signed by the first certificate of `ca` (PEM), and is valid for all `names`.

    A leaf whose CA was replaced may still be valid by its dates, but no API server would trust it.
    """
    try:
        check(pair, now)
    except CertificateError:
        return False
    leaf, issuer = certificates(pair.certificate)[0], certificates(ca)[0]
    in_time = issuer.not_valid_before_utc <= now < issuer.not_valid_after_utc
    return in_time and signed_by(leaf, issuer) and set(names) <= set(names_in(leaf))


def is_ca(pair: Pair, now: datetime) -> bool:
    """Whether a pair is that of a CA, and valid now."""
    try:
        check(pair, now)
        return certificates(pair.certificate)[0].extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (CertificateError, x509.ExtensionNotFound):
        return False


def bundled(ca: Pair, other_authorities: Iterable[bytes], now: datetime) -> Pair:
    """`ca`, followed by the other authorities (PEM) that are still valid. Clients are to trust all of them.

    The bundle has each certificate once, and only the first MAX_AUTHORITIES. Malformed ones are left out.
    """
    bundle = certificates(ca.certificate)[:1]
    bundle += [c for pem in other_authorities for c in readable(pem) if now < c.not_valid_after_utc]
    bundle = list(dict.fromkeys(bundle))[:MAX_AUTHORITIES]
    return Pair(b"".join(c.public_bytes(Encoding.PEM) for c in bundle), ca.key)


def authorities(pem: bytes) -> list[bytes]:
    """The certificates of a bundle one by one; none if the bundle is malformed."""
    return [c.public_bytes(Encoding.PEM) for c in readable(pem)]


def issued_at(certificate: bytes) -> datetime:
    """The time when `make_ca` or `make_leaf` issued a certificate."""
    return certificates(certificate)[0].not_valid_before_utc + SKEW


def lifetime(certificate: bytes) -> timedelta:
    """The time between the beginning and the end of a certificate."""
    first = certificates(certificate)[0]
    return first.not_valid_after_utc - first.not_valid_before_utc


def renewal(certificate: bytes) -> datetime:
    """The time to renew a certificate: after two thirds of its life. The last third is left to notice that renewal fails."""
    return certificates(certificate)[0].not_valid_before_utc + lifetime(certificate) * 2 / 3


def write_certificates(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write a new CA and leaf to ca.pem, tls.pem and tls-key.pem, readable by their owner only. Existing files are replaced."""
    now = datetime.now(UTC)
    ca = make_ca(now)
    leaf = make_leaf(ca, names, now)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, pem in (("ca.pem", ca.certificate), ("tls.pem", leaf.certificate), ("tls-key.pem", leaf.key)):
        path = folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(pem)
        paths.append(path)
    return paths


# --- reading; dates are not checked here ------------------------------------------------------------------------------


def certificates(pem: bytes) -> list[x509.Certificate]:
    """The certificates in a PEM text, in order. Raises CertificateError if there is none."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        seen = f"{len(pem)} bytes with no whole PEM certificate"
        raise CertificateError(f"saw {seen}: give BEGIN CERTIFICATE … END CERTIFICATE") from None


def readable(pem: bytes) -> list[x509.Certificate]:
    """The same; an empty list if there is none."""
    try:
        return certificates(pem)
    except CertificateError:
        return []


def names_in(certificate: x509.Certificate) -> list[str]:
    """The DNS names and IP addresses that a certificate is valid for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 fingerprint of the first certificate: that of `openssl x509 -fingerprint -sha256`, in lower case, no colons."""
    return certificates(certificate)[0].fingerprint(SHA256()).hex()


def is_trusted(chain: bytes, bundle: bytes) -> bool:
    """Whether the first certificate of `chain` is in `bundle`, or signed by one in it, directly or through others of the chain.

    Go's verifier builds a chain in the same way. Dates are not compared.
    """
    trusted, (leaf, *intermediates) = readable(bundle), certificates(chain)
    visited = []
    while leaf not in visited:
        if leaf in trusted or any(signed_by(leaf, issuer) for issuer in trusted):
            return True
        visited.append(leaf)
        leaf = next((issuer for issuer in intermediates if signed_by(leaf, issuer)), leaf)
    return False


def signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether `issuer` has signed a certificate directly."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


# --- parts ------------------------------------------------------------------------------------------------------------


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
    *_CA_USAGES,
    *_LEAF_USAGES,
    *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only", "decipher_only"),
)
"""All key usages. `x509.KeyUsage` requires a value for each."""


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _load(pair: Pair) -> tuple[list[x509.Certificate], PrivateKeyTypes]:
    try:
        key = load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their messages are not passed on: they may quote the key
        seen = f"{len(pair.key)} bytes that are no PEM private key, or an encrypted one"
        raise CertificateError(f"saw {seen}: give a private key without a password") from None
    return certificates(pair.certificate), key


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"

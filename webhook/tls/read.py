"""Reads certificates: their names, and who signed them. Dates are not checked here."""

from __future__ import annotations

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.hashes import SHA256

from webhook.errors import CertificateError


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

"""Issued certificates are accepted by strict verifiers, and bad pairs are refused."""

import ipaddress
import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from webhook.errors import CertificateError
from webhook.tls.issue import (
    CA_LIFE,
    LEAF_LIFE,
    SKEW,
    Pair,
    bundled,
    certificates,
    check,
    fingerprint,
    is_ca,
    is_issued,
    is_trusted,
    make_ca,
    make_leaf,
    names_in,
    renewal,
    service_names,
    write_certificates,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = service_names("gpu-admission", "gpu-admission")
CA = make_ca(NOW)
LEAF = make_leaf(CA, NAMES, NOW)


def certificate(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def verify(leaf: Pair, ca: Pair, name: str, when: datetime) -> None:
    """Verify with the Web PKI profile of the cryptography package, which is stricter than Go."""
    subject = x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
    store = Store([certificate(ca)])
    PolicyBuilder().store(store).time(when).build_server_verifier(subject).verify(certificate(leaf), [])


@pytest.mark.parametrize("name", NAMES)
def test_a_leaf_is_accepted_for_each_of_its_names(name: str) -> None:
    verify(LEAF, CA, name, NOW)


@pytest.mark.parametrize(
    ("name", "when"),
    [
        pytest.param("gpu-admission", NOW, id="the common name"),
        pytest.param("other.gpu-admission.svc", NOW, id="another service"),
        pytest.param(NAMES[0], NOW + LEAF_LIFE + timedelta(seconds=1), id="after its end"),
        pytest.param(NAMES[0], NOW - SKEW - timedelta(seconds=1), id="before its beginning"),
    ],
)
def test_a_leaf_is_not_accepted_for_another_name_or_time(name: str, when: datetime) -> None:
    with pytest.raises(VerificationError):
        verify(LEAF, CA, name, when)


def test_the_ca_signs_nothing_but_leaves() -> None:
    assert (is_ca(CA, NOW), is_ca(LEAF, NOW), is_ca(CA, NOW + CA_LIFE)) == (True, False, False)
    constraints = certificate(CA).extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    with pytest.raises(VerificationError):
        verify(make_leaf(LEAF, NAMES, NOW), LEAF, NAMES[0], NOW)


def test_a_leaf_never_outlives_its_ca() -> None:
    late = NOW + CA_LIFE - timedelta(days=1)
    leaf = make_leaf(CA, NAMES, late)
    assert certificate(leaf).not_valid_after_utc == certificate(CA).not_valid_after_utc


def test_a_leaf_is_renewed_after_two_thirds_of_its_life() -> None:
    assert timedelta(days=19) < renewal(LEAF.certificate) - NOW < timedelta(days=21)


def test_the_key_is_not_in_the_repr() -> None:
    assert "PRIVATE" not in repr(LEAF)


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


BAD_PAIRS = [
    pytest.param(Pair(LEAF.certificate, CA.key), "does not belong", id="the key of another certificate"),
    pytest.param(Pair(b"", LEAF.key), "saw 0 bytes with no whole PEM certificate", id="no certificate"),
    pytest.param(Pair(LEAF.certificate[:200], LEAF.key), "no whole PEM certificate", id="half a certificate"),
    pytest.param(Pair(LEAF.certificate, b""), "0 bytes that are no PEM private key", id="no key"),
    pytest.param(Pair(LEAF.certificate, LEAF.key[:60]), "no PEM private key", id="half a key"),
    pytest.param(
        Pair(LEAF.certificate, pem(ec.generate_private_key(ec.SECP256R1()), b"secret")),
        "without a password",
        id="encrypted",
    ),
    pytest.param(
        Pair(LEAF.certificate, pem(rsa.generate_private_key(65537, 2048))),
        "does not belong",
        id="a key of another type",
    ),
]


@pytest.mark.parametrize(("pair", "message"), BAD_PAIRS)
def test_a_bad_pair_is_refused_and_the_message_does_not_have_the_key(pair: Pair, message: str) -> None:
    with pytest.raises(CertificateError, match=re.escape(message)) as caught:
        check(pair, NOW)
    assert caught.value.__cause__ is None
    assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        pytest.param(NOW + LEAF_LIFE, "the certificate ended at 2026-03-31 12:00 UTC", id="at its end"),
        pytest.param(NOW - timedelta(hours=2), "begins only at 2026-03-01 11:00 UTC", id="before its beginning"),
    ],
)
def test_a_pair_out_of_its_dates_is_refused(when: datetime, message: str) -> None:
    with pytest.raises(CertificateError, match=message):
        check(LEAF, when)


OTHER = make_ca(NOW - timedelta(days=1))


@pytest.mark.parametrize(
    ("pair", "ca", "names", "issued"),
    [
        pytest.param(LEAF, CA, NAMES, True, id="its CA and its names"),
        pytest.param(LEAF, OTHER, NAMES, False, id="another CA"),
        pytest.param(LEAF, bundled(CA, [OTHER.certificate], NOW), NAMES, True, id="a bundle with the current CA first"),
        pytest.param(LEAF, bundled(OTHER, [CA.certificate], NOW), NAMES, False, id="a bundle with another CA first"),
        pytest.param(LEAF, CA, [*NAMES, "other.svc"], False, id="a name that it does not have"),
        pytest.param(Pair(LEAF.certificate, CA.key), CA, NAMES, False, id="a pair that must not be served"),
    ],
)
def test_is_issued(pair: Pair, ca: Pair, names: list[str], issued: bool) -> None:
    assert is_issued(pair, ca.certificate, names, NOW) is issued


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chain", "bundle", "trusted"),
    [
        pytest.param(LEAF.certificate, CA.certificate, True, id="its CA"),
        pytest.param(LEAF.certificate, bundled(OTHER, [CA.certificate], NOW).certificate, True, id="one of several"),
        pytest.param(LEAF.certificate, LEAF.certificate, True, id="itself"),
        pytest.param(LEAF.certificate + CA.certificate, CA.certificate, True, id="a CA that is in the chain"),
        pytest.param(LEAF.certificate, OTHER.certificate, False, id="another CA"),
        pytest.param(
            LEAF.certificate + CA.certificate, OTHER.certificate, False, id="another CA than that of the chain"
        ),
        pytest.param(LEAF.certificate, b"junk", False, id="a malformed bundle"),
    ],
)
def test_is_trusted(chain: bytes, bundle: bytes, trusted: bool) -> None:
    assert is_trusted(chain, bundle) is trusted


def test_names_and_fingerprint() -> None:
    assert names_in(certificates(LEAF.certificate)[0]) == [*NAMES]
    assert names_in(certificates(CA.certificate)[0]) == []
    assert len(fingerprint(LEAF.certificate)) == 64
    assert fingerprint(LEAF.certificate + CA.certificate) == fingerprint(LEAF.certificate)


def test_files_are_readable_by_their_owner_only_and_replace_existing_ones(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    written = write_certificates(folder, ["localhost", "127.0.0.1"])
    assert [path.name for path in written] == ["ca.pem", "tls.pem", "tls-key.pem"]
    before = [path.read_bytes() for path in written]
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o600] * 3
    assert [path.read_bytes() for path in write_certificates(folder, ["localhost"])] != before

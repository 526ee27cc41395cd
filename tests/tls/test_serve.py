"""Real TLS handshakes in memory, before and after a swap of the pair."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, make_ca, make_leaf
from webhook.tls.serve import HANDSHAKES, LiveContext

NOW = datetime.now(UTC)
CA = make_ca(NOW)
LEAF, OTHER = make_leaf(CA, ["localhost"], NOW), make_leaf(CA, ["localhost"], NOW)


def rsa_pair() -> tuple[trustme.CA, Pair]:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", key_type=trustme.KeyType.RSA)
    return authority, Pair(b"".join(blob.bytes() for blob in issued.cert_chain_pems), issued.private_key_pem.bytes())


def handshake(
    live: LiveContext,
    ca: bytes,
    name: str | None = "localhost",
    client: trustme.CA | None = None,
    group: str = "",
    **more: Any,
) -> bytes:
    """Do a handshake in memory, as a client with a certificate of this authority if there is one. `group`: all it offers.

    Returns the certificate (DER) that the client has accepted.
    """
    context = ssl.create_default_context(cadata=ca.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.check_hostname = name is not None
    for attribute, value in more.items():
        setattr(context, attribute, value)
    if group:
        context.set_ecdh_curve(group)
    if client is not None:
        client.issue_cert("kube-apiserver").configure_cert(context)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = live.context().wrap_bio(to_server, to_client, server_side=True)
    theirs = context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (theirs, ours):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = theirs.getpeercert(binary_form=True)
    assert shown
    assert bool(ours.getpeercert(binary_form=True)) is bool(client)
    for side in (theirs, ours):  # as every client ends it: else OpenSSL forgets the session
        with suppress(ssl.SSLWantReadError):
            side.unwrap()
    return shown


def der(pair: Pair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


@pytest.fixture
def live() -> LiveContext:
    live = LiveContext()
    live.swap(LEAF, NOW)
    return live


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(Pair(OTHER.certificate, LEAF.key), id="mismatched"),
        pytest.param(Pair(OTHER.certificate[:100], OTHER.key), id="cut off"),
        pytest.param(Pair(b"", b""), id="empty"),
        pytest.param(make_leaf(CA, ["localhost"], NOW - timedelta(days=40)), id="expired"),
    ],
)
def test_after_a_bad_pair_the_old_one_is_still_served(live: LiveContext, pair: Pair) -> None:
    with pytest.raises(CertificateError):
        live.swap(pair, NOW)
    assert handshake(live, CA.certificate) == der(LEAF)
    assert live.ends == x509.load_pem_x509_certificate(LEAF.certificate).not_valid_after_utc


def test_before_the_first_pair_handshakes_fail() -> None:
    live = LiveContext()
    with pytest.raises(ssl.SSLError):
        handshake(live, CA.certificate)
    assert live.seconds_left(NOW) == live.lifetime == 0


def test_a_swap_takes_effect_in_the_next_handshake(live: LiveContext) -> None:
    assert handshake(live, CA.certificate) == der(LEAF)
    assert live.swap(OTHER, NOW) is True
    assert handshake(live, CA.certificate) == der(OTHER)


def test_sessions_which_nobody_resumes_are_forgotten(live: LiveContext) -> None:
    for _ in range(3 * HANDSHAKES):
        handshake(live, CA.certificate)
    assert live.context().session_stats()["number"] < HANDSHAKES


def test_a_client_without_sni_gets_the_current_pair_too(live: LiveContext) -> None:
    live.swap(OTHER, NOW)
    assert handshake(live, CA.certificate, name=None) == der(OTHER)


def test_a_pair_of_another_key_type_replaces_the_old_one(live: LiveContext) -> None:
    authority, pair = rsa_pair()
    live.swap(pair, NOW)
    assert handshake(live, authority.cert_pem.bytes()) == der(pair)
    with pytest.raises(ssl.SSLError):
        handshake(live, CA.certificate)


def test_without_client_ca_tls_1_2_is_the_newest_version_too(live: LiveContext) -> None:
    """A stranger could make OpenSSL derive keys without end by KeyUpdate messages, which 1.2 does not have."""
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(live, CA.certificate, minimum_version=ssl.TLSVersion.TLSv1_3)


def test_the_seconds_left_count_down_and_go_below_zero(live: LiveContext) -> None:
    assert live.ends is not None
    assert live.seconds_left(live.ends - timedelta(seconds=5)) == 5
    assert live.lifetime == timedelta(days=30, hours=1).total_seconds(), "it begins an hour before it is issued"
    assert live.seconds_left(live.ends + timedelta(seconds=5)) == -5


# --- client certificates ----------------------------------------------------------------------------------------------

AUTHORITY, STRANGER = trustme.CA(), trustme.CA()


def demanding() -> LiveContext:
    live = LiveContext(AUTHORITY.cert_pem.bytes())
    live.swap(LEAF, NOW)
    return live


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.mark.parametrize("version", VERSIONS)
def test_only_clients_with_a_certificate_of_the_authority_are_served_before_and_after_a_swap(
    version: ssl.TLSVersion,
) -> None:
    live = demanding()
    for pair in (LEAF, OTHER):
        live.swap(pair, NOW)
        handshake(live, CA.certificate, client=AUTHORITY, maximum_version=version)
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            handshake(live, CA.certificate, maximum_version=version)
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(live, CA.certificate, client=STRANGER, maximum_version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_whoever_offers_only_groups_that_cost_much_is_refused_before_he_is_known(version: ssl.TLSVersion) -> None:
    live, client = demanding(), AUTHORITY
    handshake(live, CA.certificate, client=client, group="prime256v1", maximum_version=version)
    for group in ("ffdhe8192", "secp384r1"):
        with pytest.raises(ssl.SSLError):
            handshake(live, CA.certificate, client=client, group=group, maximum_version=version)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no PEM", id="words"),
        pytest.param("å".encode(), id="no ASCII"),
        pytest.param(LEAF.key, id="a key"),
    ],
)
def test_a_client_ca_without_a_certificate_is_refused(text: bytes) -> None:
    with pytest.raises(CertificateError, match="saw no CA certificate for clients, wanted one or more in PEM"):
        LiveContext(text)

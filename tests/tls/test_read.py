"""Reading certificates: their names, their fingerprint, and who trusts them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from webhook.errors import CertificateError
from webhook.tls.issue import bundled, make_ca, make_leaf
from webhook.tls.read import certificates, fingerprint, is_trusted, names_in

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONE, OTHER = make_ca(NOW), make_ca(NOW - timedelta(days=1))
LEAF = make_leaf(ONE, ["a.example", "127.0.0.1"], NOW)


@pytest.mark.parametrize(
    ("chain", "bundle", "trusted"),
    [
        pytest.param(LEAF.certificate, ONE.certificate, True, id="its CA"),
        pytest.param(LEAF.certificate, bundled(OTHER, [ONE.certificate], NOW).certificate, True, id="one of several"),
        pytest.param(LEAF.certificate, LEAF.certificate, True, id="itself"),
        pytest.param(LEAF.certificate + ONE.certificate, ONE.certificate, True, id="a CA that is in the chain"),
        pytest.param(LEAF.certificate, OTHER.certificate, False, id="another CA"),
        pytest.param(
            LEAF.certificate + ONE.certificate, OTHER.certificate, False, id="another CA than that of the chain"
        ),
        pytest.param(LEAF.certificate, b"junk", False, id="a malformed bundle"),
    ],
)
def test_is_trusted(chain: bytes, bundle: bytes, trusted: bool) -> None:
    assert is_trusted(chain, bundle) is trusted


def test_names_and_fingerprint() -> None:
    assert names_in(certificates(LEAF.certificate)[0]) == ["a.example", "127.0.0.1"]
    assert names_in(certificates(ONE.certificate)[0]) == []
    assert len(fingerprint(LEAF.certificate)) == 64
    assert fingerprint(LEAF.certificate + ONE.certificate) == fingerprint(LEAF.certificate)


@pytest.mark.parametrize("pem", [b"", b"junk"])
def test_text_without_a_certificate_is_an_error(pem: bytes) -> None:
    with pytest.raises(CertificateError, match="no whole PEM certificate"):
        fingerprint(pem)

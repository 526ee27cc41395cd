"""What certificates say."""

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
        pytest.param(LEAF.certificate, ONE.certificate, True, id="its authority"),
        pytest.param(LEAF.certificate, bundled(OTHER, [ONE.certificate], NOW).certificate, True, id="one of several"),
        pytest.param(LEAF.certificate, LEAF.certificate, True, id="itself"),
        pytest.param(LEAF.certificate + ONE.certificate, ONE.certificate, True, id="an authority of the chain"),
        pytest.param(LEAF.certificate, OTHER.certificate, False, id="another authority"),
        pytest.param(LEAF.certificate + ONE.certificate, OTHER.certificate, False, id="a chain that leads nowhere"),
        pytest.param(LEAF.certificate, b"junk", False, id="no authority"),
    ],
)
def test_whom_it_is_trusted_by(chain: bytes, bundle: bytes, trusted: bool) -> None:
    assert is_trusted(chain, bundle) is trusted


def test_what_it_is() -> None:
    assert names_in(certificates(LEAF.certificate)[0]) == ["a.example", "127.0.0.1"]
    assert names_in(certificates(ONE.certificate)[0]) == []
    assert len(fingerprint(LEAF.certificate)) == 64
    assert fingerprint(LEAF.certificate + ONE.certificate) == fingerprint(LEAF.certificate)


@pytest.mark.parametrize("pem", [b"", b"junk"])
def test_what_is_none_is_said(pem: bytes) -> None:
    with pytest.raises(CertificateError, match="no whole PEM certificate"):
        fingerprint(pem)

"""What should stand in the Secret: what is kept, and what is made anew."""

from __future__ import annotations

from datetime import datetime

import pytest
from cryptography import x509

from tests.tls.replicas import CA, GOOD, NAMES, NOW
from webhook.tls.issue import CA_LIFE, LEAF_LIFE, Pair, check_issued, make_ca, make_leaf
from webhook.tls.material import Material, plan


def test_nothing_is_made_anew_while_everything_is_good() -> None:
    assert plan(GOOD, NAMES, NOW + LEAF_LIFE * 0.6) == GOOD


LEAF_ANEW = [
    pytest.param(GOOD, NAMES, NOW + LEAF_LIFE * 0.7, id="a third of its life is left"),
    pytest.param(GOOD, NAMES, NOW + LEAF_LIFE * 2, id="it is over: the clock jumped"),
    pytest.param(GOOD, (*NAMES, "other.svc"), NOW, id="a name is missing"),
    pytest.param(Material(CA, make_leaf(make_ca(NOW), NAMES, NOW)), NAMES, NOW, id="another CA signed it"),
    pytest.param(Material(CA, Pair(GOOD.leaf.certificate, CA.key)), NAMES, NOW, id="the key is not its own"),
    pytest.param(Material(CA, Pair(b"", b"")), NAMES, NOW, id="it is empty"),
]


@pytest.mark.parametrize(("found", "names", "now"), LEAF_ANEW)
def test_a_leaf_is_made_anew_under_the_same_ca(found: Material, names: tuple[str, ...], now: datetime) -> None:
    made = plan(found, names, now)
    assert made.ca == CA
    check_issued(made.leaf, CA.certificate, names, now)


CA_ANEW = [
    pytest.param(None, NOW, id="there is none"),
    pytest.param(Material(GOOD.leaf, GOOD.leaf), NOW, id="it is no CA"),
    pytest.param(Material(Pair(CA.certificate, GOOD.leaf.key), GOOD.leaf), NOW, id="its key is another one's"),
    pytest.param(GOOD, NOW + CA_LIFE, id="it is over"),
]


@pytest.mark.parametrize(("found", "now"), CA_ANEW)
def test_a_ca_that_cannot_sign_is_replaced(found: Material | None, now: datetime) -> None:
    made = plan(found, NAMES, now)
    assert len(x509.load_pem_x509_certificates(made.ca.certificate)) == 1
    check_issued(made.leaf, made.ca.certificate, NAMES, now)


def test_a_ca_that_ends_soon_is_followed_by_another_and_stays_in_the_bundle() -> None:
    late = NOW + CA_LIFE * 0.7
    made = plan(GOOD, NAMES, late)
    first, second = x509.load_pem_x509_certificates(made.ca.certificate)
    assert second == x509.load_pem_x509_certificate(CA.certificate)
    assert first != second
    check_issued(made.leaf, made.ca.certificate, NAMES, late)
    assert plan(made, NAMES, late) == made

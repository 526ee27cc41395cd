"""The content that the Secret should have: the parts that are kept, and those that are replaced."""

from datetime import datetime

import pytest
from cryptography import x509

from tests.tls.replicas import CA, GOOD, NAMES, NOW
from webhook.tls.issue import CA_LIFE, LEAF_LIFE, Pair, is_issued, make_ca, make_leaf
from webhook.tls.material import Material, desired_material, read


@pytest.mark.parametrize(
    "data", [None, {"tls.crt": "eA=="}, {"ca.crt": "%%%", "ca.key": "", "tls.crt": "", "tls.key": ""}]
)
def test_of_a_secret_without_all_parts_nothing_is_used(data: dict[str, str] | None) -> None:
    assert read({"data": data}) is None


def test_good_material_is_kept() -> None:
    assert desired_material(GOOD, NAMES, NOW + LEAF_LIFE * 0.6) == GOOD


NEW_LEAF = [
    pytest.param(GOOD, NAMES, NOW + LEAF_LIFE * 0.7, id="a third of its life is left"),
    pytest.param(GOOD, NAMES, NOW + LEAF_LIFE * 2, id="it has expired: the clock jumped"),
    pytest.param(GOOD, (*NAMES, "other.svc"), NOW, id="a name is missing"),
    pytest.param(Material(CA, make_leaf(make_ca(NOW), NAMES, NOW)), NAMES, NOW, id="another CA signed it"),
    pytest.param(
        Material(CA, Pair(GOOD.leaf.certificate, CA.key)), NAMES, NOW, id="it has the key of another certificate"
    ),
    pytest.param(Material(CA, Pair(b"", b"")), NAMES, NOW, id="it is empty"),
]


@pytest.mark.parametrize(("stored", "names", "now"), NEW_LEAF)
def test_a_bad_leaf_is_replaced_and_the_ca_stays(stored: Material, names: tuple[str, ...], now: datetime) -> None:
    desired = desired_material(stored, names, now)
    assert desired.ca == CA
    assert desired.leaf != stored.leaf
    assert is_issued(desired.leaf, CA.certificate, names, now)


NEW_CA = [
    pytest.param(None, NOW, id="there is none"),
    pytest.param(Material(GOOD.leaf, GOOD.leaf), NOW, id="it is no CA"),
    pytest.param(
        Material(Pair(CA.certificate, GOOD.leaf.key), GOOD.leaf), NOW, id="it has the key of another certificate"
    ),
    pytest.param(GOOD, NOW + CA_LIFE, id="it has expired"),
]


@pytest.mark.parametrize(("stored", "now"), NEW_CA)
def test_a_ca_that_cannot_sign_is_replaced(stored: Material | None, now: datetime) -> None:
    desired = desired_material(stored, NAMES, now)
    assert len(x509.load_pem_x509_certificates(desired.ca.certificate)) == 1
    assert is_issued(desired.leaf, desired.ca.certificate, NAMES, now)


def test_a_ca_that_ends_soon_is_replaced_and_stays_in_the_bundle() -> None:
    late = NOW + CA_LIFE * 0.7
    desired = desired_material(GOOD, NAMES, late)
    first, second = x509.load_pem_x509_certificates(desired.ca.certificate)
    assert second == x509.load_pem_x509_certificate(CA.certificate)
    assert first != second
    assert is_issued(desired.leaf, desired.ca.certificate, NAMES, late)
    assert desired_material(desired, NAMES, late) == desired

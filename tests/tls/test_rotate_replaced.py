"""No call fails when a CA is replaced, whoever replaces it."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from tests.tls.replicas import (
    CA,
    GOOD,
    MUTATING,
    NAMES,
    NOW,
    SECRET,
    VALIDATING,
    Api,
    replica,
    rotate,
    served,
    split,
    trusted_everywhere,
)
from webhook.tls.issue import CA_LIFE, Pair, check_issued, make_ca, make_leaf
from webhook.tls.material import Material, desired_material, secret_data
from webhook.tls.rotate import PROPAGATION


async def test_a_leaf_of_a_new_ca_is_served_only_after_its_bundle_was_in_place_for_ten_seconds() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 0.66)
    old, later = served(live), NOW + CA_LIFE * 0.68
    assert "a CA and a leaf made and written to the Secret" in await keeper.round(later)
    for seconds in (0, 5, 9):
        await keeper.round(later + timedelta(seconds=seconds))
        assert served(live) == old
    await keeper.round(later + PROPAGATION)
    assert served(live).certificate == api.secret("tls.crt")


async def test_after_a_bundle_was_emptied_the_ten_seconds_begin_again() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 0.66)
    old, later = served(live), NOW + CA_LIFE * 0.68
    await keeper.round(later)
    del api.objects[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"]
    await keeper.round(later + PROPAGATION)
    assert served(live) == old
    await keeper.round(later + 2 * PROPAGATION)
    assert served(live) != old


BACKUP = make_ca(NOW - timedelta(days=9))
REPLACED = [
    pytest.param(None, id="emptied"),
    pytest.param(Material(Pair(b"x", b"x"), Pair(b"x", b"x")), id="garbage"),
    pytest.param(Material(make_ca(NOW - 2 * CA_LIFE), GOOD.leaf), id="expired"),
    pytest.param(Material(Pair(CA.certificate, GOOD.leaf.key), GOOD.leaf), id="the key of another certificate"),
    pytest.param(Material(BACKUP, make_leaf(BACKUP, NAMES, NOW)), id="a valid backup"),
]


@pytest.mark.parametrize("data", REPLACED)
@pytest.mark.parametrize("replicas", [1, 2, 3])
async def test_a_replaced_ca_stays_trusted_until_no_replica_serves_its_leaf(
    data: Material | None, replicas: int
) -> None:
    api = Api()
    started = [replica(api) for _ in range(replicas)]
    await rotate(api, started, NOW, 15)
    before = api.secret("ca.crt")
    day = NOW + timedelta(days=1)
    await rotate(api, started, day, 10)
    api.store(SECRET, {**api.objects[SECRET], "data": secret_data(data) if data else {}})
    await rotate(api, started, day, 10)
    assert before in split(api.secret("ca.crt"))
    assert api.secret("ca.crt") != before
    await rotate(api, started, day + timedelta(seconds=10), 20)
    assert {served(live).certificate for _, live in started} == {api.secret("tls.crt")}
    assert before in split(api.secret("ca.crt"))
    await rotate(api, started, day + timedelta(minutes=62), 10)
    assert len(split(api.secret("ca.crt"))) == 1
    assert before not in api.bundles()


async def test_an_unused_older_ca_that_an_operator_removes_stays_removed() -> None:
    api = Api()
    started = [replica(api) for _ in range(2)]
    await rotate(api, started, NOW, 10)
    day = NOW + timedelta(days=1)
    api.store(SECRET, {**api.objects[SECRET], "data": {}})
    await rotate(api, started, day, 30)
    current = split(api.secret("ca.crt"))[0]
    api.objects[SECRET]["data"]["ca.crt"] = b64encode(current).decode()
    await rotate(api, started, day + timedelta(minutes=1), 15)
    assert api.secret("ca.crt") == current
    assert set(api.bundles()) == {current}


async def test_a_new_replica_keeps_the_bundles_of_the_hooks_and_waits_before_it_serves() -> None:
    api = Api()
    old, live = replica(api)
    await old.round(NOW)
    before = api.secret("ca.crt")
    day = NOW + timedelta(days=1)
    api.store(SECRET, {**api.objects[SECRET], "data": {}})
    malformed = b64encode(before[:200]).decode()  # a malformed bundle in one hook does not affect the others
    api.objects[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"] = malformed
    new, fresh = replica(api)
    await new.round(day)
    trusted_everywhere(api, live, day)
    assert before in split(api.secret("ca.crt"))
    assert fresh.ends is None, "API servers do not know the new CA yet"
    await new.round(day + PROPAGATION)
    assert served(fresh).certificate == api.secret("tls.crt")


async def test_a_replica_adds_the_ca_of_its_leaf_to_the_bundle_of_a_new_replica() -> None:
    """The Secret and the configurations were emptied, and a new replica, which did not know the old CA, filled them first."""
    api = Api()
    old, live = replica(api)
    await old.round(NOW)
    day = NOW + timedelta(days=1)
    api.store(SECRET, {**api.objects[SECRET], "data": {}})
    for path in (MUTATING, VALIDATING):
        for hook in api.objects[path]["webhooks"]:
            del hook["clientConfig"]["caBundle"]
    new, _ = replica(api)
    await new.round(day)
    assert "the authorities that may be served written to the Secret" in await old.round(day)
    trusted_everywhere(api, live, day)
    assert await new.round(day + timedelta(seconds=5)) == []
    assert await old.round(day + timedelta(seconds=5)) == []


async def test_however_often_the_secret_is_emptied_there_is_one_new_ca_an_hour() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    day = NOW + timedelta(days=1)
    seen = set()
    for minute in range(59):
        api.store(SECRET, {**api.objects[SECRET], "data": {}})
        await keeper.round(day + timedelta(minutes=minute))
        trusted_everywhere(api, live, day)
        seen.add(api.secret("ca.key"))
    assert len(seen) == 1


async def test_a_ca_with_an_rsa_key_is_replaced_when_a_leaf_is_due() -> None:
    other = trustme.CA(key_type=trustme.KeyType.RSA)
    ca = Pair(other.cert_pem.bytes(), other.private_key_pem.bytes())
    now = datetime.now(UTC)
    desired = desired_material(Material(ca, Pair(b"", b"")), NAMES, now)
    check_issued(desired.leaf, desired.ca.certificate, NAMES, now)
    assert ca.certificate in split(desired.ca.certificate)

"""Rounds fill and repair the Secret and the bundles, and several replicas agree on one CA."""

import asyncio
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
from webhook.errors import ApiError
from webhook.tls.issue import CA_LIFE, Pair, is_issued, make_ca, make_leaf
from webhook.tls.material import Material, desired_material, secret_data
from webhook.tls.rotate import PROPAGATION


async def test_the_first_round_makes_everything_and_serves_it() -> None:
    api = Api()
    keeper, live = replica(api)
    done = await keeper.round(NOW)
    assert done == [
        "a CA and a leaf made and written to the Secret",
        "caBundle written in mutatingwebhookconfigurations",
        "caBundle written in validatingwebhookconfigurations",
        "a certificate that ends 2026-03-31 12:00 UTC is served",
    ]
    assert api.bundles() == [api.secret("ca.crt")] * 3
    assert served(live) == Pair(api.secret("tls.crt"), api.secret("tls.key"))
    assert is_issued(served(live), api.secret("ca.crt"), NAMES, NOW)


async def test_a_round_with_nothing_to_do_writes_nothing() -> None:
    api = Api()
    keeper, _ = replica(api)
    await keeper.round(NOW)
    api.writes.clear()
    assert await keeper.round(NOW + timedelta(days=1)) == []
    assert api.writes == []


@pytest.mark.parametrize("replicas", [2, 5])
async def test_replicas_that_start_together_agree_on_one_ca(replicas: int) -> None:
    api = Api()
    started = [replica(api) for _ in range(replicas)]
    for _ in range(3):
        await asyncio.gather(*(keeper.round(NOW) for keeper, _ in started))
    assert api.writes.count(SECRET) == 1
    assert {served(live).certificate for _, live in started} == {api.secret("tls.crt")}
    assert set(api.bundles()) == {api.secret("ca.crt")}


async def test_an_emptied_bundle_is_written_again_and_the_rest_of_the_hook_stays() -> None:
    api = Api()
    keeper, _ = replica(api)
    await keeper.round(NOW)
    hooks = api.objects[VALIDATING]["webhooks"]
    del hooks[1]["clientConfig"]["caBundle"]
    hooks[0]["failurePolicy"] = "Fail"
    assert await keeper.round(NOW) == ["caBundle written in validatingwebhookconfigurations"]
    assert set(api.bundles()) == {api.secret("ca.crt")}
    assert api.objects[VALIDATING]["webhooks"][0]["failurePolicy"] == "Fail"
    assert api.objects[VALIDATING]["webhooks"][0]["clientConfig"]["service"] == {"name": "x"}


async def test_without_the_secret_the_served_pair_stays() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    before, kept = served(live), api.objects.pop(SECRET)
    with pytest.raises(ApiError, match="404"):
        await keeper.round(NOW)
    assert served(live) == before
    api.objects[SECRET] = kept
    assert await keeper.round(NOW) == []


async def test_when_the_served_leaf_has_expired_the_new_one_is_served_at_once() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 2)
    assert served(live).certificate == api.secret("tls.crt")


async def test_without_the_configurations_a_leaf_is_served_and_later_the_bundle_is_written() -> None:
    api = Api()
    kept = {path: api.objects.pop(path) for path in (MUTATING, VALIDATING)}
    keeper, live = replica(api)
    await keeper.round(NOW)
    assert served(live)
    api.objects.update(kept)
    await keeper.round(NOW)
    assert set(api.bundles()) == {api.secret("ca.crt")}


# --- a CA is replaced: no call fails, whoever replaces it ------------------------------------------------------------


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
    await keeper.round(later + PROPAGATION)
    await keeper.round(later + 2 * PROPAGATION)
    assert served(live) != old


async def test_the_ten_seconds_begin_when_the_bundle_is_found_in_place() -> None:
    """The round that writes it may take longer than that."""
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 0.66)
    old, later = served(live), NOW + CA_LIFE * 0.68
    await keeper.round(later)
    found = later + PROPAGATION + timedelta(seconds=1)
    await keeper.round(found)
    assert served(live) == old
    await keeper.round(found + PROPAGATION)
    assert served(live).certificate == api.secret("tls.crt")


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
    api.store(SECRET, {**api.objects[SECRET], "data": {**(secret_data(data) if data else {}), "theirs": "eA=="}})
    await rotate(api, started, day, 10)
    assert before in split(api.secret("ca.crt"))
    assert api.secret("ca.crt") != before
    assert api.objects[SECRET]["data"]["theirs"] == "eA=="
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
    for later in (timedelta(), PROPAGATION / 2):
        await new.round(day + later)
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
    assert is_issued(desired.leaf, desired.ca.certificate, NAMES, now)
    assert ca.certificate in split(desired.ca.certificate)

"""Rounds fill and repair the Secret and the bundles, and several replicas agree on one CA."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from datetime import timedelta

import pytest

from tests.tls.replicas import (
    MUTATING,
    NAMES,
    NOW,
    SECRET,
    VALIDATING,
    Api,
    replica,
    served,
    trusted_everywhere,
)
from webhook.errors import ApiError
from webhook.tls.issue import CA_LIFE, LEAF_LIFE, Pair, check_issued


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
    check_issued(served(live), api.secret("ca.crt"), NAMES, NOW)


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


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"ca.crt": "%%%", "ca.key": "", "tls.crt": "", "tls.key": ""}, id="not base64"),
        pytest.param({"tls.crt": b64encode(b"x").decode()}, id="parts are missing"),
        pytest.param({k: b64encode(b"junk").decode() for k in ("ca.crt", "ca.key", "tls.crt", "tls.key")}, id="junk"),
    ],
)
async def test_a_broken_secret_is_repaired_and_its_other_keys_stay(data: dict[str, str]) -> None:
    api = Api()
    secret = api.objects[SECRET]
    api.store(SECRET, {**secret, "data": {**data, "theirs": "eA=="}})
    keeper, live = replica(api)
    await keeper.round(NOW)
    check_issued(served(live), api.secret("ca.crt"), NAMES, NOW)
    assert api.objects[SECRET]["data"]["theirs"] == "eA=="


async def test_without_the_secret_an_emptied_bundle_is_still_written_again() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    kept = api.objects.pop(SECRET)
    del api.objects[VALIDATING]["webhooks"][1]["clientConfig"]["caBundle"]
    assert await keeper.round(NOW) == ["caBundle written in validatingwebhookconfigurations"]
    trusted_everywhere(api, live, NOW)
    with pytest.raises(ApiError, match="404"):
        await keeper.round(NOW)
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


async def test_configurations_that_somebody_else_keeps_are_left_alone() -> None:
    api = Api()
    keeper, live = replica(api, configuration="")
    await keeper.round(NOW)
    await keeper.round(NOW + LEAF_LIFE * 0.7)
    assert api.bundles() == [None] * 3
    assert served(live).certificate == api.secret("tls.crt")


async def test_a_missing_secret_is_an_error_and_the_served_pair_stays() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    before = served(live)
    del api.objects[SECRET]
    with pytest.raises(ApiError, match="404"):
        await keeper.round(NOW)
    assert served(live) == before

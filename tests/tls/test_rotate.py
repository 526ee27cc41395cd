"""The Secret and the bundles: what is made, what is mended, what several replicas at once agree on."""

from __future__ import annotations

import asyncio
import copy
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from webhook.errors import ApiError
from webhook.tls.issue import CA_LIFE, LEAF_LIFE, Pair, check_issued, make_ca, make_leaf, service_names
from webhook.tls.material import Material, plan
from webhook.tls.rotate import Keeper
from webhook.tls.serve import LiveContext

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = service_names("gpu-admission", "gpu-admission")
SECRET = "/api/v1/namespaces/gpu-admission/secrets/gpu-admission-tls"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{REGISTRATION}/mutatingwebhookconfigurations/gpu-admission"
VALIDATING = f"{REGISTRATION}/validatingwebhookconfigurations/gpu-admission"


class Api:
    """Objects with versions. Every call gives way once, so that replicas run into each other."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.store(SECRET, {"metadata": {"name": "gpu-admission-tls"}, "type": "Opaque"})
        for path, names in ((MUTATING, ["mutate"]), (VALIDATING, ["validate", "validate-labels"])):
            hooks = [{"name": name, "clientConfig": {"service": {"name": "x"}}} for name in names]
            self.store(path, {"metadata": {"name": "gpu-admission"}, "webhooks": hooks})

    def store(self, path: str, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = copy.deepcopy(obj)

    async def get(self, path: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        if path not in self.objects:
            raise ApiError(404, f"GET {path}: 404")
        return copy.deepcopy(self.objects[path])

    async def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if obj["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            raise ApiError(409, f"PUT {path}: 409")
        self.store(path, obj)
        self.writes.append(path)
        return obj

    def bundles(self) -> list[bytes | None]:
        hooks = [hook for path in (MUTATING, VALIDATING) for hook in self.objects[path]["webhooks"]]
        return [b64decode(b) if (b := hook["clientConfig"].get("caBundle")) else None for hook in hooks]

    def secret(self, key: str) -> bytes:
        return b64decode(self.objects[SECRET]["data"][key])


def replica(api: Api, configuration: str = "gpu-admission") -> tuple[Keeper, LiveContext]:
    live = LiveContext()
    keeper = Keeper(
        api, live, NAMES, namespace="gpu-admission", secret="gpu-admission-tls", configuration=configuration
    )
    return keeper, live


def served(live: LiveContext) -> Pair:
    assert live._pair is not None
    return live._pair


# --- what should stand in the Secret --------------------------------------------------------------------------------

CA = make_ca(NOW)
GOOD = Material(CA, make_leaf(CA, NAMES, NOW))


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


# --- rounds -----------------------------------------------------------------------------------------------------------


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


async def test_a_blanked_bundle_is_written_again_and_nothing_else_of_the_hook_changes() -> None:
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
async def test_a_broken_secret_is_healed_and_keys_of_others_in_it_stay(data: dict[str, str]) -> None:
    api = Api()
    secret = api.objects[SECRET]
    api.store(SECRET, {**secret, "data": {**data, "theirs": "eA=="}})
    keeper, live = replica(api)
    await keeper.round(NOW)
    check_issued(served(live), api.secret("ca.crt"), NAMES, NOW)
    assert api.objects[SECRET]["data"]["theirs"] == "eA=="


async def test_a_leaf_of_a_new_ca_is_served_only_after_its_bundle_stood_for_a_round() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 0.66)
    old, later = served(live), NOW + CA_LIFE * 0.68
    assert "a CA and a leaf made and written to the Secret" in await keeper.round(later)
    assert served(live) == old
    assert await keeper.round(later + timedelta(seconds=5)) == []
    assert served(live) == old
    await keeper.round(later + timedelta(seconds=10))
    assert served(live).certificate == api.secret("tls.crt")


async def test_nothing_good_to_serve_is_worse_than_a_bundle_that_is_late() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    await keeper.round(NOW + CA_LIFE * 2)
    assert served(live).certificate == api.secret("tls.crt")


async def test_without_the_configurations_it_serves_all_the_same_and_points_them_when_they_come() -> None:
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


async def test_a_secret_that_is_not_there_is_an_error_and_the_pair_that_is_served_stays() -> None:
    api = Api()
    keeper, live = replica(api)
    await keeper.round(NOW)
    before = served(live)
    del api.objects[SECRET]
    with pytest.raises(ApiError, match="404"):
        await keeper.round(NOW)
    assert served(live) == before

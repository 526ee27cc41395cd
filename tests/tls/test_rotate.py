"""The Secret and the bundles: what is made, what is mended, what several replicas at once agree on.

Covers tls.material.
"""

from __future__ import annotations

import asyncio
import copy
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.errors import ApiError, CertificateError
from webhook.tls.issue import CA_LIFE, LEAF_LIFE, Pair, check_issued, make_ca, make_leaf, service_names
from webhook.tls.material import Material, plan, written
from webhook.tls.rotate import PROPAGATION, Keeper
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


async def rotate(api: Api, started: list[tuple[Keeper, LiveContext]], begin: datetime, seconds: int) -> None:
    """Rounds of all replicas, each five seconds; none serves what the hooks do not trust."""
    for second in range(0, seconds, 5):
        for keeper, live in started:
            await keeper.round(begin + timedelta(seconds=second))
            trusted_everywhere(api, live, begin)


def trusted_everywhere(api: Api, live: LiveContext, now: datetime) -> None:
    for bundle in api.bundles():
        assert bundle is not None
        authorities = [Pair(each, b"") for each in split(bundle)]
        assert any(signed(served(live), each.certificate, now) for each in authorities)


def split(bundle: bytes) -> list[bytes]:
    return [c.public_bytes(Encoding.PEM) for c in x509.load_pem_x509_certificates(bundle)]


def signed(leaf: Pair, ca: bytes, now: datetime) -> bool:
    try:
        check_issued(leaf, ca, NAMES, now)
    except CertificateError:
        return False
    return True


async def test_a_leaf_of_a_new_ca_is_served_only_after_its_bundle_stood_for_ten_seconds() -> None:
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


async def test_a_bundle_that_was_blanked_meanwhile_has_to_stand_anew() -> None:
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
    pytest.param(Material(Pair(CA.certificate, GOOD.leaf.key), GOOD.leaf), id="the key is another one's"),
    pytest.param(Material(BACKUP, make_leaf(BACKUP, NAMES, NOW)), id="of a backup, and good"),
]


@pytest.mark.parametrize("data", REPLACED)
@pytest.mark.parametrize("replicas", [1, 2, 3])
async def test_a_ca_that_is_replaced_stays_trusted_until_every_replica_has_left_it(
    data: Material | None, replicas: int
) -> None:
    api = Api()
    started = [replica(api) for _ in range(replicas)]
    await rotate(api, started, NOW, 15)
    before = api.secret("ca.crt")
    day = NOW + timedelta(days=1)
    await rotate(api, started, day, 10)
    api.store(SECRET, {**api.objects[SECRET], "data": written(data) if data else {}})
    await rotate(api, started, day, 10)
    assert before in split(api.secret("ca.crt"))
    assert api.secret("ca.crt") != before
    await rotate(api, started, day + timedelta(seconds=10), 20)
    assert {served(live).certificate for _, live in started} == {api.secret("tls.crt")}
    assert before in split(api.secret("ca.crt"))
    await rotate(api, started, day + timedelta(minutes=62), 10)
    assert len(split(api.secret("ca.crt"))) == 1
    assert before not in api.bundles()


async def test_an_older_ca_that_an_operator_takes_out_once_nobody_serves_it_stays_out() -> None:
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


async def test_who_starts_anew_trusts_what_the_hooks_trust_and_waits_as_the_others_do() -> None:
    api = Api()
    old, live = replica(api)
    await old.round(NOW)
    before = api.secret("ca.crt")
    day = NOW + timedelta(days=1)
    api.store(SECRET, {**api.objects[SECRET], "data": {}})
    torn = b64encode(before[:200]).decode()  # what stands in one hook takes nothing from the others
    api.objects[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"] = torn
    new, fresh = replica(api)
    await new.round(day)
    trusted_everywhere(api, live, day)
    assert before in split(api.secret("ca.crt"))
    assert fresh.ends is None, "API servers do not know its authority yet"
    await new.round(day + PROPAGATION)
    assert served(fresh).certificate == api.secret("tls.crt")


async def test_a_bundle_written_by_who_knew_nothing_gets_back_what_is_served() -> None:
    """The Secret and the configurations were emptied together, and a new replica was quicker."""
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


async def test_who_empties_the_secret_again_and_again_gets_one_new_ca_an_hour() -> None:
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


async def test_a_foreign_ca_whose_key_cannot_sign_for_us_is_replaced_when_a_leaf_is_due() -> None:
    other = trustme.CA(key_type=trustme.KeyType.RSA)
    ca = Pair(other.cert_pem.bytes(), other.private_key_pem.bytes())
    now = datetime.now(UTC)
    made = plan(Material(ca, Pair(b"", b"")), NAMES, now)
    check_issued(made.leaf, made.ca.certificate, NAMES, now)
    assert ca.certificate in split(made.ca.certificate)


async def test_without_the_secret_a_blanked_bundle_is_written_all_the_same() -> None:
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

"""A simulated API server with a Secret and two webhook configurations, and replicas that rotate the certificates."""

import asyncio
import copy
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from webhook.errors import ApiError
from webhook.tls.issue import Pair, is_issued, make_ca, make_leaf, service_names
from webhook.tls.material import Material
from webhook.tls.rotate import Keeper
from webhook.tls.serve import LiveContext

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = service_names("gpu-admission", "gpu-admission")
SECRET = "/api/v1/namespaces/gpu-admission/secrets/gpu-admission-tls"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{REGISTRATION}/mutatingwebhookconfigurations/gpu-admission"
VALIDATING = f"{REGISTRATION}/validatingwebhookconfigurations/gpu-admission"
CA = make_ca(NOW)
GOOD = Material(CA, make_leaf(CA, NAMES, NOW))


class Api:
    """Objects with versions. Each call yields once to the event loop, so that replicas get conflicts."""

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


async def rotate(api: Api, started: list[tuple[Keeper, LiveContext]], begin: datetime, seconds: int) -> None:
    """Do rounds of all replicas every five seconds. After each one, the hooks must trust the served leaf."""
    for second in range(0, seconds, 5):
        for keeper, live in started:
            await keeper.round(begin + timedelta(seconds=second))
            trusted_everywhere(api, live, begin)


def trusted_everywhere(api: Api, live: LiveContext, now: datetime) -> None:
    for bundle in api.bundles():
        assert bundle is not None
        assert any(is_issued(served(live), each, NAMES, now) for each in split(bundle))


def split(bundle: bytes) -> list[bytes]:
    return [c.public_bytes(Encoding.PEM) for c in x509.load_pem_x509_certificates(bundle)]

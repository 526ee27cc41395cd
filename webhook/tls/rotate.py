"""The Secret is the truth: replicas make what is missing in it, serve what stands in it, and point the hooks at its CA.

One round looks at everything and mends what is wrong, so it does not matter what happened in between, or who did it:

    1. read the Secret; where it lacks a CA or a leaf, or they end soon, make them and write it back. A conflict means
       that another replica was quicker: the next round takes what it wrote.
    2. write the CA into `caBundle` of every webhook in both configurations, where another one stands there.
    3. serve the leaf. That of a new CA waits for a round in which the bundle stands everywhere since the round before:
       API servers learn of it by a watch of their own, and one that does not know the CA yet would not call us.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from webhook.errors import ApiError, CertificateError
from webhook.tls.issue import Pair, bundled, check_ca, check_issued, make_ca, make_leaf, renewal
from webhook.tls.serve import LiveContext

ROUND_SECONDS: Final = 5.0
"""Between two rounds: so soon `caBundle` is back when somebody applies the manifests again."""
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_MOST_TRIES = 5


class Client(Protocol):
    """What is needed of the API server. Failures raise ApiError."""

    async def get(self, path: str) -> dict[str, Any]: ...

    async def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]: ...


class Material(NamedTuple):
    """What stands in the Secret. The certificate of the CA may be a bundle: the current one first."""

    ca: Pair
    leaf: Pair


def plan(found: Material | None, names: Iterable[str], now: datetime) -> Material:
    """What should stand in the Secret: equal to `found` where nothing is wrong with that. Not deterministic: new keys."""
    names = tuple(names)
    try:
        if found is None:
            raise CertificateError("there is none yet")
        check_ca(found.ca, now)
    except CertificateError:
        ca = make_ca(now)
        return Material(ca, make_leaf(ca, names, now))
    if now >= renewal(found.ca.certificate):
        ca = bundled(make_ca(now), found.ca.certificate, now)
        return Material(ca, make_leaf(ca, names, now))
    try:
        check_issued(found.leaf, found.ca.certificate, names, now)
        if now < renewal(found.leaf.certificate):
            return found
    except CertificateError:
        pass
    return Material(found.ca, make_leaf(found.ca, names, now))


class Keeper:
    """Keeps the Secret, both configurations and the live context right, one `round` at a time."""

    def __init__(
        self,
        client: Client,
        live: LiveContext,
        names: Iterable[str],
        *,
        namespace: str,
        secret: str,
        configuration: str,
    ) -> None:
        """`configuration`: the name of both webhook configurations; empty where somebody else writes caBundle."""
        self._client, self._live, self._names = client, live, tuple(names)
        self._secret = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
        self._configurations = (
            [f"/apis/admissionregistration.k8s.io/v1/{kind}/{configuration}" for kind in _CONFIGURATIONS]
            if configuration
            else []
        )
        self._trusted = b""
        """The bundle that stood in every configuration when we last looked."""

    async def round(self, now: datetime) -> list[str]:
        """What was mended, for the log. Raises ApiError or CertificateError; the next round tries again."""
        done: list[str] = []
        material = await self._settled(now, done)
        bundle = material.ca.certificate
        before, self._trusted = self._trusted, bundle
        for path in self._configurations:
            if not await self._point(path, bundle, done):
                self._trusted = b""
        known = before == self._trusted == bundle
        if (known or self._live.seconds_left(now) <= 0) and self._live.swap(material.leaf, now):
            done.append(f"a certificate that ends {self._live.ends:%Y-%m-%d %H:%M} UTC is served")
        return done

    async def _settled(self, now: datetime, done: list[str]) -> Material:
        """What stands in the Secret, after it was mended. Several replicas at once agree on what was written first."""
        for _ in range(_MOST_TRIES):
            secret = await self._client.get(self._secret)
            found = _read(secret)
            wanted = plan(found, self._names, now)
            if wanted == found:
                return wanted
            secret["data"] = {**(secret.get("data") or {}), **_written(wanted)}
            try:
                await self._client.put(self._secret, secret)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue
            made = "a leaf" if found is not None and found.ca == wanted.ca else "a CA and a leaf"
            done.append(f"{made} made and written to the Secret")
            return wanted
        raise ApiError(
            HTTPStatus.CONFLICT, f"PUT {self._secret}: changed by somebody else {_MOST_TRIES} times in a row"
        )

    async def _point(self, path: str, bundle: bytes, done: list[str]) -> bool:
        """Write `bundle` into one configuration. False where another one stood there, or there is no configuration."""
        try:
            configuration = await self._client.get(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False
        wanted = b64encode(bundle).decode()
        clients = [webhook["clientConfig"] for webhook in configuration.get("webhooks") or ()]
        if all(client.get("caBundle") == wanted for client in clients):
            return True
        for client in clients:
            client["caBundle"] = wanted
        try:
            await self._client.put(path, configuration)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # of a conflict the next round sees the outcome
                raise
        else:
            done.append(f"caBundle written in {path.split('/')[-2]}")
        return False


def _read(secret: Mapping[str, Any]) -> Material | None:
    """None where a part is missing or is not base64."""
    data = secret.get("data") or {}
    try:
        parts = [b64decode(data[key], validate=True) for key in (_CA, _CA_KEY, _LEAF, _LEAF_KEY)]
    except (KeyError, TypeError, ValueError):
        return None
    return Material(Pair(parts[0], parts[1]), Pair(parts[2], parts[3]))


def _written(material: Material) -> dict[str, str]:
    (ca, ca_key), (leaf, leaf_key) = ((pair.certificate, pair.key) for pair in material)
    return {
        key: b64encode(part).decode()
        for key, part in ((_CA, ca), (_CA_KEY, ca_key), (_LEAF, leaf), (_LEAF_KEY, leaf_key))
    }


_CA, _CA_KEY, _LEAF, _LEAF_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"

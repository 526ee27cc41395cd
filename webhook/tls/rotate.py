"""Rotates the certificates. All replicas share one Secret: they fill it, serve its leaf, and write its CA bundle into caBundle.

A round checks everything and repairs what is wrong, whatever has happened since the last round:

    1. Read the Secret. If its CA or leaf is missing or ends soon, make a new one and write it back. A conflict means that another
       replica has written first: read the Secret again.
    2. Write the bundle of the Secret into `caBundle` of every webhook in both configurations where it differs.
    3. Serve the leaf. The leaf of a new CA is served only after its bundle has been in place for PROPAGATION: API servers
       learn of it by a watch, and one that does not know the CA yet would refuse the connection.

No call fails while a CA is replaced, whatever was done to the Secret, because the bundle keeps every CA whose leaf may still be
served: each replica adds the CA of the leaf that it serves, and a replica that makes a new CA without serving any adds those in
the configurations. Older CAs are removed OVERLAP after the last change, when every replica serves the new leaf.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from webhook.errors import ApiError
from webhook.tls.issue import Pair, authorities, issued_at
from webhook.tls.material import OVERLAP, Material, desired_material, read, secret_data
from webhook.tls.serve import LiveContext

ROUND_SECONDS: Final = 5.0
"""Time between two rounds. A watch of the configurations starts a round at once when a `caBundle` changes."""
PROPAGATION = timedelta(seconds=10)
"""Time for API servers to learn of a bundle. Their watch takes milliseconds, or seconds if it has to start again."""
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATION_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_MAX_TRIES = 5


class Client(Protocol):
    """The client of the API server. Failures raise ApiError."""

    async def get(self, path: str) -> dict[str, Any]: ...

    async def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]: ...


class Keeper:
    """Keeps the Secret, both webhook configurations and the served pair up to date, by one `round` after another."""

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
        """`configuration`: the name of both webhook configurations."""
        self._client, self._live, self._names = client, live, tuple(names)
        self._secret = f"/api/v1/namespaces/{namespace}/secrets/{secret}"
        self.configuration = configuration
        self._paths = [f"{CONFIGURATIONS}/{kind}/{configuration}" for kind in CONFIGURATION_KINDS]
        self._stored: Material | None = None
        """The content of the Secret after the last round."""
        self._unchanged_since: datetime | None = None
        """The time of the last change to the Secret or to a configuration, which is that of the round that finds the bundles in
        place: a round that writes them may take long."""
        self._in_place = False
        """Whether the last round found them."""
        self._authority = b""
        """The CA of the leaf that is served; empty while none is served."""

    def has_bundle(self, configuration: Mapping[str, Any]) -> bool:
        """Whether every webhook of a configuration has the bundle of the last round."""
        return self._stored is not None and _bundles(configuration) <= {_encoded(self._stored.ca.certificate)}

    async def round(self, now: datetime) -> list[str]:
        """Do one round. Returns what was repaired, for the log. Raises ApiError or CertificateError."""
        done: list[str] = []
        answers = [(path, await self._get(path)) for path in self._paths]
        configurations = [(path, configuration) for path, configuration in answers if configuration is not None]
        before = self._stored
        material = await self._repaired_secret(now, [configuration for _, configuration in configurations], done)
        self._stored = material
        bundle_written = all(
            [await self._write_bundle(*target, material.ca.certificate, done) for target in configurations]
        )
        if self._unchanged_since is None or material != before or not (self._in_place and bundle_written):
            self._unchanged_since = now
        self._in_place = bundle_written
        if self._may_serve(material, now, bundle_written) and self._live.swap(material.leaf, now):
            self._authority = authorities(material.ca.certificate)[0]
            done.append(f"a certificate that ends {self._live.ends:%Y-%m-%d %H:%M} UTC is served")
        return done

    def _may_serve(self, material: Material, now: datetime, bundle_written: bool) -> bool:
        """Whether API servers trust the new leaf, or no valid one is served. `bundle_written`: the hooks have its bundle."""
        current, *older = authorities(material.ca.certificate)
        if self._authority:
            trusted = current == self._authority or self._live.seconds_left(now) <= 0
        else:  # this replica is not ready, so it can wait; other replicas may serve leaves of the older CAs
            trusted = not older or (bundle_written and now >= issued_at(current) + PROPAGATION)
        return trusted or (self._unchanged_since is not None and now >= self._unchanged_since + PROPAGATION)

    async def _repaired_secret(self, now: datetime, hooks: list[dict[str, Any]], done: list[str]) -> Material:
        """The content of the Secret after its repair. If several replicas repair it at once, all use what was written first."""
        serves = self._authority if self._live.seconds_left(now) > 0 else b""
        by_hooks = [_decoded(bundle) for hook in hooks for bundle in sorted(_bundles(hook))]
        for _ in range(_MAX_TRIES):
            secret = await self._client.get(self._secret)
            stored = read(secret)
            desired = desired_material(
                self._without_older(stored, now), self._names, now, serves, by_hooks, self._stored
            )
            if desired == stored:
                return desired
            secret["data"] = {**(secret.get("data") or {}), **secret_data(desired)}
            try:
                await self._client.put(self._secret, secret)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue
            done.append(f"{_changed(stored, self._stored, desired)} written to the Secret")
            return desired
        raise ApiError(HTTPStatus.CONFLICT, f"PUT {self._secret}: changed by somebody else {_MAX_TRIES} times in a row")

    def _without_older(self, stored: Material | None, now: datetime) -> Material | None:
        """`stored`, without its older CAs if nothing has changed for OVERLAP: then no replica serves their leaves."""
        if stored is None or stored != self._stored:
            return stored
        if self._unchanged_since is None or now < self._unchanged_since + OVERLAP:
            return stored
        current, *older = authorities(stored.ca.certificate)
        if not older or current != self._authority:
            return stored
        return stored._replace(ca=Pair(current, stored.ca.key))

    async def _get(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._client.get(path)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None  # without this configuration there are no calls

    async def _write_bundle(self, path: str, configuration: dict[str, Any], bundle: bytes, done: list[str]) -> bool:
        """Write `bundle` into one configuration. False if it had another one."""
        encoded = _encoded(bundle)
        if _bundles(configuration) <= {encoded}:
            return True
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = encoded
        try:
            await self._client.put(path, configuration)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # after a conflict, the next round reads it again
                raise
        else:
            done.append(f"caBundle written in {path.split('/')[-2]}")
        return False


def _bundles(configuration: Mapping[str, Any]) -> set[str]:
    """The values of caBundle in a configuration, "" for a missing one."""
    return {str(webhook["clientConfig"].get("caBundle") or "") for webhook in configuration.get("webhooks") or ()}


def _changed(stored: Material | None, last: Material | None, desired: Material) -> str:
    """The part of the Secret that was written, for the log."""
    if last is not None and desired == last:
        return "the former content"
    if stored is None or stored.ca.key != desired.ca.key:
        return "a CA and a leaf made and"
    if stored.leaf != desired.leaf:
        return "a leaf made and"
    return "the authorities that may be served"


def _encoded(pem: bytes) -> str:
    return b64encode(pem).decode()


def _decoded(bundle: str) -> bytes:
    try:
        return b64decode(bundle, validate=True)
    except ValueError:
        return b""

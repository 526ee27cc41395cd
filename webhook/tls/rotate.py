"""The Secret is the truth: replicas make what is missing in it, serve what stands in it, and write its CA into caBundle.

One round looks at everything and mends what is wrong, so it does not matter what happened in between, or who did it:

    1. read the Secret; where it lacks a CA or a leaf, or they end soon, make them and write it back. A conflict means
       that another replica was quicker: the next round takes what it wrote.
    2. write the bundle of the Secret into `caBundle` of every webhook in both configurations, where another one stands.
    3. serve the leaf. That of a new CA waits until its bundle has stood everywhere for PROPAGATION: API servers learn of it by
       a watch of their own, and one that does not know the CA yet would not call us.

A CA is replaced without a failed call, whatever was done to the Secret, since no authority that may still be served is
taken out of the bundle: each replica adds the one that it serves, and who makes a new CA without having served any adds
what the configurations have. Older ones go OVERLAP after the last change; by then every replica serves the new leaf.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final, Protocol

from webhook.errors import ApiError
from webhook.tls.issue import Pair, authorities, made_at
from webhook.tls.material import OVERLAP, Material, Trusted, plan, read, secret_data
from webhook.tls.serve import LiveContext

ROUND_SECONDS: Final = 5.0
"""Between two rounds. A watch shows a changed `caBundle`, and it is written again at once."""
PROPAGATION = timedelta(seconds=10)
"""How long API servers may take to learn of a bundle: their watch takes milliseconds, or seconds when it begins again."""
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATION_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_MAX_TRIES = 5


class Client(Protocol):
    """What is needed of the API server. Failures raise ApiError."""

    async def get(self, path: str) -> dict[str, Any]: ...

    async def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]: ...


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
        self.configuration = configuration
        self._paths = [f"{CONFIGURATIONS}/{kind}/{configuration}" for kind in CONFIGURATION_KINDS if configuration]
        self._stored: Material | None = None
        """What stood in the Secret when it was last read."""
        self._unchanged_since: datetime | None = None
        """Since when the Secret and every configuration are as they are now."""
        self._authority = b""
        """Of the leaf that is served; empty while there is none."""

    def has_bundle(self, configuration: Mapping[str, Any]) -> bool:
        """Whether a configuration has the bundle of the Secret in every webhook, as far as the last round knows."""
        return self._stored is not None and _bundles(configuration) <= {_encoded(self._stored.ca.certificate)}

    async def round(self, now: datetime) -> list[str]:
        """What was mended, for the log. Raises ApiError or CertificateError; the next round tries again."""
        done: list[str] = []
        answers = [(path, await self._get(path)) for path in self._paths]
        configurations = [(path, configuration) for path, configuration in answers if configuration is not None]
        before = self._stored
        try:
            material = await self._mended_secret(now, [configuration for _, configuration in configurations], done)
        except ApiError:
            if before is None:
                raise
            for path, configuration in configurations:  # without the Secret: only what nobody could call us with
                if not all(self._authority in authorities(_decoded(bundle)) for bundle in _bundles(configuration)):
                    await self._write_bundle(path, configuration, before.ca.certificate, done)
            if not done:
                raise
            return done  # that the Secret cannot be read is said by the next round
        self._stored = material
        bundle_written = all(
            [await self._write_bundle(*target, material.ca.certificate, done) for target in configurations]
        )
        if self._unchanged_since is None or material != before or not bundle_written:
            self._unchanged_since = now
        if self._may_serve(material, now, bundle_written) and self._live.swap(material.leaf, now):
            self._authority = authorities(material.ca.certificate)[0]
            done.append(f"a certificate that ends {self._live.ends:%Y-%m-%d %H:%M} UTC is served")
        return done

    def _may_serve(self, material: Material, now: datetime, bundle_written: bool) -> bool:
        """Whether API servers trust the leaf, or nothing better is served. `bundle_written`: in both configurations."""
        current, *older = authorities(material.ca.certificate)
        if self._authority:
            trusted = current == self._authority or self._live.seconds_left(now) <= 0
        else:  # of another replica older ones may be served; we are not ready yet, and nobody calls us
            trusted = not older or (bundle_written and now >= made_at(current) + PROPAGATION)
        return trusted or (self._unchanged_since is not None and now >= self._unchanged_since + PROPAGATION)

    async def _mended_secret(self, now: datetime, hooks: list[dict[str, Any]], done: list[str]) -> Material:
        """What stands in the Secret, after it was mended. Several replicas at once agree on what was written first."""
        serves = self._authority if self._live.seconds_left(now) > 0 else b""
        trusted = Trusted(serves, tuple(_decoded(bundle) for hook in hooks for bundle in sorted(_bundles(hook))))
        for _ in range(_MAX_TRIES):
            secret = await self._client.get(self._secret)
            stored = read(secret)
            planned = plan(self._without_older(stored, now), self._names, now, trusted, self._stored)
            if planned == stored:
                return planned
            secret["data"] = {**(secret.get("data") or {}), **secret_data(planned)}
            try:
                await self._client.put(self._secret, secret)
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT:
                    raise
                continue
            done.append(f"{_changed(stored, self._stored, planned)} written to the Secret")
            return planned
        raise ApiError(HTTPStatus.CONFLICT, f"PUT {self._secret}: changed by somebody else {_MAX_TRIES} times in a row")

    def _without_older(self, stored: Material | None, now: datetime) -> Material | None:
        """`stored`, or that without its older authorities, once nothing has changed for so long that no replica serves them."""
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
            return None  # nobody calls us by it

    async def _write_bundle(self, path: str, configuration: dict[str, Any], bundle: bytes, done: list[str]) -> bool:
        """Write `bundle` into one configuration. False where another one stood there."""
        encoded = _encoded(bundle)
        if _bundles(configuration) <= {encoded}:
            return True
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = encoded
        try:
            await self._client.put(path, configuration)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:  # of a conflict the next round sees the outcome
                raise
        else:
            done.append(f"caBundle written in {path.split('/')[-2]}")
        return False


def _bundles(configuration: Mapping[str, Any]) -> set[str]:
    """What stands as caBundle in its webhooks, "" for none."""
    return {str(webhook["clientConfig"].get("caBundle") or "") for webhook in configuration.get("webhooks") or ()}


def _changed(stored: Material | None, last: Material | None, planned: Material) -> str:
    """What was written, for the log."""
    if last is not None and planned == last:
        return "what stood there before,"
    if stored is None or stored.ca.key != planned.ca.key:
        return "a CA and a leaf made and"
    if stored.leaf != planned.leaf:
        return "a leaf made and"
    return "the authorities that may be served"


def _encoded(pem: bytes) -> str:
    return b64encode(pem).decode()


def _decoded(bundle: str) -> bytes:
    try:
        return b64decode(bundle, validate=True)
    except ValueError:
        return b""

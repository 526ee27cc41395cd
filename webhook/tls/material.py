"""What stands in the Secret: a CA, perhaps with older ones, and a leaf; and what should stand there. `now` is given."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, authorities, bundled, check_ca, check_issued, made_at, make_ca, make_leaf, renewal

OVERLAP = timedelta(hours=1)
"""How long an older CA stays trusted, so that every replica changes to the new one. There is at most one new CA in this time,
however often somebody empties the Secret."""


class Material(NamedTuple):
    """What stands in the Secret. The certificate of the CA may be a bundle: the current one first."""

    ca: Pair
    leaf: Pair


class Trusted(NamedTuple):
    """Authorities (PEM) besides that of the Secret that calls may depend on."""

    served: bytes = b""
    """That of the leaf that this replica serves: in the bundle, always."""
    by_hooks: tuple[bytes, ...] = ()
    """What stands in the configurations: to be kept by who makes a new CA, since another replica may serve it."""


def plan(
    stored: Material | None,
    names: Iterable[str],
    now: datetime,
    trusted: Trusted = Trusted(),  # noqa: B008  it cannot be changed
    last: Material | None = None,
) -> Material:
    """What should stand in the Secret: equal to `stored` where nothing is wrong with that. Not deterministic: new keys.

    `last`: what stood there before. It is written back where its CA is new, instead of making one more.
    """
    names = tuple(names)
    try:
        if stored is None:
            raise CertificateError("there is none yet")
        check_ca(stored.ca, now)
    except CertificateError:
        if last is not None and now < made_at(last.ca.certificate) + OVERLAP:
            return plan(last, names, now, trusted)
        return _anew(names, now, trusted.served, last.ca.certificate if last else b"", *trusted.by_hooks)
    if now >= renewal(stored.ca.certificate):
        return _anew(names, now, trusted.served, stored.ca.certificate)
    ca = stored.ca
    if not set(authorities(trusted.served)) <= set(authorities(ca.certificate)):
        ca = bundled(ca, [trusted.served, ca.certificate], now)
    try:
        check_issued(stored.leaf, ca.certificate, names, now)
        if now < renewal(stored.leaf.certificate):
            return Material(ca, stored.leaf)
    except CertificateError:
        pass
    try:
        return Material(ca, make_leaf(ca, names, now))
    except CertificateError:  # a key of another kind, which somebody else made
        return _anew(names, now, trusted.served, ca.certificate)


def _anew(names: Iterable[str], now: datetime, *older: bytes) -> Material:
    ca = bundled(make_ca(now), older, now)
    return Material(ca, make_leaf(ca, names, now))


def read(secret: Mapping[str, Any]) -> Material | None:
    """What a Secret holds. None where a part is missing or is not base64."""
    data = secret.get("data") or {}
    try:
        parts = [b64decode(data[key], validate=True) for key in (_CA, _CA_KEY, _LEAF, _LEAF_KEY)]
    except (KeyError, TypeError, ValueError):
        return None
    return Material(Pair(parts[0], parts[1]), Pair(parts[2], parts[3]))


def secret_data(material: Material) -> dict[str, str]:
    """The `data` of the Secret."""
    (ca, ca_key), (leaf, leaf_key) = ((pair.certificate, pair.key) for pair in material)
    return {
        key: b64encode(part).decode()
        for key, part in ((_CA, ca), (_CA_KEY, ca_key), (_LEAF, leaf), (_LEAF_KEY, leaf_key))
    }


_CA, _CA_KEY, _LEAF, _LEAF_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"

"""Reads the content of the Secret, a CA bundle and a leaf, and decides what it should be."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, authorities, bundled, check_ca, check_issued, issued_at, make_ca, make_leaf, renewal

OVERLAP = timedelta(hours=1)
"""Time that an older CA stays trusted, so that every replica can change to the new one. At most one new CA is made in this time,
however often somebody empties the Secret."""
_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class Material(NamedTuple):
    """The content of the Secret. The certificate of the CA may be a bundle, with the current CA first."""

    ca: Pair
    leaf: Pair


class Trusted(NamedTuple):
    """Authorities (PEM) that must stay trusted, although they may not be in the Secret."""

    served: bytes = b""
    """The CA of the leaf that this replica serves. It is always in the bundle."""
    by_hooks: tuple[bytes, ...] = ()
    """The bundles in the webhook configurations. They are kept beside a new CA, because another replica may serve their leaf."""


def desired_material(
    stored: Material | None,
    names: Iterable[str],
    now: datetime,
    trusted: Trusted = Trusted(),  # noqa: B008  it is immutable
    last: Material | None = None,
) -> Material:
    """The content that the Secret should have: equal to `stored` if that is good. New keys are random.

    `last`: the content before. If its CA is new, it is restored and no other CA is made.
    """
    names = tuple(names)
    try:
        if stored is None:
            raise CertificateError("there is none yet")
        check_ca(stored.ca, now)
    except CertificateError:
        if last is not None and now < issued_at(last.ca.certificate) + OVERLAP:
            return desired_material(last, names, now, trusted)
        return _new_material(names, now, trusted.served, last.ca.certificate if last else b"", *trusted.by_hooks)
    if now >= renewal(stored.ca.certificate):
        return _new_material(names, now, trusted.served, stored.ca.certificate)
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
    except CertificateError:  # the CA was made by somebody else, with a key of another type
        return _new_material(names, now, trusted.served, ca.certificate)


def _new_material(names: Iterable[str], now: datetime, *older: bytes) -> Material:
    ca = bundled(make_ca(now), older, now)
    return Material(ca, make_leaf(ca, names, now))


def read(secret: Mapping[str, Any]) -> Material | None:
    """The content of a Secret; None if a part is missing or is not base64."""
    data = secret.get("data") or {}
    try:
        ca, ca_key, leaf, leaf_key = (b64decode(data[key], validate=True) for key in _KEYS)
    except (KeyError, TypeError, ValueError):
        return None
    return Material(Pair(ca, ca_key), Pair(leaf, leaf_key))


def secret_data(material: Material) -> dict[str, str]:
    ca, leaf = material
    parts = (ca.certificate, ca.key, leaf.certificate, leaf.key)
    return {key: b64encode(part).decode() for key, part in zip(_KEYS, parts, strict=True)}

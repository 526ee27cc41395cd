"""Reads the content of the Secret, a CA bundle and a leaf, and decides what it should be."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from webhook.errors import CertificateError
from webhook.tls.issue import Pair, authorities, bundled, is_ca, is_issued, issued_at, make_ca, make_leaf, renewal

OVERLAP = timedelta(hours=1)
"""Time that an older CA stays trusted, so that every replica can change to the new one. At most one new CA is made in this time,
however often somebody empties the Secret."""
_KEYS = ("ca.crt", "ca.key", "tls.crt", "tls.key")


class Material(NamedTuple):
    """The content of the Secret. The certificate of the CA may be a bundle, with the current CA first."""

    ca: Pair
    leaf: Pair


def desired_material(
    stored: Material | None,
    names: Iterable[str],
    now: datetime,
    served: bytes = b"",
    by_hooks: Iterable[bytes] = (),
    last: Material | None = None,
) -> Material:
    """The content that the Secret should have: equal to `stored` if that is good. New keys are random.

    `served`: the CA (PEM) of the leaf that this replica serves, which is always in the bundle. `by_hooks`: the bundles in the
    webhook configurations, which are kept beside a new CA, because another replica may serve their leaf. `last`: the content
    before. If its CA is new, it is restored and no other CA is made.
    """
    names = tuple(names)
    if stored is None or not is_ca(stored.ca, now):
        if last is not None and now < issued_at(last.ca.certificate) + OVERLAP:
            return desired_material(last, names, now, served, by_hooks)
        return _new_material(names, now, served, last.ca.certificate if last else b"", *by_hooks)
    if now >= renewal(stored.ca.certificate):
        return _new_material(names, now, served, stored.ca.certificate)
    ca = stored.ca
    if not set(authorities(served)) <= set(authorities(ca.certificate)):
        ca = bundled(ca, [served, ca.certificate], now)
    if is_issued(stored.leaf, ca.certificate, names, now) and now < renewal(stored.leaf.certificate):
        return Material(ca, stored.leaf)
    try:
        return Material(ca, make_leaf(ca, names, now))
    except CertificateError:  # the CA was made by somebody else, with a key of another type
        return _new_material(names, now, served, ca.certificate)


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

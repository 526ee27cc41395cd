"""Checks the serving certificate, and the CA certificates in caBundle by which the API server trusts it."""

import shlex
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509

from webhook.cli.checks.configurations import our_hooks
from webhook.cli.checks.replicas import samples_of
from webhook.cli.checks.result import All, Result, broken, ok, warn
from webhook.cli.cluster.answers import OUR_SECRET
from webhook.errors import CertificateError
from webhook.policy.model import Policy
from webhook.text import listed, plural
from webhook.tls.issue import certificates, fingerprint, is_trusted, names_in
from webhook.whatif.cluster.snapshot import Snapshot

_MIN_LEFT: Final = timedelta(days=7)
"""A certificate that expires sooner should have been renewed."""
_MIN_LEFT_PART: Final = 6
"""If a certificate is valid for a short time: it should have been renewed before a sixth of that time is left."""


def ca_bundles(snapshot: Snapshot, policy: Policy) -> All:
    """Every webhook has a caBundle with a CA certificate that has not expired."""
    hooks = our_hooks(snapshot)
    empty = [hook["name"] for hook in hooks if not _bundle(hook)]
    authorities: list[x509.Certificate] = []
    for hook in hooks:
        try:
            authorities += certificates(_bundle(hook)) if _bundle(hook) else []
        except CertificateError:
            text = f"{hook['name']}: caBundle is no certificate: the API server cannot call it"
            return [broken(text, "remove it: the webhook writes it again")]
    if empty:
        return [broken(f"none in {listed(empty)}: the API server trusts nobody there", _issue(snapshot))]
    newest = max(authorities, key=lambda each: each.not_valid_after_utc, default=None)
    return [_validity(snapshot, "its authority", newest)] if newest else []


def served(snapshot: Snapshot, policy: Policy) -> All:
    """The certificate in the Secret is served, trusted by caBundle, for the name that is called, and has not expired."""
    stored = next(iter(snapshot.of("ServingCertificate")), None)
    pem = (stored or {"status": {}})["status"].get("certificate", "").encode()
    try:
        sha256, leaf = fingerprint(pem), certificates(pem)[0]
    except CertificateError as error:
        problem = f"Secret {OUR_SECRET}: tls.crt: {error}" if stored else f"there is no Secret {OUR_SECRET}"
        return [broken(problem, _issue(snapshot))]
    hooks = [hook for hook in our_hooks(snapshot) if _bundle(hook)]
    found = []
    if distrusted := [hook["name"] for hook in hooks if not is_trusted(pem, _bundle(hook))]:
        text = f"the one in Secret {OUR_SECRET} is of an authority that caBundle lacks in {listed(distrusted)}"
        found.append(broken(f"{text}: the API server closes the connection", _issue(snapshot)))
    called = {_host(hook["clientConfig"]) for hook in hooks}
    if lacking := sorted(name for name in called if name not in names_in(leaf)):
        text = f"not for {listed(lacking)}, by which the API server calls, only for {listed(names_in(leaf))}"
        found.append(broken(text, _issue(snapshot)))
    if other := [pod for pod, labels, _ in samples_of(snapshot, "certificate_info") if labels.get("sha256") != sha256]:
        text = f"{listed(other)} serve another than the one in Secret {OUR_SECRET}"
        found.append(warn(text, "it should pass in a minute; else", snapshot.release.restart))
    which = "the one that is served" if snapshot.of("ReplicaMetrics") else f"the one in Secret {OUR_SECRET}"
    return found or [_validity(snapshot, f"caBundle trusts it; {which}", leaf)]


def _issue(snapshot: Snapshot) -> str:
    return f"see certs/README.md, and {shlex.join(snapshot.release.logs)}"


def _validity(snapshot: Snapshot, subject: str, certificate: x509.Certificate) -> Result:
    """Whether a certificate has expired, or should have been renewed."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    left = ends - (datetime.fromtimestamp(snapshot.taken, UTC) if snapshot.taken else datetime.now(UTC))
    if left < timedelta():
        return broken(f"{subject} ended at {ends:%Y-%m-%d %H:%M} UTC", _issue(snapshot))
    soon = left < min(_MIN_LEFT, (ends - begins) / _MIN_LEFT_PART)
    span = plural(left.days, "day") if left.days else plural(left.seconds // 3600, "hour")
    text = f"{subject} is valid for {span}{', and should have been renewed' if soon else ''}"
    return warn(text, _issue(snapshot)) if soon else ok(text)


def _bundle(hook: Mapping[str, Any]) -> bytes:
    """The CA certificates of a webhook as PEM; no PEM if caBundle is not base64."""
    try:
        return b64decode((hook.get("clientConfig") or {}).get("caBundle") or "", validate=True)
    except ValueError:
        return b"?"


def _host(client: Mapping[str, Any]) -> str:
    """The name for which the API server wants a certificate (k8s.io/apiserver pkg/util/webhook/client.go)."""
    if service := client.get("service"):
        return f"{service['name']}.{service['namespace']}.svc"
    return urlsplit(client.get("url") or "").hostname or ""

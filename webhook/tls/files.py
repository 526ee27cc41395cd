"""Writes certificates for development to files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from webhook.tls.issue import make_ca, make_leaf


def write_certificates(folder: Path, names: Sequence[str]) -> list[Path]:
    """Write a new CA and leaf to ca.pem, tls.pem and tls-key.pem, readable by their owner only. Existing files are replaced."""
    now = datetime.now(UTC)
    ca = make_ca(now)
    leaf = make_leaf(ca, names, now)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, pem in (("ca.pem", ca.certificate), ("tls.pem", leaf.certificate), ("tls-key.pem", leaf.key)):
        path = folder / name
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(pem)
        paths.append(path)
    return paths

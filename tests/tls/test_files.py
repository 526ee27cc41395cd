"""Certificates for development in files."""

from __future__ import annotations

import stat
from pathlib import Path

from webhook.tls.files import write_certificates


def test_files_are_readable_by_their_owner_only_and_replace_existing_ones(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    written = write_certificates(folder, ["localhost", "127.0.0.1"])
    assert [path.name for path in written] == ["ca.pem", "tls.pem", "tls-key.pem"]
    before = [path.read_bytes() for path in written]
    assert [stat.S_IMODE(path.stat().st_mode) for path in written] == [0o600] * 3
    assert [path.read_bytes() for path in write_certificates(folder, ["localhost"])] != before

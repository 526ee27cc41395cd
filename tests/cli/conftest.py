"""Fixtures for the tests of the commands."""

import json
from pathlib import Path
from typing import Any

import pytest

from webhook.kube.yaml import to_yaml


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """Writes a file of these documents."""

    def write(*values: Any, name: str = "pods.yaml", form: str = "yaml") -> Path:
        path = tmp_path / name
        documents = map(to_yaml, values) if form == "yaml" else map(json.dumps, values)
        path.write_text(("---\n" if form == "yaml" else "\n").join(documents))
        return path

    return write

"""The manifests as they stand in the files, without kustomize and without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"


def documents(path: Path) -> list[Json]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def installed_files() -> list[Path]:
    """The files of the installation, in the order of the kustomization."""
    (kustomization,) = documents(MANIFESTS / "kustomization.yaml")
    return [MANIFESTS / name for name in kustomization["resources"]]


def shipped(kind: str, name: str = "") -> list[Json]:
    """The objects of a kind in the installation."""
    found = [document for path in installed_files() for document in documents(path)]
    return [each for each in found if each["kind"] == kind and name in ("", each["metadata"]["name"])]


def only(kind: str, name: str = "") -> Json:
    (found,) = shipped(kind, name)
    return found

"""Manifests as people write them: what is admitted without us is admitted with us, or refused by the rules that its file names.

`python -m bench.corpus FOLDER` says the same of any folder.
"""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.kinds import path
from tests.controlplane.plane import ControlPlane
from tests.corpus import compare, documents, generous, pods
from tests.e2e.conftest import Sides
from tests.installed import known
from webhook.policy.templates import Templates, templates

pytestmark = pytest.mark.controlplane

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(file.name for file in CORPUS.glob("*.yaml"))
DOCUMENTS = dict(documents(CORPUS))


def refused_by(file: str) -> list[str]:
    """The rules that the first line of a file names."""
    found = re.match(r"# Refused by: (.*)\n", (CORPUS / file).read_text())
    return found[1].split(", ") if found else []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stocked(control_plane: ControlPlane, sides: Sides) -> AsyncIterator[Sides]:
    """Both namespaces, and nodes that offer all that the manifests name."""
    nodes = generous([pod for file, document in DOCUMENTS.items() for pod in pods(file, document)])
    async with Api.of(control_plane.kubeconfig) as api, clusters.applied(api, nodes):
        await known(api, nodes)
        yield sides


@pytest.mark.parametrize("file", FILES)
async def test_the_pods_of(file: str, api: Api, stocked: Sides) -> None:
    found = list(pods(file, DOCUMENTS[file]))
    assert found
    tally = await compare(api, found, stocked.plain, stocked.ours)
    assert (tally.neither, tally.repaired) == ([], [])
    assert list(tally.rules) == refused_by(file), tally.refused
    assert len(tally.refused) == (len(found) if refused_by(file) else 0)


@pytest.mark.parametrize("file", FILES)
async def test_the_document(file: str, api: Api, stocked: Sides) -> None:
    """A template is stored whatever becomes of its pods, and as it was written."""
    document = DOCUMENTS[file]
    kind, group = document["kind"], document["apiVersion"].rpartition("/")[0]
    if kind != "Pod":
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        stored = [await api.request("POST", path(kind, namespace), document, **query) for namespace in stocked]
        without, with_us = ([t.pod["spec"] for t in templates(each, group, kind, Templates())] for each in stored)
        assert with_us == without != []

"""Two namespaces that are alike but for the opt-in, for tables that ask both; a control plane beside the one that all share."""

import uuid
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from tests.controlplane import clusters
from tests.controlplane.api import Api
from tests.controlplane.fixtures import remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.e2e.bare import ROUTED, bare
from tests.installed import Installed, known, opt_in

NODES = [node(f"sides-{letter}", 8, "NVIDIA-A100-SXM4-80GB", cpu="128", memory="1024Gi") for letter in "ab"]


AT_THE_END = "test_every_decision.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is compared of all pods of a run is compared at its end."""
    items.sort(key=lambda item: item.path.name == AT_THE_END)


class Sides(NamedTuple):
    plain: str
    """A namespace that has not opted in."""
    ours: str
    """One that has, to the default profile."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sides(control_plane: ControlPlane, installed: Installed) -> AsyncIterator[Sides]:
    """Both namespaces, and two nodes of eight A100, for one file of tests."""
    tag = uuid.uuid4().hex[:6]
    found = Sides(f"plain-{tag}", f"ours-{tag}")
    async with Api.of(control_plane.kubeconfig) as api, clusters.applied(api, NODES):
        for name in found:
            await api.namespace(name)
        await opt_in(api, found.ours)
        await known(api, NODES)
        yield found
        for name in found:
            await remove_namespace(api, name)


@pytest.fixture(scope="session")
def beside(programs: Programs) -> Iterator[ControlPlane]:
    """Who installs something here does so within `bare`."""
    with ControlPlane(programs, ROUTED) as plane:
        yield plane


@pytest.fixture
async def two_nodes(beside: ControlPlane) -> AsyncIterator[Api]:
    """Nodes of GPUs there, and nothing else."""
    async with bare(beside) as api:
        await clusters.apply(api, clusters.cluster("two-node"))
        yield api

"""pytest fixtures: one control plane per run, one namespace and one set of nodes per test.

tests/conftest.py has them by `pytest_plugins`. The version is that of the environment variable K8S (default: 1.37).
"""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator

import pytest

from tests.controlplane.api import Api, pause, wait_until
from tests.controlplane.nodes import Json
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import MAIN, NO_CONTROL_PLANE, Programs, Unavailable, find

MakeNodes = Callable[[str | Iterable[Json]], Awaitable[list[str]]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips for want of a control plane are told from one place: the summary has one line, not one for each test."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple) and NO_CONTROL_PLANE in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])
    return report


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Programs:
    """The programs of a control plane, built if need be, which is shown. Without: skipped, and in CI failed."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            return find(os.environ.get("K8S") or MAIN)
    except Unavailable as error:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def control_plane(programs: Programs) -> Iterator[ControlPlane]:
    """One control plane for the whole run. A test that stops a part of it starts that part again."""
    with ControlPlane(programs) as plane:
        yield plane


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """A client with the rights of an administrator."""
    control_plane.check()
    async with Api.of(control_plane.kubeconfig) as client:
        yield client


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """A namespace of its own for a test: its name. It goes afterwards, and its pods are gone before the next test."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await api.namespace(name)
    yield name
    await remove_namespace(api, name)


async def remove_namespace(api: Api, name: str) -> None:
    """Removes a namespace; waits for the end of its pods (they hold GPUs), not of the rest."""
    await api.delete("Namespace", name, missing_ok=True)  # from here on nothing new is created in it
    for kind in ("Deployment", "ReplicaSet"):  # else their status is written for each pod that goes
        await api.delete_all(kind, name, propagationPolicy="Background")
    await remove_pods(api, name)


async def remove_pods(api: Api, namespace: str) -> None:
    """Removes all pods of a namespace, and waits for their end."""

    async def no_pods() -> bool:
        await api.delete_all("Pod", namespace, gracePeriodSeconds="0")
        return not await api.pods(namespace)

    if found := await api.pods(namespace):
        await wait_until(no_pods, 120, f"no pods in {namespace}", pause(len(found)))

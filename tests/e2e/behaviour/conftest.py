"""All cases of a file are played once, side by side, before its first test."""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.e2e.behaviour.case import Case
from tests.e2e.behaviour.play import Played, play
from tests.installed import Installed


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a `case` is one for each of `CASES` of its file."""
    if "case" in metafunc.fixturenames:
        cases: list[Case] = metafunc.module.CASES
        metafunc.parametrize("case", cases, ids=[case.id for case in cases])


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, control_plane: ControlPlane, installed: Installed) -> dict[str, Played]:
    """What became of the cases of the file, by id."""

    async def all_of_them() -> dict[str, Played]:
        async with Api.of(control_plane.kubeconfig) as api:
            return await play(api, request.module.CASES)

    return asyncio.run(all_of_them())

"""A control plane for each file, with the controllers that it names in OTHERS and with us, by the profiles of its POLICY."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.e2e.behaviour.play import Played, play
from tests.e2e.late import PATIENT
from tests.e2e.others.room import Room, running
from tests.installed import Installed


@pytest.fixture(scope="module")
def room(request: pytest.FixtureRequest, programs: Programs) -> Iterator[Room]:
    """Where the controllers of the file run beside us."""
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(programs))
        others = {
            name: stack.enter_context(running(plane, name, setup)) for name, setup in request.module.OTHERS.items()
        }
        text = getattr(request.module, "POLICY", None)
        yield Room(plane, stack.enter_context(Installed(plane, text, before=PATIENT)), others)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, room: Room) -> dict[str, Played]:
    """What became of the CASES of the file, by id."""

    async def all_of_them() -> dict[str, Played]:
        async with Api.of(room.plane.kubeconfig) as api:
            return await play(api, request.module.CASES)

    found = asyncio.run(all_of_them())
    room.check()
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """For the tests of `kit` that a file imports: its CASES."""
    if {"case", "played"} <= {*metafunc.fixturenames}:
        metafunc.parametrize("case", metafunc.module.CASES, ids=[case.id for case in metafunc.module.CASES])

"""All cases of all subjects. They are played before the first test, many side by side (`__init__.py`)."""

import asyncio
import importlib
import math
import pkgutil

import pytest

from tests.controlplane.api import Api
from tests.controlplane.plane import ControlPlane
from tests.e2e import behaviour
from tests.e2e.behaviour import second_call
from tests.e2e.behaviour.case import Case
from tests.e2e.behaviour.play import Played, judged, play
from tests.e2e.late import PATIENT
from tests.installed import SHIPPED, Installed

pytestmark = pytest.mark.controlplane

NAMES = sorted(module.name for module in pkgutil.iter_modules(behaviour.__path__) if module.name != "test_cases")
SUBJECTS = [importlib.import_module(f"{behaviour.__name__}.{name}") for name in NAMES]
CASES: list[Case] = [case for subject in SUBJECTS for case in getattr(subject, "CASES", ())]
PROFILES = """\
  pinned: {injectors: {nodeAffinity: {mode: required}}}
  unchosen: {injectors: {nodeAffinity: {enabled: false}}}
  zoned:
    injectors:
      topologySpread: {constraints: [{key: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]}
"""
TOGETHER = 75
"""Cases at once: of more, nobody would wait less."""


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, control_plane: ControlPlane, installed: Installed) -> dict[str, Played]:
    """What became of the cases of this run, by id."""
    cases = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    assert len({case.id for case in cases}) == len(cases), "each has a name of its own"
    size = math.ceil(len(cases) / math.ceil(len(cases) / TOGETHER))
    found: dict[str, Played] = {}

    async def some_of_them(some: list[Case]) -> dict[str, Played]:
        async with Api.of(control_plane.kubeconfig) as api:
            return await play(api, some)

    with installed.running(PATIENT), installed.policy(SHIPPED + PROFILES), second_call.another_hook(control_plane):
        for begin in range(0, len(cases), size):
            found |= asyncio.run(some_of_them(cases[begin : begin + size]))
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_with_us_and_without(case: Case, played: dict[str, Played]) -> None:
    judged(case, played)

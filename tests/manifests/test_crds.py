"""What needs definitions of others is taken by a real API server that has them: by kustomize and by the chart, field by field."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.manifests import chart
from tests.manifests.crds import MODULES, definitions
from tests.manifests.files import Json
from tests.manifests.test_chart import by_name, rendered
from tests.manifests.test_install import composed

pytestmark = pytest.mark.controlplane

STRICT = ("apply", "--server-side", "--validate=strict", "--force-conflicts", "-f", "-")


@pytest.fixture(params=MODULES)
def component(request: pytest.FixtureRequest, applied: ControlPlane) -> Iterator[str]:
    """A component, on an API server that knows the kinds that it needs."""
    name = str(request.param)
    with applied.serving(*definitions(name)):
        yield name


def of_others(objects: list[Json], definitions: list[Json]) -> list[Json]:
    groups = {each["spec"]["group"] for each in definitions}
    return [each for each in objects if each["apiVersion"].partition("/")[0] in groups]


def kept(wanted: Any, stored: Any) -> bool:
    """Whether all that is wanted is stored; the API server adds defaults."""
    if isinstance(wanted, dict):
        return isinstance(stored, dict) and all(kept(value, stored.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return len(wanted) == len(stored) and all(map(kept, wanted, stored))
    return bool(wanted == stored)


def test_it_is_stored_as_written(applied: ControlPlane, tmp_path: Path, component: str) -> None:
    known = definitions(component)
    shown = of_others(composed(applied, tmp_path, component), known)
    installed = of_others(rendered("4", f"components.{chart.camel(component)}=true"), known)
    assert {each["kind"] for each in shown} == {each["spec"]["names"]["kind"] for each in known}
    assert by_name(shown) == by_name(installed)
    text = yaml.safe_dump_all(shown)
    try:
        answer = applied.kubectl(*STRICT, input=text)
        assert answer.stderr == ""
        stored = yaml.safe_load(applied.kubectl("get", "-f", "-", "-o", "yaml", input=text).stdout)["items"]
        assert [each for each in shown if not any(kept(each, other) for other in stored)] == []
    finally:
        applied.kubectl("delete", "--ignore-not-found", "-f", "-", input=text)


def test_a_field_that_there_is_not_is_refused(applied: ControlPlane, tmp_path: Path, component: str) -> None:
    shown = of_others(composed(applied, tmp_path, component), definitions(component))
    for each in shown:
        each["spec"] |= {"nothing": 1}
        answer = applied.kubectl(*STRICT, "--dry-run=server", input=yaml.safe_dump(each), check=False)
        assert answer.returncode == 1
        assert "nothing" in answer.stderr

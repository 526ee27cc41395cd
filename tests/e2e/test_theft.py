"""Every way to a GPU that was not asked for: vector × kind of container × verb × namespace, on a real API server.

Each cell is refused, or out of reach of admission. docs/ways.md has both lists: the first is written from
this table, the second is compared with it.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.api import Api, ApiError, refusal, wait_until
from tests.controlplane.objects import deployment, made, pod, pod_spec
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import Sides
from tests.e2e.theft_vectors import ANNOTATE, APPLY, CLAIM, CREATE, DEBUG, FROM_MAP, VECTORS, Json, Vector, env
from tests.installed import ROOT, SHIPPED, Installed
from tests.spellings import Attempt, attempts
from webhook.vendors import VENDORS

pytestmark = pytest.mark.controlplane


@dataclass(frozen=True)
class Cell:
    vector: Vector
    kind: str
    verb: str
    opted_in: bool

    @property
    def out(self) -> str:
        """Why it is out of reach; empty where it is refused."""
        if not self.opted_in:
            return "" if self.vector.guarded and self.verb == CREATE else "not-opted-in"
        return self.vector.out


def _cells() -> Iterator[Any]:
    """Vectors after the first of their group are tried in one way, and so is everything where nobody opted in."""
    groups = set[tuple[str, str, str]]()
    for vector, opted_in in product(VECTORS, (True, False)):
        kinds = ("pod",) if vector.of_pod else vector.kinds
        pairs = [(kind, verb) for kind in kinds for verb in (CREATE, APPLY) if kind != "ephemeral container"]
        pairs += [(kind, DEBUG) for kind in kinds if kind == "ephemeral container"]
        pairs += [("pod", ANNOTATE)] if vector.annotations else []
        group = (vector.rule, vector.out, vector.group or vector.what)
        pairs = [pair for pair in pairs if pair[1] in vector.verbs]
        for kind, verb in pairs if opted_in and group not in groups else pairs[:1]:
            where = "" if opted_in else ", not opted in"
            what = vector.what if kind == "pod" else f"{vector.what} in {kind}"
            yield pytest.param(Cell(vector, kind, verb, opted_in), id=f"{verb}, {what}{where}")
        groups.add(group)


CELLS = list(_cells())
SCRATCH = {"name": "scratch", "emptyDir": {}}


def spec_of(cell: Cell) -> Json:
    """A pod that does nothing wrong but this."""
    spec = pod_spec(gpus=0, volumes=[SCRATCH])
    thief: Json = {"name": "thief", "image": "registry.example/app:1", **cell.vector.container}
    if cell.vector.gpus is not None:
        thief["resources"] = {"limits": {"nvidia.com/gpu": cell.vector.gpus}}
    if cell.kind == "sidecar":
        thief["restartPolicy"] = "Always"
    spec["containers" if cell.kind in ("container", "pod") else "initContainers"] = [thief]
    volumes = [SCRATCH, *cell.vector.pod.get("volumes", ())]
    return spec | (CLAIM if cell.vector.claims else {}) | cell.vector.pod | {"volumes": volumes}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victims(control_plane: ControlPlane, installed: Installed, sides: Sides) -> AsyncIterator[Sides]:
    """A GPU pod `victim` in both namespaces, to add containers and annotations to; RuntimeClasses and a PriorityClass; and the
    shipped policy, but that inference is not for these namespaces."""
    policy, count = re.subn(r"(\{class: inference, .*namespaces: )\['\*'\]", r"\1[production]", SHIPPED)
    assert count == 1
    classes = [made("RuntimeClass", name, handler="nvidia") for name in ("nvidia", "fast")]
    classes.append(made("PriorityClass", "urgent", value=900000))
    with installed.policy(policy):
        async with Api.of(control_plane.kubeconfig) as api, api.having(*classes):
            for namespace in sides:
                await api.create(pod("victim", volumes=[SCRATCH]), namespace)

            async def known() -> bool:
                """Both the API server and we know what stands in another object."""
                wanted = pod("a", runtimeClassName="nvidia", priorityClassName="urgent")
                thief = pod("a", 0, runtimeClassName="fast", priorityClassName="gpu-inference")
                refused = await refusal(api.create(thief, sides.ours, dryRun="All"))
                accepted = not await refusal(api.create(wanted, sides.plain, dryRun="All"))
                return accepted and "[runtimeClass]" in refused and "[priorityClass]" in refused

            await wait_until(known, 120, "the API server and the webhook to know the classes, and the policy")
            yield sides


async def attempt(cell: Cell, api: Api, namespace: str) -> tuple[str, list[str]]:
    """Why the API server refuses, empty where it does not; and its warnings. All but ANNOTATE as a dry run, and that too."""
    annotations, spec, dry = cell.vector.annotations, spec_of(cell), {"dryRun": "All"}
    merge = {"strategy": "strategic-merge", **dry}
    try:
        if cell.verb == CREATE:
            answer = await api.create(made("Pod", "thief", annotations=annotations, spec=spec), namespace, **dry)
        elif cell.verb == APPLY:
            answer = await api.create(deployment("thief", annotations=annotations, **spec), namespace, **dry)
        elif cell.verb == DEBUG:
            change = {"spec": {"ephemeralContainers": spec["initContainers"]}}
            answer = await api.patch("Pod", "victim", change, namespace, subresource="ephemeralcontainers", **merge)
        else:
            answer = await api.patch("Pod", "victim", {"metadata": {"annotations": annotations}}, namespace, **merge)
    except ApiError as error:
        return error.message, list(error.warnings)
    return "", list(answer.warnings)


@pytest.mark.parametrize("cell", CELLS)
async def test_cell(cell: Cell, api: Api, victims: Sides) -> None:
    refusal, warnings = await attempt(cell, api, victims.ours if cell.opted_in else victims.plain)
    if cell.out:
        assert refusal == "", "out of reach says docs/ways.md: then it is admitted"
    elif cell.verb == APPLY:  # the pods are refused when the controller asks for them; whoever applies it is told now
        assert refusal == ""
        assert any(text.startswith(f"{cell.vector.rule}: its pods will be refused: ") for text in warnings), warnings
    else:
        assert (f"[{cell.vector.rule}]" if cell.opted_in else "'gpu-admission-preemption'") in refusal


FIRST = {(vendor.name, each.way): each for vendor in reversed(VENDORS) for each in [*attempts(vendor)][::-1]}


@pytest.mark.parametrize("tried", [pytest.param(each, id=f"{of}, {way}") for (of, way), each in sorted(FIRST.items())])
async def test_each_way_of_each_vendor(tried: Attempt, api: Api, victims: Sides) -> None:
    """One spelling of each; tests/rules/test_spellings.py has the others."""
    name = tried.pod["spec"].get("runtimeClassName", "nvidia")
    async with api.having(*([] if name == "nvidia" else [made("RuntimeClass", name, handler=name)])):

        async def told() -> bool:
            """The API server takes up a RuntimeClass by a watch."""
            return f"[{tried.rule}]" in await refusal(api.create(tried.pod, victims.ours, dryRun="All"))

        await wait_until(told, 120, f"{tried.spelling} to be refused")


async def test_containers_without_a_gpu_beside_one_with_are_given_none_by_their_image(api: Api, victims: Sides) -> None:
    spec = pod_spec(1)
    spec["containers"].append({"name": "beside", "image": "i", "envFrom": [FROM_MAP]})
    spec["initContainers"] = [
        {"name": "before", "image": "i"},
        {"name": "along", "image": "i", "restartPolicy": "Always"},
    ]
    found = (await api.create(made("Pod", "a", spec=spec), victims.ours, dryRun="All"))["spec"]
    stored = {each["name"]: each.get("env") for each in (*found["containers"], *found["initContainers"])}
    void = env("NVIDIA_VISIBLE_DEVICES", "void")["env"]
    assert stored == {"main": None, "beside": void, "before": void, "along": void}


@pytest.mark.parametrize(
    ("resource", "name", "value"),
    [
        ("amd.com/gpu", "AMD_VISIBLE_DEVICES", "void"),
        ("habana.ai/gaudi", "HABANA_VISIBLE_DEVICES", "none"),
        ("huawei.com/Ascend910", "ASCEND_VISIBLE_DEVICES", ""),
        ("iluvatar.com/gpu", "IX_VISIBLE_DEVICES", "void"),
    ],
)
async def test_containers_beside_a_gpu_of_another_vendor_are_given_none_of_his(
    api: Api, victims: Sides, resource: str, name: str, value: str
) -> None:
    spec = pod_spec(1, resource=resource)
    spec["containers"].append({"name": "beside", "image": "i"})
    found = (await api.create(made("Pod", "a", spec=spec), victims.ours, dryRun="All"))["spec"]["containers"]
    assert "env" not in found[0]
    hidden = {each["name"]: each.get("value", "") for each in found[1]["env"]}
    assert hidden == {"NVIDIA_VISIBLE_DEVICES": "void", name: value}


def test_the_page_of_ways_says_of_each_that_is_out_of_reach_what_prevents_it() -> None:
    listed = (ROOT / "docs" / "ways.md").read_text().partition("## What is out of reach\n")[2]
    assert set(re.findall(r"^\| `(.+?)` \|", listed, re.MULTILINE)) == {cell.values[0].out for cell in CELLS} - {""}

"""A unit is added in three steps: its file, its test, one line. Nothing else needs a change."""

import asyncio
import re
import sys
from typing import Any

import pytest

from tests import reference
from tests.builders import GPUS, TWO_NODES, ClusterFacts, case, container, request
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.document import document
from tests.feeds.fake_api import client_of, fake_api
from tests.injectors.applied import applied
from tests.rules import test_contract as contract
from tests.state import objects
from tests.state.objects import placer, state
from tests.toys import fixed_load
from tests.toys.image_tag import ImageTag
from tests.toys.most_cpu import MostCpu
from tests.toys.team_label import TeamLabel
from webhook.admission.pods import mutate, validate
from webhook.cli.policy.explain import documented
from webhook.errors import PolicyError
from webhook.export import export_yaml
from webhook.feeds.exporters import Exporters
from webhook.feeds.gpu_metrics import GpuMetrics
from webhook.feeds.gpu_source import Wiring, source_of
from webhook.kube.asked import AskedPod
from webhook.nodes.gpu_metrics import SOURCES, GpuMetricsSettings
from webhook.nodes.utilisation import NodeUse, Utilisation
from webhook.placement.strategies import STRATEGIES
from webhook.policy.loader import read
from webhook.policy.model import Injectors, Policy, PolicyFile, Profile, Rules
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics


class ToyRules(Rules):
    image_tag: ImageTag = ImageTag()


class ToyInjectors(Injectors):
    team_label: TeamLabel = TeamLabel()


class ToyProfile(Profile):
    injectors: ToyInjectors = ToyInjectors()
    rules: ToyRules = ToyRules()


class ToyFile(PolicyFile):
    profiles: dict[str, ToyProfile] = {"default": ToyProfile()}


POLICY = Policy.of(ToyFile())
CLUSTER = ClusterFacts(offers=TWO_NODES.offers, namespaces={"default": {"gpu-admission.io/profile": ""}})
MOVING = request(
    pod(containers=[container(image="registry.example/app:latest")], restartPolicy="Never"), namespace="default"
)


def test_a_policy_has_its_settings_and_says_what_is_wrong_in_them() -> None:
    loaded = Policy.of(read("profiles: {default: {rules: {imageTag: {tags: [main]}}}}", ToyFile))
    assert dict(loaded.units["default"].rules)["imageTag"] == ImageTag(tags=("main",))
    with pytest.raises(PolicyError, match=r'rules\.imageTags: unknown key; did you mean "imageTag"\?'):
        read("profiles: {default: {rules: {imageTags: {}}}}", ToyFile)
    with pytest.raises(PolicyError, match=r'teamLabel\.lable: unknown key; did you mean "label"\?'):
        read("profiles: {default: {injectors: {teamLabel: {lable: a}}}}", ToyFile)


def test_a_pod_is_changed_and_refused_and_the_record_and_the_metrics_say_so() -> None:
    metrics = Metrics()
    changed, refused = mutate(MOVING, POLICY, CLUSTER.view, None), validate(MOVING, POLICY, CLUSTER.view, None)
    assert '"teamLabel":["added","default"]' in changed.record
    said = 'spec.containers[0].image: saw "latest", wanted a tag that stays. Name a version. [imageTag]'
    assert said in refused.message
    metrics.decided("mutate", changed, 0.0)
    metrics.decided("validate", refused, 0.0)
    assert b'gpu_admission_injections_total{injector="teamLabel",result="added"} 1.0' in metrics.text()
    assert b'gpu_admission_findings_total{action="deny",rule="imageTag"} 1.0' in metrics.text()


def test_its_settings_are_in_the_generated_policy_and_its_page_in_the_docs() -> None:
    written = document(ToyFile())
    assert "      # No container runs an image by a tag that moves.\n      imageTag:\n        action: deny\n" in written
    assert "        # Tags that move.\n        tags: [latest]\n" in written
    assert "      # A pod without the label gets the team of its namespace.\n      teamLabel:\n" in written
    page = [*reference.details(ToyRules())]
    assert "No image is called by a tag that moves." in page
    assert "- `deny`; as CEL" in page


def test_it_is_exported_or_the_export_says_why_not() -> None:
    text = export_yaml(POLICY, everywhere=True)
    assert text.count('c.image.endsWith(\\":latest\\")') + text.count('c.image.endsWith(":latest")') == 2
    assert "#   teamLabel: reads the name of the namespace\n" in text


def test_the_command_units_knows_it() -> None:
    units = {unit.name: unit for unit in documented(POLICY)}
    assert (units["imageTag"].state, units["imageTag"].settings["tags"]) == ("deny", ["latest"])
    assert units["teamLabel"].summary == "Pods carry the team that pays for them."


def test_the_contract_tests_cover_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contract.RULES, "image_tag", ImageTag())
    contract.test_the_page_of_a_rule_names_the_fields_it_reads_and_says_what_holds_for_dra("image_tag")
    contract.test_a_rule_has_the_name_of_its_file("image_tag")
    contract.test_the_settings_of_a_rule_can_be_written_and_read_again_and_each_is_documented("image_tag")
    contract.test_a_good_pod_passes("image_tag")
    changed, _ = applied(TeamLabel(), case(pod()), own="/metadata/labels(/team)?")
    assert changed["metadata"]["labels"] == {"app": "trainer", "team": "team-a"}


def test_a_strategy_that_is_registered_is_known_to_policies_and_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "profiles: {default: {placement: {otherwise: mostCpu}}}"
    with pytest.raises(PolicyError, match="saw \"mostCpu\"; wanted 'pack',"):
        Policy.load(text)
    monkeypatch.setitem(STRATEGIES, "mostCpu", MostCpu())
    settings = Policy.load(text).file.profiles["default"].placement
    of = state([node("a", cpu="16"), node("b", cpu="64"), node("c", cpu="32")])
    placement = placer(of).place(
        AskedPod(objects.stored("p"), GPUS), of.view(0), settings, settings.strategy("training"), "training"
    )
    assert [ranked.node for ranked in placement.nodes] == ["b", "c", "a"]
    assert placement.strategy == "mostCpu"


def test_every_strategy_is_explained_in_the_policy() -> None:
    written = re.sub(r"\s*\n\s*# ", " ", document(PolicyFile()))
    assert [name for name, strategy in STRATEGIES.items() if f"{name} ({strategy.meaning})" not in written] == []


async def test_a_source_of_gpu_metrics_that_is_registered_is_known_to_policies_and_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "gpuMetrics: {source: fixedLoad}"
    with pytest.raises(PolicyError, match="saw \"fixedLoad\"; wanted 'off', 'prometheus'"):
        Policy.load(text)
    monkeypatch.setitem(SOURCES, "fixedLoad", "says always the same")
    monkeypatch.setitem(sys.modules, "webhook.feeds.fixed_load", fixed_load)
    policy, reported = Policy.load(text), asyncio.Queue[tuple[str, NodeUse]]()
    sink = Utilisation(GpuMetricsSettings())
    async with fake_api() as fake, client_of(fake) as api:
        follow = GpuMetrics(
            lambda: policy, sink, lambda *use: reported.put_nowait(use), api, Metrics(), logs.configure()
        )
        task = asyncio.create_task(follow.run())
        async with asyncio.timeout(120):
            name, use = await reported.get()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (name, use.measured, use.idle) == ("gpu-a-0", 1, 0)


def test_every_source_of_gpu_metrics_has_its_module_and_is_explained_in_the_policy() -> None:
    for name in SOURCES:
        settings = GpuMetricsSettings(source=name, url="http://prometheus:9090")
        assert source_of(Wiring(settings, Any, Exporters(settings.asked), None))
    assert [
        name
        for name, does in SOURCES.items()
        if f"| {name}{f' ({does})' if does else ''}" not in document(PolicyFile())
    ] == []

"""A pod can be left alone by its annotations: recorded, and never past a rule."""

from typing import Any

import jsonpatch
import orjson
import pytest

from tests.admission.reviews import POLICY, validated
from tests.admission.templates import asked, deployment, policy
from tests.admission.templates import validated as of_template
from tests.builders import GPU, container, request
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from tests.state.objects import state
from webhook.admission.annotations import annotation_warning
from webhook.admission.pods import mutate
from webhook.admission.response import warnings_of
from webhook.admission.words import units
from webhook.kube.pod import DECISION
from webhook.placement.placer import Placer

CHOICE, INJECTION = "gpu-admission.io/node-choice", "gpu-admission.io/injection"


def made(**annotations: Any) -> Any:
    """A pod with a GPU container and one without. The API server has filled in the requests."""
    found = pod(containers=[container(), container("log", gpu=None)])
    found["metadata"]["annotations"] = annotations
    return found


def decided(found: Any) -> tuple[Any, Any]:
    """The decision about a pod in a cluster of one node, and the pod as it is stored."""
    of = state([node("a")])
    decision = mutate(request(found), POLICY, of.view(0), Placer(of))
    assert decision.patch is not None
    return decision, jsonpatch.apply_patch(orjson.loads(orjson.dumps(found)), orjson.loads(decision.patch))


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        pytest.param({}, {}, id="no switch"),
        pytest.param({CHOICE: "on"}, {}, id="another value"),
        pytest.param({CHOICE: ""}, {}, id="no value"),
        pytest.param({INJECTION: "OFF"}, {}, id="upper case"),
        pytest.param({}, {INJECTION: "off"}, id="a label"),
    ],
)
def test_a_pod_is_not_left_alone(annotations: dict[str, str], labels: dict[str, str]) -> None:
    found = made(**annotations)
    found["metadata"]["labels"] = labels
    decision, after = decided(found)
    assert decision.placement.nodes[0].node == "a"
    assert "affinity" in after["spec"]
    assert bool(annotation_warning(found)) is bool(annotations or labels)
    assert (annotation_warning(found) in decision.warnings) is bool(annotations or labels)


@pytest.mark.parametrize("labels", [pytest.param({}, id="alone"), pytest.param({CHOICE: "off"}, id="beside a label")])
def test_a_switch_with_an_effect_gets_no_warning(labels: dict[str, str]) -> None:
    found = made(**{CHOICE: "off"})
    found["metadata"]["labels"] = labels
    assert annotation_warning(found) is None


def test_no_node_is_chosen_and_all_else_is_done() -> None:
    decision, after = decided(made(**{CHOICE: "off"}))
    record = orjson.loads(decision.record)
    assert (record["why"], "nodes" in record) == ("its annotation leaves it to the scheduler", False)
    assert decision.reservation is None
    assert "affinity" not in after["spec"]
    assert after["spec"]["tolerations"]
    assert record["units"]["tolerations"][0] == "added"


def test_nothing_is_injected_but_what_protects_others() -> None:
    found = made(**{INJECTION: "off"})
    _, after = decided(found)
    record = orjson.loads(after["metadata"]["annotations"].pop(DECISION))
    assert {name for name, (result, *_) in record["units"].items() if result != "leftAlone"} == {"voidDevices"}
    assert "nodes" not in record
    assert dict(units(record))["tolerations"].startswith("left alone: the pod's annotation")
    assert after["spec"]["containers"][1]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    del after["spec"]["containers"][1]["env"]
    assert after == found


@pytest.mark.parametrize("key", [CHOICE, INJECTION])
def test_rules_are_checked_all_the_same(key: str) -> None:
    found = pod(limits={GPU: 5})
    found["metadata"]["annotations"] = {key: "off"}
    decision = validated(found)
    assert (decision.result, [finding.unit for finding in decision.findings][:1]) == ("denied", ["gpuLimit"])


@pytest.mark.parametrize("key", [CHOICE, INJECTION])
def test_a_second_call_changes_nothing(key: str) -> None:
    of = state([node("a")])
    _, after = decided(made(**{key: "off"}))
    assert mutate(request(after), POLICY, of.view(0), Placer(of)).patch is None


@pytest.mark.parametrize(
    ("part", "key", "warning"),
    [
        pytest.param(
            "annotations",
            "gpu-models",
            'there is no annotation "gpu-admission.io/gpu-models"; nearest: gpu-admission.io/gpu-model',
            id="misspelt",
        ),
        pytest.param(
            "annotations",
            "node-choise",
            'there is no annotation "gpu-admission.io/node-choise"; nearest: gpu-admission.io/node-choice',
            id="a misspelt switch",
        ),
        pytest.param("annotations", "somebody-elses", None, id="another word"),
        pytest.param(
            "labels",
            "gpu-model",
            "gpu-admission.io/gpu-model is a label here and has no effect: write it as an annotation",
            id="a label",
        ),
    ],
)
def test_what_has_no_effect_is_said_of_a_pod_and_of_a_template(part: str, key: str, warning: str | None) -> None:
    found = made()
    found["metadata"][part] = {f"gpu-admission.io/{key}": "off"}
    assert annotation_warning(found) == warning
    template = deployment()
    template["spec"]["template"]["metadata"] = found["metadata"]
    for warnings in (decided(found)[0].warnings, warnings_of(of_template(asked(template), policy()))):
        assert any("gpu-admission.io/" in text for text in warnings) is (warning is not None)
        assert warning is None or warning in warnings

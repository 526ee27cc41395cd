"""The class of workload of a pod, and its consequences."""

import pytest

from tests.builders import container
from tests.controlplane.objects import pod
from webhook.errors import PolicyError
from webhook.framework.cluster_view import Workload
from webhook.kube.asked import AskedPod
from webhook.kube.pod import Owner, Pod
from webhook.policy.model import Policy

CLASSES = """
classes:
  - {class: inference, labels: {workload-type: [inference, serving], tier: [online]}, namespaces: [prod, "team-*"]}
  - {class: training, ownerKinds: [Job, RayCluster]}
  - {class: batch, labels: {workload-type: [batch]}, ownerKinds: [Job]}
  - {class: development, labels: {example.com/notebook: ['*']}}
  - {class: development, labels: {tier: [off, '*']}, ownerKinds: [JobSet]}
  - {class: service, ownerKinds: [RayService]}
  - {class: night, namespaces: [night]}
"""


NOT_ENTITLED = "is not entitled to class inference"
CASES = [
    pytest.param({}, None, "prod", Workload("none"), id="nothing matches"),
    pytest.param({"workload-type": "other"}, None, "prod", Workload("none"), id="another value"),
    pytest.param({"tier": "inference"}, None, "prod", Workload("none"), id="a value of another label"),
    pytest.param(
        {"workload-type": "serving"},
        None,
        'evil"\n',
        Workload("none", rf'namespace "evil\"\n" {NOT_ENTITLED}'),
        id="a namespace that is not entitled",
    ),
    pytest.param(
        {"workload-type": "serving"},
        "Job",
        "dev",
        Workload("training", f'namespace "dev" {NOT_ENTITLED}'),
        id="not entitled: the next entry that matches",
    ),
    pytest.param(
        {"workload-type": "Serving"},
        None,
        "prod",
        Workload("none", 'label workload-type="Serving" gives no class; nearest: serving'),
        id="a value in other upper and lower case",
    ),
    pytest.param(
        {"workload-type": "infernce"},
        "Job",
        "prod",
        Workload("training", 'label workload-type="infernce" gives no class; nearest: inference'),
        id="a value that is misspelt",
    ),
    pytest.param({"workload-type": "serving"}, None, "prod", Workload("inference"), id="one of the values"),
    pytest.param({"tier": "online"}, None, "team-a", Workload("inference"), id="one of the labels"),
    pytest.param({}, "Job", "dev", Workload("training"), id="the kind of the owner"),
    pytest.param({"workload-type": "batch"}, "Job", "dev", Workload("training"), id="the first entry decides"),
    pytest.param({"example.com/notebook": "anna"}, None, "dev", Workload("development"), id="a label with any value"),
    pytest.param({"example.com/notebook": ""}, "Job", "night", Workload("training"), id="a label without a value"),
    pytest.param(
        {"example.com/notebooks": "x"}, None, "dev", Workload("none"), id="a label with any value, and no other label"
    ),
    pytest.param(
        {"tier": "onlin", "jobset.sigs.k8s.io/jobset-uid": "u"},
        "Job",
        "dev",
        Workload("development"),
        id="a label with any value is never misspelt",
    ),
    pytest.param({"ray.io/serve": "false"}, "RayCluster", "dev", Workload("service"), id="a kind that a label tells"),
    pytest.param(
        {"ray.io/serve": "false"}, "ReplicaSet", "dev", Workload("none"), id="the label of another kind of controller"
    ),
    pytest.param({}, "ReplicaSet", "night", Workload("night"), id="an entry for all pods of a namespace"),
]


@pytest.mark.parametrize(("labels", "kind", "namespace", "want"), CASES)
def test_the_class_of_a_pod(labels: dict[str, str], kind: str | None, namespace: str, want: Workload) -> None:
    owner = None if kind is None else Owner(kind, "x", "u")
    assert Policy.load(CLASSES).classify(pod(labels=labels), owner, namespace)._replace(guessed=False) == want


@pytest.mark.parametrize(
    ("labels", "kind", "namespace", "guessed"),
    [
        pytest.param({"tier": "online"}, "Job", "team-a", False, id="a label of the pod"),
        pytest.param({}, "ReplicaSet", "night", False, id="an entry for the namespace"),
        pytest.param({}, "Job", "dev", True, id="the kind of the owner"),
        pytest.param({"workload-type": "serving"}, "Job", "dev", True, id="a label without effect"),
    ],
)
def test_what_no_label_asks_for_is_a_guess(labels: dict[str, str], kind: str, namespace: str, guessed: bool) -> None:
    assert Policy.load(CLASSES).classify(pod(labels=labels), Owner(kind, "x", "u"), namespace).guessed is guessed


BAD = [
    pytest.param("{x: []}", 'x: wanted at least one value, or ["*"] for a label with any value', id="no value"),
    pytest.param(
        "{x: ['a*']}", 'x[0]: saw "a*"; wanted a label value of at most 63 characters, or "*" for any', id="a pattern"
    ),
    pytest.param("{x y: [a]}", 'x y.[key]: saw "x y"; wanted pattern', id="no key of a label"),
]


@pytest.mark.parametrize(("labels", "problem"), BAD)
def test_labels_that_no_pod_can_have_are_refused(labels: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(f"classes: [{{class: a, labels: {labels}}}]")
    (said,) = caught.value.problems
    assert said.startswith(f"line 1: classes[0].labels.{problem}")


def test_a_label_of_the_namespace_entitles_to_a_class() -> None:
    policy = Policy.load("classes: [{class: inference, namespaces: [prod, class.gpu-admission.io/inference]}]")
    for namespace, labels, name in (
        ("prod", (), "inference"),
        ("dev", ("class.gpu-admission.io/inference",), "inference"),
        ("dev", ("class.gpu-admission.io/training", "inference"), "none"),
        ("class.gpu-admission.io/inference", (), "none"),
    ):
        assert policy.classify(pod(), None, namespace, labels).name == name


def test_which_injectors_change_which_pods() -> None:
    policy = Policy.load("{}")

    def names(made: Pod) -> set[str]:
        return {name for name, _ in policy.injectors_for("default", AskedPod(made, policy.gpus))}

    without = container(gpu=None)
    assert names(pod(containers=[without])) == set()
    assert names(pod(containers=[container(gpu=0)])) == {"voidDevices"}
    assert names(pod(containers=[without], resourceClaims=[{"name": "gpu"}])) == {
        *("tolerations", "priorityClass", "voidDevices", "topologySpread", "nodeAffinity")
    }
    assert names(pod()) == {name for name, _ in policy.units["default"].injectors}

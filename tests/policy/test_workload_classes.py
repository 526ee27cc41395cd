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
CASES: dict[str, tuple[dict[str, str], str | None, str, Workload]] = {
    "nothing matches": ({}, None, "prod", Workload("none")),
    "another value": ({"workload-type": "other"}, None, "prod", Workload("none")),
    "a value of another label": ({"tier": "inference"}, None, "prod", Workload("none")),
    "a namespace that is not entitled": (
        {"workload-type": "serving"},
        None,
        'evil"\n',
        Workload("none", rf'namespace "evil\"\n" {NOT_ENTITLED}'),
    ),
    "not entitled: the next entry that matches": (
        {"workload-type": "serving"},
        "Job",
        "dev",
        Workload("training", f'namespace "dev" {NOT_ENTITLED}'),
    ),
    "a value in other upper and lower case": (
        {"workload-type": "Serving"},
        None,
        "prod",
        Workload("none", 'label workload-type="Serving" gives no class; nearest: serving'),
    ),
    "a value that is misspelt": (
        {"workload-type": "infernce"},
        "Job",
        "prod",
        Workload("training", 'label workload-type="infernce" gives no class; nearest: inference'),
    ),
    "one of the values": ({"workload-type": "serving"}, None, "prod", Workload("inference")),
    "one of the labels": ({"tier": "online"}, None, "team-a", Workload("inference")),
    "the kind of the owner": ({}, "Job", "dev", Workload("training")),
    "the first entry decides": ({"workload-type": "batch"}, "Job", "dev", Workload("training")),
    "a label with any value": ({"example.com/notebook": "anna"}, None, "dev", Workload("development")),
    "a label without a value": ({"example.com/notebook": ""}, "Job", "night", Workload("training")),
    "a label with any value, and no other label": ({"example.com/notebooks": "x"}, None, "dev", Workload("none")),
    "a label with any value is never misspelt": (
        {"tier": "onlin", "jobset.sigs.k8s.io/jobset-uid": "u"},
        "Job",
        "dev",
        Workload("development"),
    ),
    "a kind that a label tells": ({"ray.io/serve": "false"}, "RayCluster", "dev", Workload("service")),
    "the label of another kind of controller": ({"ray.io/serve": "false"}, "ReplicaSet", "dev", Workload("none")),
    "an entry for all pods of a namespace": ({}, "ReplicaSet", "night", Workload("night")),
}


@pytest.mark.parametrize(("labels", "kind", "namespace", "want"), CASES.values(), ids=CASES)
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


BAD = {
    "no value": ("{x: []}", 'x: wanted at least one value, or ["*"] for a label with any value'),
    "a pattern": ("{x: ['a*']}", 'x[0]: saw "a*"; wanted a label value of at most 63 characters, or "*" for any'),
    "no key of a label": ("{x y: [a]}", 'x y.[key]: saw "x y"; wanted pattern'),
}


@pytest.mark.parametrize(("labels", "problem"), BAD.values(), ids=BAD)
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

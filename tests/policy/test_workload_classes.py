"""The class of workload of a pod, and its consequences."""

import pytest

from tests.builders import pod
from webhook.framework.cluster_view import Workload
from webhook.kube.pod import Owner
from webhook.policy.model import Policy
from webhook.rules.priority_class import PriorityClassAllowed

CLASSES = """
classes:
  - {class: inference, labels: {workload-type: [inference, serving], tier: [online]}, namespaces: [prod, "team-*"]}
  - {class: training, ownerKinds: [Job, RayCluster]}
  - {class: batch, labels: {workload-type: [batch]}, ownerKinds: [Job]}
  - {class: night, namespaces: [night]}
"""


@pytest.mark.parametrize(
    ("labels", "kind", "namespace", "want"),
    [
        pytest.param({}, None, "prod", Workload("none"), id="nothing matches"),
        pytest.param({"workload-type": "other"}, None, "prod", Workload("none"), id="another value"),
        pytest.param({"tier": "inference"}, None, "prod", Workload("none"), id="a value of another label"),
        pytest.param(
            {"workload-type": "serving"},
            None,
            'evil"\n',
            Workload("none", r'namespace "evil\"\n" is not entitled to class inference'),
            id="a namespace that is not entitled",
        ),
        pytest.param(
            {"workload-type": "serving"},
            "Job",
            "dev",
            Workload("training", 'namespace "dev" is not entitled to class inference'),
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
        pytest.param({}, "ReplicaSet", "night", Workload("night"), id="an entry for all pods of a namespace"),
    ],
)
def test_the_class_of_a_pod(labels: dict[str, str], kind: str | None, namespace: str, want: Workload) -> None:
    owner = None if kind is None else Owner(kind, "x", "u")
    assert Policy.load(CLASSES).classify(pod(labels=labels), owner, namespace) == want


def test_a_label_of_the_namespace_entitles_to_a_class() -> None:
    policy = Policy.load("classes: [{class: inference, namespaces: [prod, class.gpu-admission.io/inference]}]")
    for namespace, labels, name in (
        ("prod", (), "inference"),
        ("dev", ("class.gpu-admission.io/inference",), "inference"),
        ("dev", ("class.gpu-admission.io/training", "inference"), "none"),
        ("class.gpu-admission.io/inference", (), "none"),
    ):
        assert policy.classify(pod(), None, namespace, labels).name == name


def test_a_priority_class_is_reserved_for_the_namespaces_of_its_class_of_workload() -> None:
    policy = Policy.load("""
classes:
  - {class: inference, labels: {a: [b]}, namespaces: [prod]}
  - {class: inference, ownerKinds: [Job], namespaces: [team-*, prod]}
  - {class: training, labels: {a: [c]}, namespaces: [prod]}
  - {class: training}
profiles:
  default: {injectors: {priorityClass: {classes: {inference: high, training: low, development: other}}}}
  off: {injectors: {priorityClass: {enabled: false}}}
""")
    rules = {name: dict(policy.units[name].rules)["priorityClass"] for name in ("default", "off")}
    assert isinstance(rules["default"], PriorityClassAllowed)
    assert isinstance(rules["off"], PriorityClassAllowed)
    assert dict(rules["default"].reserved) == {"system-*": (), "high": ("prod", "team-*")}
    assert dict(rules["off"].reserved) == dict(rules["default"].reserved)


def test_which_injectors_change_which_pods() -> None:
    policy = Policy.load("{}")

    def names(*, gpu: bool, claims: bool) -> set[str]:
        return {name for name, _ in policy.injectors_for("default", gpu=gpu, claims=claims)}

    assert names(gpu=False, claims=False) == set()
    assert names(gpu=False, claims=True) == {"tolerations", "priorityClass", "voidDevices"}
    assert (
        names(gpu=True, claims=False)
        == names(gpu=True, claims=True)
        == {name for name, _ in policy.units["default"].injectors}
    )

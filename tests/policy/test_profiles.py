"""The profiles in manifests/examples/profiles are valid, and a class that is only a guess never preempts."""

from pathlib import Path

import pytest
import yaml

from tests.controlplane.objects import pod
from webhook.kube.pod import Owner
from webhook.policy.model import Policy, PolicyFile, Profile

MANIFESTS = Path(__file__).resolve().parents[2] / "manifests"
FOLDER = MANIFESTS / "examples" / "profiles"
POLICY = Policy.of(PolicyFile())
PRIORITIES = {
    each["metadata"]["name"]: each for each in yaml.safe_load_all((MANIFESTS / "50-priority-classes.yaml").read_text())
}


def profile(name: str) -> Profile:
    found, settings = Policy.load((FOLDER / f"{name}.yaml").read_text()).profile(name)
    assert found == name
    return settings


def test_each_profile_states_only_its_differences() -> None:
    assert profile("default") == POLICY.profile("default")[1]
    balance, throughput, strict = map(profile, ("balance", "throughput", "strict"))
    workloads = ("inference-critical", "inference", "service", "training", "development", "none")
    assert {balance.placement.strategy(each) for each in workloads} == {"spread"}
    assert {throughput.placement.strategy(each) for each in workloads} == {"pack"}
    assert throughput.placement.gangs.enabled
    assert throughput.injectors.cpu_per_gpu.enabled
    assert (strict.templates.mode, strict.rules.gpu_limit.sizes) == ("deny", (1, 2, 4, 8))
    preempting = {name for name, each in PRIORITIES.items() if each["preemptionPolicy"] != "Never"}
    assert preempting.intersection(strict.injectors.priority_class.classes.values()) == {"gpu-inference-critical"}
    assert {*preempting, "system-*"} <= strict.rules.priority_class.reserved.keys()


@pytest.mark.parametrize(
    ("labels", "owner", "workload", "priority", "preempts"),
    [
        pytest.param({"workload-type": "inference"}, "ReplicaSet", "inference", "gpu-inference", True, id="by label"),
        pytest.param({}, "ReplicaSet", "service", "gpu-service", False, id="a Deployment: a guess"),
        pytest.param({}, "StatefulSet", "service", "gpu-service", False, id="a StatefulSet: a guess"),
        pytest.param({}, "Job", "training", "gpu-training", False, id="a Job: a guess"),
        pytest.param({"workload-type": "training"}, "ReplicaSet", "training", "gpu-training", False, id="training by label"),
        pytest.param({}, None, "development", "gpu-development", False, id="a pod by itself"),
        pytest.param(
            {"workload-type": "inference-critical"}, "ReplicaSet", "service", "gpu-service", False,
            id="critical, where no namespace is entitled to it",
        ),
    ],
)  # fmt: skip
def test_only_a_class_that_was_asked_for_by_label_preempts(
    labels: dict[str, str], owner: str | None, workload: str, priority: str, preempts: bool
) -> None:
    made = POLICY.classify(pod(labels=labels), Owner(owner, "a", "u") if owner else None, "team-a")
    assert made.name == workload
    assert bool(made.warning) is (labels.get("workload-type") == "inference-critical")
    name = POLICY.profile("default")[1].injectors.priority_class.classes[workload]
    assert (name, PRIORITIES[name]["preemptionPolicy"] != "Never") == (priority, preempts)


def test_a_class_that_another_profile_gives_is_for_the_namespaces_entitled_there() -> None:
    """Otherwise every namespace with its own profile could use the PriorityClasses of all others."""
    policy = Policy.load("""
classes:
  - {class: inference, labels: {workload-type: [inference]}, namespaces: [serving]}
  - {class: inference, ownerKinds: [Job], namespaces: [team-*, serving]}
  - {class: development, namespaces: ['*']}
profiles:
  default: {}
  fast: {injectors: {priorityClass: {classes: {inference: fast, development: gpu-inference}}}}
  slow: {injectors: {priorityClass: {classes: {inference: slow}}}}
  off: {injectors: {priorityClass: {enabled: false}}}
""")
    found = {name: policy.profile(name)[1].rules.priority_class.reserved for name in policy.file.profiles}
    kept = ("serving", "team-*")
    defaults = {"system-*": (), "gpu-inference": kept, "fast": kept, "slow": kept}
    assert found == {
        "default": defaults,
        "off": defaults,
        "fast": {"system-*": (), "fast": kept, "slow": kept},
        "slow": {"system-*": (), "fast": kept, "slow": kept},
    }


def test_inference_goes_before_services_before_training_before_development() -> None:
    classes = POLICY.profile("default")[1].injectors.priority_class.classes
    assert list(classes) == ["inference-critical", "inference", "service", "training", "development"]
    values = [PRIORITIES[name]["value"] for name in classes.values()]
    assert values == sorted(set(values), reverse=True)
    assert PRIORITIES.keys() == set(classes.values())

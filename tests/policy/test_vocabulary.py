# ruff: noqa: E501  a policy stands on one line
"""Misspelt words in a policy, and words that are accepted.

Covers policy.references.
"""

import pytest

from webhook.errors import PolicyError
from webhook.policy.model import Policy

GOOD = [
    pytest.param("{}", id="the shipped policy"),
    pytest.param("{classes: [{class: gold}], profiles: {default: {placement: {strategies: {gold: spread}}}}}", id="a class of one's own"),
    pytest.param("{classes: [{class: gold}], profiles: {default: {rules: {restartPolicy: {classes: [training]}}}}}", id="a shipped class that no entry makes"),
    pytest.param("classes: [{class: gold}, {class: online-inference}, {class: training-2}]", id="a class that no profile names"),
    pytest.param("{classes: [{class: trainings}], profiles: {default: {placement: {strategies: {trainings: spread}}}}}", id="a class like a known one, named by a profile"),
    pytest.param("classes: [{class: training, ownerKinds: [HyperPodPyTorchJob, VCJob, SparkJob]}]", id="a kind of one's own"),
    pytest.param("profiles: {default: {injectors: {topologySpread: {constraints: [{key: example.com/rack}]}}}}", id="a label of one's own"),
    pytest.param("profiles: {default: {injectors: {tolerations: {taints: [{key: team}, {key: gpu}]}}}}", id="a taint of one's own"),
    pytest.param("gpus: [{name: metax-tech.com/gpu}, {name: aws.amazon.com/neuron}]", id="a GPU of another vendor"),
    pytest.param("profiles: {default: {templates: {custom: [{group: example.com, kind: Farm, path: spec.template}]}}}", id="a resource of one's own"),
    pytest.param("profiles: {default: {templates: {custom: [{group: a.io, kind: Farm, path: spec.template, labels: [a.io/farm, '*']}]}}}", id="labels that its pods get"),
]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_the_policy_is_accepted(text: str) -> None:
    Policy.load(text)


CLASS = "no entry of `classes` makes the class"
KNOWN = "that is known; did you mean"
BAD = [
    pytest.param("profiles:\n  default:\n    placement:\n      strategies:\n        trainig: pack",
        f'line 5: profiles.default.placement.strategies.trainig: {CLASS} "trainig"; did you mean "training"?', id="a class that no pod can have"),
    pytest.param("classes:\n  - {class: inferense-critical, labels: {workload-type: [inference-critical]}}\n  - {class: inference-critical}",
        'line 2: classes[0].class: no profile says what the class "inferense-critical" means; did you mean "inference-critical"?', id="an entry that makes a misspelt class"),
    pytest.param("classes: [{class: inferense_critcal}]",
        'line 1: classes[0].class: no profile says what the class "inferense_critcal" means; did you mean "inference-critical"?', id="an entry with two slips"),
    pytest.param("classes: [{class: Training}]",
        'line 1: classes[0].class: no profile says what the class "Training" means; did you mean "training"?', id="an entry in other upper and lower case"),
    pytest.param("profiles: {default: {placement: {preferences: [{classes: [x], nodes: [{key: a, values: [b]}]}]}}}",
        f'line 1: profiles.default.placement.preferences[0].classes[0]: {CLASS} "x"; '
        "`classes` makes inference-critical, inference, training, development, service", id="a class in a preference"),
    pytest.param("profiles:\n  default:\n    rules: {restartPolicy: {classes: [trainin]}}\n  a: {}\n  b: {}",
        f'line 3: profiles.default.rules.restartPolicy.classes[0]: {CLASS} "trainin"; did you mean "training"?', id="a class that is inherited is reported once"),
    pytest.param("classes: [{class: inference, ownerKinds: [Deployment]}]",
        "line 1: classes[0].ownerKinds[0]: the pods of a Deployment are made by its ReplicaSet: write ReplicaSet", id="a kind that creates no pods"),
    pytest.param("profiles: {default: {placement: {gangs: {kinds: [RayJob]}}}}",
        "line 1: profiles.default.placement.gangs.kinds[0]: the pods of a RayJob are made by its RayCluster: write RayCluster", id="a kind whose pods are those of another"),
    pytest.param("classes: [{class: training, ownerKinds: [Job, PytorchJob]}]",
        f'line 1: classes[0].ownerKinds[1]: saw "PytorchJob", which is no kind {KNOWN} "PyTorchJob"?', id="a kind in other upper and lower case"),
    pytest.param("classes: [{class: training, ownerKinds: [RayClusters]}]",
        f'line 1: classes[0].ownerKinds[0]: saw "RayClusters", which is no kind {KNOWN} "RayCluster"?', id="a kind in the plural"),
    pytest.param("profiles: {default: {injectors: {topologySpread: {constraints: [{key: topology.kubernetes.io/zones}]}}}}",
        "line 1: profiles.default.injectors.topologySpread.constraints[0].key: "
        f'saw "topology.kubernetes.io/zones", which is no label {KNOWN} "topology.kubernetes.io/zone"?', id="a label to spread over"),
    pytest.param("profiles: {default: {placement: {gangs: {keys: [topologi.kubernetes.io/zone]}}}}",
        "line 1: profiles.default.placement.gangs.keys[0]: "
        f'saw "topologi.kubernetes.io/zone", which is no label {KNOWN} "topology.kubernetes.io/zone"?', id="the domain of a label"),
    pytest.param("profiles: {default: {injectors: {tolerations: {allowed: [{key: nvdia.com/gpu}]}}}}",
        f'line 1: profiles.default.injectors.tolerations.allowed[0].key: saw "nvdia.com/gpu", which is no taint {KNOWN} "nvidia.com/gpu"?', id="a taint"),
    pytest.param("gpus: [{name: nvidia.com/gpus}]",
        f'line 1: gpus[0].name: saw "nvidia.com/gpus", which is no resource {KNOWN} "nvidia.com/gpu"?', id="a GPU"),
    pytest.param("profiles: {default: {templates: {custom: [{group: kubeflow.or, kind: PyTorchJob, path: spec.template}]}}}",
        f'line 1: profiles.default.templates.custom[0].group: saw "kubeflow.or", which is no group {KNOWN} "kubeflow.org"?', id="a group of a custom resource"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), BAD)
def test_the_policy_is_refused_with_the_nearest_word(text: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.load(text)
    assert caught.value.problems == [problem]

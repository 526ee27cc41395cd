"""The form of a pod: what the API server takes, and what the user reads where it would not.

tests/e2e/test_refusals.py shows both tables, and many pods besides, to a real API server: it agrees with each.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import GPU, Case, case, container, pod, sidecar
from webhook.rules.pod_form import PodForm

RULE = PodForm()
_NAME = "lower case letters, digits and -, with a letter or digit at both ends, at most 63"
_VALUE = "letters, digits, -, _ and ., with a letter or digit at both ends, at most 63; or nothing"
_RESPELL = "Shorten or respell it; what is only to be read can be an annotation"
_PENDING, _PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def claiming(*claims: dict[str, Any], uses: tuple[str, ...] = (), **fields: Any) -> Any:
    """A pod that asks for devices by claim."""
    using = container(gpu=None)
    using["resources"]["claims"] = [{"name": name} for name in uses]
    return pod(using, resourceClaims=list(claims), **fields)


GPU_CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


def mounting(*names: str, **fields: Any) -> dict[str, Any]:
    return container(volumeMounts=[{"name": n, "mountPath": f"/mnt/{i}"} for i, n in enumerate(names)], **fields)


def devices(limits: dict[str, Any], requests: dict[str, Any]) -> Any:
    """A container that asks for something that is no GPU to the policy."""
    return container(gpu=None) | {"resources": {"limits": limits, "requests": requests}}


def generated(prefix: str) -> Any:
    made = pod()
    made["metadata"] = {"generateName": prefix, "namespace": "team-a"}
    return made


def with_gpu_toleration(**fields: Any) -> Any:
    return pod(tolerations=[{"key": GPU, **fields}])


ALLOWED: dict[str, Case] = {
    "one container": case(pod()),
    "names as long as they may be": case(pod(container("a" * 63), name="a" * 253)),
    "values of labels of every kind": case(pod(labels={"empty": "", "long": "x" * 63, "version": "v1.2_RC-1"})),
    "a pod name with dots": case(pod(name="llama.team-a.v2")),
    "a container name of one digit": case(pod(container("1"))),
    "a generated name that ends in a dash": case(generated("trainer-")),
    "a generated name far longer than 58": case(generated("a" * 200 + "-")),
    "an init container, a container and a sidecar": case(pod(container("a"), init=[container("b"), sidecar("c")])),
    "a volume that is mounted twice": case(
        pod(mounting("data", "data"), init=[mounting("data", name="setup")], volumes=[{"name": "data", "emptyDir": {}}])
    ),
    "a volume that nobody mounts": case(pod(volumes=[{"name": "data", "emptyDir": {}}])),
    "a claim by template": case(claiming(GPU_CLAIM, uses=("gpu",))),
    "a claim by name, used by nobody": case(claiming({"name": "gpu", "resourceClaimName": "shared"})),
    "other devices, the same in requests and limits": case(
        pod(devices({"rdma/hca": "1", "example.com/fpga": "2"}, {"rdma/hca": "1", "example.com/fpga": "2"}))
    ),
    "other devices in limits alone: the API server copies them": case(pod(devices({"example.com/fpga": "2"}, {}))),
    "request and limit that differ in spelling": case(
        pod(devices({"example.com/fpga": "2"}, {"example.com/fpga": "2000m"}))
    ),
    "a request of a resource of Kubernetes' own domain without a limit": case(
        pod(devices({GPU: "1"}, {GPU: "1", "deviceclass.resource.kubernetes.io/gpu": "1"}))
    ),
    "CPU requests without limits": case(pod(devices({GPU: "1"}, {GPU: "1", "cpu": "8"}))),
    "the taint by key": case(with_gpu_toleration(operator="Exists", effect="NoSchedule")),
    "the taint by value, without operator": case(with_gpu_toleration(value="present")),
    "every taint": case(pod(tolerations=[{"operator": "Exists"}])),
    "anti-affinity over hosts": case(
        pod(
            affinity={
                "podAntiAffinity": {
                    _PENDING: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}],
                    _PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}],
                }
            }
        )
    ),
}
NOT_OURS: dict[str, Case] = {
    "a pod without a GPU": case(pod(container("Main", gpu=None, image=""))),
    "a generated name that ends in a dot: letters follow": case(generated("trainer.")),
    "a comparison, which a feature gate allows": case(with_gpu_toleration(operator="Gt", value="5")),
    "a claim with a source that a later Kubernetes may know": case(claiming({"name": "gpu", "fromTheFuture": "x"})),
    "a number of GPUs, which is for another rule": case(pod(devices({}, {GPU: "500m"}))),
    "what is no quantity": case(pod(devices({"example.com/fpga": "x"}, {"example.com/fpga": "y"}))),
    "a service account by its full name": case(pod(serviceAccountName="team.trainer")),
    "the name of the pod of a template": case(generated("Trainer-"), template=True),
}
"""Nothing is said, whatever the API server says."""


REFUSED: dict[str, tuple[Case, list[str]]] = {
    "no image": (
        case(pod(container(image=None))),
        [
            'spec.containers[0].image: saw no image in container "main", wanted the image to run. Set image, as '
            "registry.example/app:1.2; if a patch or a tool fills it in, apply what comes out of that."
        ],
    ),
    "upper case in both names": (
        case(pod(container("BI-V100_demo"), name="BI-V100-demo")),
        [
            'metadata.name: saw pod name "BI-V100-demo", wanted lower case letters, digits, - and ., with a letter or '
            "digit at both ends, at most 253. Rename it, as bi-v100-demo.",
            f'spec.containers[0].name: saw container name "BI-V100_demo", wanted {_NAME}. Rename it, as bi-v100-demo.',
        ],
    ),
    "values of labels that are none": (
        case(pod(labels={"team": "my team", "version": "${VERSION}", "long": "x" * 64})),
        [
            f'metadata.labels[team]: saw "my team", wanted {_VALUE}. {_RESPELL}.',
            f'metadata.labels[version]: saw "${{VERSION}}", wanted {_VALUE}. Fill in the placeholder.',
            f'metadata.labels[long]: saw "{"x" * 64}", wanted {_VALUE}. {_RESPELL}.',
        ],
    ),
    "a name that only a person can mend": (
        case(pod(container("模型"))),
        [f'spec.containers[0].name: saw container name "模型", wanted {_NAME}. Rename it.'],
    ),
    "a container name that is too long": (
        case(pod(container("a" * 64))),
        [f'spec.containers[0].name: saw container name "{"a" * 64}", wanted {_NAME}. Rename it, as {"a" * 63}.'],
    ),
    "a pod name that is too long": (
        case(pod(name="a" * 254)),
        [
            f'metadata.name: saw pod name "{"a" * 80}…", wanted lower case letters, digits, - and ., with a letter or '
            f"digit at both ends, at most 253. Rename it, as {'a' * 253}."
        ],
    ),
    "a generated name with an underscore": (
        case(generated("my_trainer-")),
        [
            'metadata.generateName: saw pod name "my_trainer-", wanted lower case letters, digits, - and ., with a letter '
            "or digit at both ends, at most 253. Rename it, as my-trainer-."
        ],
    ),
    "a placeholder that nobody filled in": (
        case(pod(container("<name>"), name="{{ name }}")),
        [
            'metadata.name: saw pod name "{{ name }}", wanted lower case letters, digits, - and ., with a letter or digit at '
            "both ends, at most 253. Fill in the placeholder.",
            f'spec.containers[0].name: saw container name "<name>", wanted {_NAME}. Fill in the placeholder.',
        ],
    ),
    "a container without a name": (
        case(pod(container(""))),
        ["spec.containers[0].name: saw a container without a name, wanted a name for every container. Name it, as main."],
    ),
    "two containers of one name": (
        case(pod(container("main"), container("main"), container("main-2"))),
        [
            'spec.containers[1].name: saw a second container "main", wanted a name of its own for every container, init '
            "containers included. Rename it, as main-3."
        ],
    ),
    "an init container with the name of a container": (
        case(pod(container("main"), init=[container("main")])),
        [
            'spec.initContainers[0].name: saw a second container "main", wanted a name of its own for every container, '
            "init containers included. Rename it, as main-2."
        ],
    ),
    "a mount of a volume that is spelt otherwise": (
        case(pod(mounting("modell"), volumes=[{"name": "model", "emptyDir": {}}])),
        [
            'spec.containers[0].volumeMounts[0].name: saw a mount of volume "modell" in container "main", wanted a volume '
            "of the pod: model. Write model if that is meant; or add it to spec.volumes, or remove the mount."
        ],
    ),
    "a mount in a pod without volumes": (
        case(pod(mounting("data"), volumes=[{"name": "kube-api-access-x2b7k", "projected": {"sources": []}}])),
        [
            'spec.containers[0].volumeMounts[0].name: saw a mount of volume "data" in container "main", wanted a volume of '
            "the pod, which has none. Add it to spec.volumes, or remove the mount."
        ],
    ),
    "a claim in the old form, whose source the API server dropped": (
        case(claiming({"name": "gpu"}, uses=("gpu",))),
        [
            'spec.resourceClaims[0]: saw claim "gpu" without a source, wanted resourceClaimName or '
            "resourceClaimTemplateName. Name the ResourceClaim or its template right there: the old wrapper `source:` is "
            "no longer read."
        ],
    ),
    "a claim with both sources": (
        case(claiming(GPU_CLAIM | {"resourceClaimName": "shared"})),
        [
            'spec.resourceClaims[0]: saw claim "gpu" with two sources, wanted one of the two. Keep resourceClaimName for a '
            "claim that exists, resourceClaimTemplateName for one of the pod's own."
        ],
    ),
    "two claims of one name, and one without": (
        case(claiming(GPU_CLAIM, GPU_CLAIM, {"resourceClaimName": "shared"})),
        [
            'spec.resourceClaims[1].name: saw a second claim "gpu", wanted a name of its own for every claim. Rename it, '
            "as gpu-2.",
            "spec.resourceClaims[2].name: saw a claim without a name, wanted a name that containers use. Name it, as gpu.",
        ],
    ),
    "a container that uses a claim the pod does not list": (
        case(claiming(GPU_CLAIM, uses=("gpus",))),
        [
            'spec.containers[0].resources.claims[0].name: saw claim "gpus" in container "main", wanted a claim of the pod: '
            "gpu. Write gpu if that is meant; or add it to spec.resourceClaims, or remove it."
        ],
    ),
    "a request for a GPU that the policy does not know": (
        case(pod(devices({"cpu": "1"}, {"vendor.example/gpu": "1"}))),
        [
            'spec.containers[0].resources.requests[vendor.example/gpu]: saw a request of "1" vendor.example/gpu without a '
            'limit in container "main", wanted the same number as limit: such resources cannot be overcommitted. Write '
            "limits.vendor.example/gpu; if it is a GPU, name it under gpus in the policy, which then fills limits in."
        ],
    ),
    "a request for a device that differs from its limit": (
        case(pod(devices({"rdma/hca": "2"}, {"rdma/hca": "1"}))),
        [
            'spec.containers[0].resources.requests[rdma/hca]: saw a request of "1" rdma/hca beside a limit of "2" in '
            'container "main", wanted the same number as limit: such resources cannot be overcommitted. Write '
            "limits.rdma/hca; if it is a GPU, name it under gpus in the policy, which then fills limits in."
        ],
    ),
    "an operator that does not exist": (
        case(with_gpu_toleration(operator="exists")),
        [
            'spec.tolerations[0].operator: saw operator "exists" in the toleration of "nvidia.com/gpu", wanted Exists or '
            "Equal. Write Exists."
        ],
    ),
    "a toleration without a key": (
        case(pod(tolerations=[{"value": "gpu", "effect": "NoSchedule"}])),
        [
            "spec.tolerations[0].key: saw operator Equal without a key in a toleration, wanted a key, or operator Exists, "
            "which tolerates every taint. Write the key of the taint, as nvidia.com/gpu."
        ],
    ),
    "a value beside Exists": (
        case(with_gpu_toleration(operator="Exists", value="present")),
        [
            'spec.tolerations[0].value: saw value "present" beside operator Exists in the toleration of "nvidia.com/gpu", '
            "wanted no value: Exists takes any. Remove the value to tolerate any, or write operator Equal."
        ],
    ),
    "an effect that does not exist": (
        case(with_gpu_toleration(operator="Exists", effect="NoScheduling")),
        [
            'spec.tolerations[0].effect: saw effect "NoScheduling" in the toleration of "nvidia.com/gpu", wanted NoSchedule '
            "or PreferNoSchedule or NoExecute. Write NoSchedule."
        ],
    ),
    "terms without topologyKey": (
        case(
            pod(
                affinity={
                    "podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": {"labelSelector": {}}}]},
                    "podAntiAffinity": {_PENDING: [{"labelSelector": {}}]},
                }
            )
        ),
        [
            f"spec.affinity.podAffinity.{_PREFERRED}[0].podAffinityTerm.topologyKey: saw a term of podAffinity without "
            "topologyKey, wanted the node label over which pods are kept together or apart. Add topologyKey, as "
            "kubernetes.io/hostname.",
            f"spec.affinity.podAntiAffinity.{_PENDING}[0].topologyKey: saw a term of podAntiAffinity without topologyKey, "
            "wanted the node label over which pods are kept together or apart. Add topologyKey, as kubernetes.io/hostname.",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("made", [*ALLOWED.values(), *NOT_OURS.values()], ids=[*ALLOWED, *NOT_OURS])
def test_allowed(made: Case) -> None:
    assert made.messages(RULE) == []


@pytest.mark.parametrize(("made", "messages"), REFUSED.values(), ids=REFUSED)
def test_refused(made: Case, messages: list[str]) -> None:
    assert made.messages(RULE) == messages


def test_a_gpu_pod_by_claim_or_by_a_resource_that_the_policy_does_not_name_is_a_gpu_pod() -> None:
    for asked in (claiming(GPU_CLAIM), pod(devices({"vendor.example/gpu": "1"}, {}))):
        asked["spec"]["containers"][0]["image"] = ""
        assert [finding.path for finding in case(asked).findings(RULE)] == ["spec.containers[0].image"]


def test_a_service_account_is_looked_up_before_we_are_asked_so_only_of_a_template_its_name_is_judged() -> None:
    made = case(pod(serviceAccountName="$ACCOUNT"), template=True)
    assert made.messages(RULE) == [
        'spec.serviceAccountName: saw service account "$ACCOUNT", wanted lower case letters, digits, - and ., with a letter or '
        "digit at both ends, at most 253. Fill in the placeholder."
    ]

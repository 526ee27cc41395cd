"""GPU resources and models that are asked for, and whether they exist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.builders import EMPTY, GPU, POOLS, UNKNOWN, Case, case, container, pod
from webhook.rules.gpu_names import GpuNames

RULE = GpuNames()


def slices(profile: str, **resources: Any) -> dict[str, Any]:
    return container(gpu=None, limits={f"nvidia.com/mig-{profile}": "1", **resources})


def required(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    """Node affinity with these terms, each a list of expressions."""
    wanted = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}


def model(*values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": "nvidia.com/gpu.product", "operator": operator, "values": list(values)}


A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
GONE = replace(POOLS, offers={**POOLS.offers, "amd-1": {"amd.com/gpu": 0}})

ALLOWED: dict[str, Case] = {
    "a resource that nodes have": case(pod(), cluster=POOLS),
    "a MIG profile that a node has": case(pod(slices("3g.40gb")), cluster=POOLS),
    "any name while the cluster is not known": case(pod(slices("1g.5gb")), cluster=UNKNOWN),
    "a resource whose device plugin is away for the moment": case(
        pod(container(gpu=None, limits={"amd.com/gpu": "1"})), cluster=GONE
    ),
    "none of a resource that no node has": case(pod(container(limits={"amd.com/gpu": "0"})), cluster=POOLS),
    "a resource that is served by DRA": case(
        pod(slices("1g.5gb")), cluster=POOLS, rule=GpuNames(extra=("nvidia.com/mig-1g.5gb",))
    ),
    "other resources of the vendor": case(pod(container(limits={"nvidia.com/gpumem": "1"})), cluster=POOLS),
    "a model that a node has": case(pod(nodeSelector={"nvidia.com/gpu.product": A100}), cluster=POOLS),
    "a label that is no model": case(pod(nodeSelector={"team": "ml"}), cluster=POOLS),
    "one model of two": case(pod(affinity=required([model("NVIDIA-B200", H100)])), cluster=POOLS),
    "one alternative of two": case(pod(affinity=required([model("NVIDIA-B200")], [model(H100)])), cluster=POOLS),
    "a label that is no model, in affinity": case(
        pod(affinity=required([{"key": "team", "operator": "In", "values": ["ml"]}])), cluster=POOLS
    ),
    "a model that is to be avoided": case(
        pod(affinity=required([model("NVIDIA-B200", operator="NotIn")])), cluster=POOLS
    ),
}

_LIMITS = "spec.containers[0].resources.limits"
_OFFERED = "nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb, nvidia.com/mig-3g.40gb"
_MODELS = f"{A100}, {H100}, NVIDIA-L4-SHARED"
_TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "a MIG profile that is not offered, almost like one that is": (
        case(pod(slices("1g.5gb")), cluster=POOLS),
        [
            f'{_LIMITS}[nvidia.com/mig-1g.5gb]: saw nvidia.com/mig-1g.5gb in container "main", wanted a GPU resource that some node has: {_OFFERED}. '
            "Ask for nvidia.com/mig-1g.10gb, which is the nearest that exists."
        ],
    ),
    "a vendor that is not there": (
        case(pod(container(gpu=None, limits={"amd.com/gpu": "1"})), cluster=POOLS),
        [
            f'{_LIMITS}[amd.com/gpu]: saw amd.com/gpu in container "main", wanted a GPU resource that some node has: {_OFFERED}. '
            "Ask for one of those."
        ],
    ),
    "a GPU where there is none": (
        case(pod(), cluster=EMPTY),
        [
            f'{_LIMITS}[nvidia.com/gpu]: saw nvidia.com/gpu in container "main", wanted a GPU resource that some node has; no node has any. '
            "Ask those who run this cluster for GPU nodes."
        ],
    ),
    "a model that no node has": (
        case(pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}), cluster=POOLS),
        [
            f'spec.nodeSelector[nvidia.com/gpu.product]: saw "NVIDIA-A100-SXM4-40GB", wanted a model that some node has: {_MODELS}. '
            f"Choose {A100}, which is the nearest that exists."
        ],
    ),
    "a model where nodes do not say theirs": (
        case(pod(nodeSelector={"nvidia.com/gpu.product": A100}), cluster=replace(POOLS, labels={})),
        [
            f'spec.nodeSelector[nvidia.com/gpu.product]: saw "{A100}", wanted a label that nodes with GPUs have; none has this one. '
            "Remove it, or choose the model by a label that nodes have."
        ],
    ),
    "a profile that is not offered, where two vendors are": (
        case(pod(slices("7g.80gb")), cluster=GONE),
        [
            f'{_LIMITS}[nvidia.com/mig-7g.80gb]: saw nvidia.com/mig-7g.80gb in container "main", wanted a GPU resource that some node has: {_OFFERED}, amd.com/gpu. '
            "Ask for nvidia.com/mig-3g.40gb, which is the nearest that exists."
        ],
    ),
    "the label of another cloud": (
        case(pod(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"}), cluster=POOLS),
        [
            'spec.nodeSelector[cloud.google.com/gke-accelerator]: saw "nvidia-l4", wanted a label that nodes with GPUs have; none has this one. '
            "Remove it, or choose the model by a label that nodes have, as nvidia.com/gpu.product."
        ],
    ),
    "alternatives of which none can match": (
        case(
            pod(affinity=required([model("x")], [{"key": "a", "operator": "Exists"}, model("y", "z")])), cluster=POOLS
        ),
        [
            f'{_TERM}[0].matchExpressions[0]: saw "x", wanted a model that some node has: {_MODELS}. Choose one of those.',
            f'{_TERM}[1].matchExpressions[1]: saw "y", "z", wanted a model that some node has: {_MODELS}. Choose one of those.',
        ],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "a MIG profile that an autoscaler may bring": (
        case(pod(slices("7g.80gb")), cluster=replace(POOLS, elastic=True)),
        [
            f'{_LIMITS}[nvidia.com/mig-7g.80gb]: saw nvidia.com/mig-7g.80gb in container "main", wanted a GPU resource that some node has: {_OFFERED}. '
            "Ask for nvidia.com/mig-3g.40gb, which is the nearest that exists."
        ],
    ),
    "a model that an autoscaler may bring, by the policy": (
        case(pod(nodeSelector={"nvidia.com/gpu.product": "x"}), cluster=POOLS, rule=GpuNames(autoscaler=True)),
        [
            f'spec.nodeSelector[nvidia.com/gpu.product]: saw "x", wanted a model that some node has: {_MODELS}. Choose one of those.'
        ],
    ),
    "a name that only looks like a GPU": (
        case(pod(container(gpu=None, limits={"nvidia.com/GPUs": "1"})), cluster=POOLS),
        [
            f'{_LIMITS}[nvidia.com/GPUs]: saw nvidia.com/GPUs in container "main", wanted {GPU}: what stands there is no GPU to this cluster. '
            f"Write {GPU}."
        ],
    ),
}


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))


@pytest.mark.parametrize(("warned", "messages"), WARNED.values(), ids=WARNED)
def test_what_is_only_warned_about(warned: Case, messages: list[str]) -> None:
    assert warned.messages(RULE) == messages
    assert all(finding.only_warn for finding in warned.findings(RULE))

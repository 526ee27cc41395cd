"""Pods that no node could take even if it were empty."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import GPU, POOLS, TWO_NODES, Case, case, container, pod, sidecar
from webhook.framework.cluster_view import Rejected
from webhook.kube.pod import Pod
from webhook.rules.gpu_fits import GpuFits

RULE = GpuFits()
FOUR = replace(TWO_NODES, offers={f"gpu-{n}": {GPU: 8} for n in range(500)})


def too_little(pod: Pod) -> Rejected:
    return ((("too little memory", 7)), (("GPU model not selected", 5)))


def fits(pod: Pod) -> Rejected:
    return ()


ALLOWED: dict[str, Case] = {
    "all GPUs of the largest node": case(pod(container(gpu=8))),
    "more than any node, while the cluster is not known": case(
        pod(container(gpu=16)), cluster=replace(TWO_NODES, fresh=False)
    ),
    "a resource that no node has, which is for another rule to judge": case(
        pod(container(gpu=None, limits={"amd.com/gpu": "16"}))
    ),
    "an init container that reuses the GPUs of the container": case(
        pod(container(gpu=8), init=[container("setup", gpu=8)])
    ),
    "a pod that fits some node": case(pod(), fits_empty=fits),
    "a GPU whose device plugin is away for the moment": case(
        pod(), cluster=replace(TWO_NODES, offers={"gpu-a1": {GPU: 0}}), fits_empty=too_little
    ),
    "a claim, whose needs are not known": case(pod(resourceClaims=[{"name": "gpu"}]), fits_empty=too_little),
    "a pod without a GPU": case(pod(container(gpu=None)), fits_empty=too_little),
    "a pod of another scheduler": case(pod(container(gpu=16), schedulerName="kai-scheduler"), fits_empty=too_little),
    "a gated pod, which may change": case(pod(schedulingGates=[{"name": "kueue"}]), fits_empty=too_little),
    "a pod that a node was named for": case(pod(nodeName="gpu-a1"), fits_empty=too_little),
    "a pod of a DaemonSet": case(pod(owned_by="DaemonSet"), fits_empty=too_little),
    "GPUs by name beside a claim, which may bring them": case(pod(container(gpu=16), resourceClaims=[{"name": "gpu"}])),
    "a quantity that is none, which is for another rule to judge": case(pod(container(limits={"cpu": "many"}))),
}

_WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]"
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "twice what a node has": (
        case(pod(container(gpu=16))),
        [
            f'{_WHERE}: saw 16 in container "main", wanted at most 8, which is what the largest nodes have: gpu-a1, gpu-a2. '
            "Ask for 8 or fewer, or use a Job of 2 × 8."
        ],
    ),
    "half as much again as a node has, of many nodes": (
        case(pod(container(gpu=12)), cluster=FOUR),
        [
            f'{_WHERE}: saw 12 in container "main", wanted at most 8, which is what the largest nodes have: gpu-0, gpu-1, gpu-10, …. '
            "Ask for 8 or fewer, or use a Job of 2 pods with at most 8 each."
        ],
    ),
    "too many slices": (
        case(pod(container(gpu=None, limits={"nvidia.com/mig-3g.40gb": "5"})), cluster=POOLS),
        [
            'spec.containers[0].resources.limits[nvidia.com/mig-3g.40gb]: saw 5 in container "main", wanted at most 4, which is what the largest node has: mig-1. '
            "Ask for 4 or fewer, or use a Job of 2 pods with at most 4 each."
        ],
    ),
    "containers that are too large together": (
        case(pod(container("a", gpu=4), container("b", gpu=4), init=[sidecar(gpu=1)])),
        [
            "spec: saw 9 nvidia.com/gpu in the whole pod, wanted at most 8, which is what the largest nodes have: gpu-a1, gpu-a2. "
            "Ask for 8 or fewer, or use a Job of 2 pods with at most 8 each."
        ],
    ),
    "GPUs, memory and model that no one node has together": (
        case(pod(), fits_empty=too_little),
        [
            "spec: saw a pod that no node could take even if it were empty (0/12 nodes: 7 too little memory, 5 GPU model not selected), wanted a pod that fits a node. "
            "Ask for less of what is short, or loosen what keeps the pod off the other nodes."
        ],
    ),
    "too many GPUs, said once": (
        case(pod(container(gpu=16)), fits_empty=too_little),
        [
            f'{_WHERE}: saw 16 in container "main", wanted at most 8, which is what the largest nodes have: gpu-a1, gpu-a2. '
            "Ask for 8 or fewer, or use a Job of 2 × 8."
        ],
    ),
}
WARNED: dict[str, tuple[Case, list[str]]] = {
    "an autoscaler may bring a larger node": (
        case(pod(container(gpu=16)), cluster=replace(TWO_NODES, elastic=True)),
        [
            f'{_WHERE}: saw 16 in container "main", wanted at most 8, which is what the largest nodes have: gpu-a1, gpu-a2. '
            "Ask for 8 or fewer, or use a Job of 2 × 8."
        ],
    ),
    "a taint, which may be gone tomorrow or be tolerated by then": (
        case(pod(), fits_empty=lambda _: (("taint not tolerated", 3), ("too little memory", 1))),
        [
            "spec: saw a pod that no node could take even if it were empty (0/4 nodes: 3 taint not tolerated, 1 too little memory), wanted a pod that fits a node. "
            "Ask for less of what is short, or loosen what keeps the pod off the other nodes."
        ],
    ),
    "the policy says that one may": (
        case(pod(), fits_empty=too_little, rule=GpuFits(autoscaler=True)),
        [
            "spec: saw a pod that no node could take even if it were empty (0/12 nodes: 7 too little memory, 5 GPU model not selected), wanted a pod that fits a node. "
            "Ask for less of what is short, or loosen what keeps the pod off the other nodes."
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

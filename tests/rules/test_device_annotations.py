"""Annotations that ask container runtimes for devices."""

from __future__ import annotations

import pytest

from tests.builders import Case, case, pod
from webhook.rules.device_annotations import DeviceAnnotations

RULE = DeviceAnnotations()

ALLOWED: dict[str, Case] = {
    "no annotations": case(pod()),
    "others": case(pod(annotations={"team": "ml", "example.com/cdi.k8s.io": "x", "cdi.k8s.ioX": "y"})),
    "GKE's fast networking": case(pod(annotations={"devices.gke.io/container.tcpxo-daemon": "- path: /dev/nvidia0"})),
}

_KEYS = (
    "cdi.k8s.io/nvidia",
    "nvidia.cdi.k8s.io/container.main",
    "devices.nri.io/container.main",
    "io.kubernetes.cri-o.Devices",
)
_END = "wanted no such annotation: it hands out devices past the GPU limit. Remove it, and ask for GPUs in the limits of a container."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "each of those that inject devices": (
        case(pod(annotations={"team": "ml"} | dict.fromkeys(_KEYS, "nvidia.com/gpu=all"))),
        [f'metadata.annotations[{key}]: saw "nvidia.com/gpu=all", {_END}' for key in _KEYS],
    ),
}


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))

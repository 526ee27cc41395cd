"""Mounts whose names hand out devices."""

from typing import Any

import pytest

from tests.builders import case, container
from tests.controlplane.objects import pod
from webhook.rules.device_mounts import DeviceMounts

RULE = DeviceMounts()


def mounting(*paths: str, name: str = "main") -> dict[str, Any]:
    return container(name, gpu=None, volumeMounts=[{"name": "v", "mountPath": path} for path in paths])


ALLOWED = [
    pytest.param(case(pod()), id="no mounts"),
    pytest.param(
        case(pod(containers=[mounting("/models", "/var/run/secrets/kubernetes.io/serviceaccount", "/var/run")])),
        id="other folders",
    ),
    pytest.param(
        case(pod(containers=[mounting("/data/var/run/nvidia-container-devices")])), id="a folder of that name elsewhere"
    ),
]

_END = (
    "wanted no mount below /var/run/nvidia-container-devices: its name hands out devices past the GPU limit. "
    "Remove the mount: the device plugin makes it for the GPUs that the limits ask for."
)
_PATHS = (
    "/var/run/nvidia-container-devices/all",
    "/var/run/nvidia-container-devices",
    "/run/nvidia-container-devices/0",
    "/var/run/nvidia-container-devicesall",
    "//var//run/./nvidia-container-devices//all",
    "/x/..//var/run/nvidia-container-devices/all/",
    "../var/run/nvidia-container-devices/all",
    "var/run/nvidia-container-devices/cdi/nvidia.com/gpu=all",
    "/var/run/nvidia-container-devices/../x",  # leads out of it again, but nobody needs it
)
REFUSED = [
    *[
        pytest.param(
            case(pod(containers=[mounting(path)])),
            [f'spec.containers[0].volumeMounts[0].mountPath: saw "{path}" in container "main", {_END}'],
            id=f"all GPUs, spelt {path}",
        )
        for path in _PATHS
    ],
    pytest.param(
        case(pod(containers=[mounting("/var/run/hcu-container-devices/0")])),
        [
            'spec.containers[0].volumeMounts[0].mountPath: saw "/var/run/hcu-container-devices/0" in container "main", '
            + _END.replace("nvidia", "hcu")
        ],
        id="devices of another vendor",
    ),
    pytest.param(
        case(
            pod(
                containers=[mounting("/models", _PATHS[0])],
                init=[mounting(_PATHS[0], name="setup")],
                ephemeral=[mounting(_PATHS[0], name="debug")],
            )
        ),
        [
            f'spec.{field}.mountPath: saw "{_PATHS[0]}" in container "{name}", {_END}'
            for field, name in (
                ("initContainers[0].volumeMounts[0]", "setup"),
                ("containers[0].volumeMounts[1]", "main"),
                ("ephemeralContainers[0].volumeMounts[0]", "debug"),
            )
        ],
        id="every kind of container",
    ),
]

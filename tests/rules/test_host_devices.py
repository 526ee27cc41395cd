"""Host paths that lead to devices."""

from __future__ import annotations

import pytest

from tests.builders import Case, case, pod
from webhook.pod import Pod
from webhook.rules.host_devices import HostDevices

RULE = HostDevices()


def host(*paths: str) -> Pod:
    return pod(volumes=[{"name": f"v{n}", "hostPath": {"path": path}} for n, path in enumerate(paths)])


ALLOWED: dict[str, Case] = {
    "no volumes": case(pod()),
    "volumes that are not of the node": case(pod(volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}])),
    "folders without devices": case(
        host("/mnt/models", "/dev/shm", "/proc/sys", "/proc/10x", "/dev/infiniband", "/sys", "/tmp", "/var/log")
    ),
    "names that only begin alike": case(host("/run/nvidia-models", "/dev/drinks", "/development")),
    "a path that the policy does not name": case(host("/dev"), rule=HostDevices(paths=("/etc/cdi",))),
}

_START, _FIX = (
    "spec.volumes[0].hostPath.path: saw",
    "Remove the volume: the device plugin brings the devices that the limits ask for.",
)
_INSIDE = {
    "/dev/nvidia0": "/dev/nvidia*",
    "/dev/nvidia-caps/nvidia-cap1": "/dev/nvidia*",
    "/dev/dri": "/dev/dri",
    "/dev/dri/renderD128": "/dev/dri",
    "/proc/driver/nvidia/gpus/0000:01:00.0": "/proc/driver/nvidia",
    "/proc/1/root/dev/nvidia0": "/proc/1",
    "/proc/self/root": "/proc/self",
    "/proc//thread-self/cwd": "/proc/thread-self",
    "/var/lib/kubelet/device-plugins": "/var/lib/kubelet",
    "/var/lib/kubelet/pod-resources/kubelet.sock": "/var/lib/kubelet",
    "/var/run/nvidia/mps": "/run/nvidia",
    "/var/run/cdi": "/run/cdi",
    "/etc/cdi/": "/etc/cdi",
    "/run/containerd/containerd.sock": "/run/containerd",
    "/run/k3s/containerd/containerd.sock": "/run/k3s",
    "/mnt/..//dev/./nvidia0": "/dev/nvidia*",
}
_ABOVE = {
    "/": "/dev/nvidia*",
    "//": "/dev/nvidia*",
    "": "/dev/nvidia*",
    "/dev": "/dev/nvidia*",
    "/dev/": "/dev/nvidia*",
    "/mnt/../dev": "/dev/nvidia*",
    "/proc": "/proc/driver/nvidia",
    "/var": "/var/lib/kubelet",
    "/var/run": "/run/nvidia",
    "/etc": "/etc/cdi",
}
REFUSED: dict[str, tuple[Case, list[str]]] = {
    **{
        f"{path}, which leads to devices": (
            case(host(path)),
            [f'{_START} "{path}", wanted no host path that leads to devices: {what} is what it names. {_FIX}'],
        )
        for path, what in _INSIDE.items()
    },
    **{
        f"{path or 'nothing'}, which is above devices": (
            case(pod(volumes=[{"name": "v", "hostPath": {"path": path}}, {"name": "w", "hostPath": {"path": "/tmp"}}])),
            [f'{_START} "{path}", wanted no host path that leads to devices: {what} is below it. {_FIX}'],
        )
        for path, what in _ABOVE.items()
    },
}


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))

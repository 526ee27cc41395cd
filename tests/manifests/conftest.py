"""The shipped manifests on the control plane, but for the server: it has no kubelet to run on."""

from collections.abc import Iterator

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.manifests.files import ACCOUNT, HOOKS, kustomized

NOT_APPLIED = (*HOOKS, "Deployment", "PodDisruptionBudget")


@pytest.fixture(scope="session")
def applied(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with everything of the installation that is no server and no hook. It stays: it hurts nobody."""
    objects = [found for found in kustomized(control_plane) if found["kind"] not in NOT_APPLIED]
    control_plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    right = ("get", "secrets/gpu-admission-tls", "--namespace=gpu-admission", f"--as={ACCOUNT}")
    control_plane.await_right(*right)
    return control_plane


@pytest.fixture(scope="module")
def hooks(applied: ControlPlane) -> Iterator[ControlPlane]:
    """With both webhook configurations: those of a running webhook, or else the shipped ones for the time of a file of tests."""
    found = applied.kubectl("get", ",".join(HOOKS), "gpu-admission", "--ignore-not-found", "-o", "name").stdout
    if found:
        yield applied
        return
    objects = [found for found in kustomized(applied) if found["kind"] in HOOKS]
    with applied.having(*objects):
        yield applied

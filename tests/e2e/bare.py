"""A control plane for tests that install by themselves, one after the other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controlplane import clusters
from tests.controlplane.api import Api, wait_until
from tests.controlplane.plane import ControlPlane
from tests.controlplane.settings import Options
from tests.manifests.files import kustomized

ROUTED = Options(apiserver=("--enable-aggregator-routing=true",))
"""The API server then calls the endpoints of a Service itself, as it does through kube-proxy in a cluster."""


@asynccontextmanager
async def bare(plane: ControlPlane) -> AsyncIterator[Api]:
    """Within, nothing is installed at first; afterwards what was installed is gone, with every namespace and node."""
    plane.check()
    of_all = [each for each in kustomized(plane) if "namespace" not in each["metadata"]]
    async with Api.of(plane.kubeconfig) as api:
        before = {each["metadata"]["name"] for each in await api.list("Namespace")}

        async def gone() -> bool:
            left = {each["metadata"]["name"] for each in await api.list("Namespace")} - before
            for name in left:
                await api.delete("Namespace", name, missing_ok=True)
                await api.delete_all("Pod", name, gracePeriodSeconds="0")
            return not left

        try:
            yield api
        finally:
            for each in of_all:
                await api.delete(each["kind"], each["metadata"]["name"], missing_ok=True)
            await wait_until(gone, 120, "the namespaces of the test to be gone")
            await clusters.remove(api, [each["metadata"]["name"] for each in await api.list("Node")])

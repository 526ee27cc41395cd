"""The chart on a real API server, by Helm 4 and by Helm 3: installed, upgraded while pods are created, tested, and removed.

Covers cli.checks.dry_run.
"""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.helm import HELM, find_helm
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.creating import creating
from tests.installed import Installed, decision, opt_in
from tests.manifests import chart
from tests.manifests.crds import definitions
from tests.manifests.files import HOOKS, MANIFESTS, kustomized, objects_of
from tests.manifests.values import CHART

pytestmark = pytest.mark.controlplane

NOWHERE = "--set=nodeSelector.there-is=no-kubelet"
"""The pods of the Deployment stay pending: the replicas run beside the control plane, in pods that only look as if they ran."""
CRITICAL = "gpu-inference-critical"
KEPT = {
    f"PriorityClass/{name}" for name in (CRITICAL, "gpu-inference", "gpu-service", "gpu-training", "gpu-development")
}
KEPT |= {f"{kind}/{name}" for kind, name in chart.KEPT}


class Release:
    """The chart, by one Helm, on one control plane."""

    def __init__(self, plane: ControlPlane, major: str, namespace: str) -> None:
        self.plane, self.major, self.namespace = plane, major, namespace

    async def helm(self, *words: str) -> str:
        """Runs Helm. Raises AssertionError with what it said."""
        command = [find_helm(self.major), *words, "--namespace", self.namespace]
        environment = os.environ | {
            "KUBECONFIG": str(self.plane.kubeconfig),
            "HELM_CACHE_HOME": str(self.plane.folder / "helm"),
            "HELM_CONFIG_HOME": str(self.plane.folder / "helm"),
        }
        process = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr + process.stdout
        return str(process.stdout + process.stderr)

    async def apply(self, *words: str, chart: Path = CHART) -> str:
        return await self.helm("upgrade", "--install", "gpu", str(chart), NOWHERE, "--create-namespace", *words)


def of_helm(plane: ControlPlane) -> set[str]:
    """What Helm has made and nobody has deleted, by kind and name."""
    kinds = sorted({f"{each['kind']}" for each in kustomized(plane)})
    text = plane.kubectl("get", ",".join(kinds), "-A", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "json").stdout
    return {f"{each['kind']}/{each['metadata']['name']}" for each in json.loads(text)["items"]}


@pytest.mark.parametrize("major", HELM)
async def test_a_release_is_installed_upgraded_tested_and_removed(
    beside: ControlPlane, two_nodes: Api, major: str
) -> None:
    api = two_nodes
    release = Release(beside, major, "gpu-system")
    await release.apply("--set=test.profile=default")
    installed = Installed(beside, replicas=2, reachable=True, routed=True, release=release.namespace)
    with closing(installed):
        await asyncio.to_thread(installed.__enter__)
        await api.namespace("ours")
        await opt_in(api, "ours")
        async with creating(api, "ours") as created:
            await release.apply("--set=replicas=3", "--set=components.events=true")
            await release.apply("--set-string=policy.text=profiles: {default: {}}")
        assert (created.refused, created.unchanged) == ([], [])
        assert created.count > 40
        for kind in HOOKS:
            hooks = (await api.get(kind, "gpu-admission"))["webhooks"]
            assert all(hook["clientConfig"].get("caBundle") for hook in hooks)
        await passed(release, api)
        await checked(release, api)
        await release.helm("uninstall", "gpu")
        assert of_helm(beside) == KEPT
    assert not decision(await api.create(pod("after", 1), "ours")), "nobody is blocked, and nothing is changed"
    await api.namespace("theirs")
    for name, where, who in (("gpu-inference", "theirs", "opted in"), (CRITICAL, "ours", "entitled")):
        assert who in await refusal(api.create(pod("a", 1, priorityClassName=name), where)), "the guard is there still"
    await api.create(pod("as-before", 1, priorityClassName="gpu-inference"), "ours")


async def passed(release: Release, api: Api) -> None:
    """`helm test` as the notes give it, with a pod that succeeds, since this test says so."""
    notes = await release.helm("get", "notes", "gpu")
    (command,) = [line.split()[1:] for line in notes.splitlines() if line.strip().startswith("helm test ")]
    test = asyncio.create_task(release.helm(*command))

    async def succeeded() -> bool:
        words = (
            "patch",
            "pod",
            "gpu-admission-test",
            "--subresource=status",
            '--patch={"status": {"phase": "Succeeded"}}',
        )
        answer = await asyncio.to_thread(release.plane.kubectl, "-n", release.namespace, *words, check=False)
        return answer.returncode == 0

    await wait_until(succeeded, 120, "the pod of helm test")
    assert "Succeeded" in await test

    async def gone() -> bool:
        return f"{release.namespace}-test" not in {each["metadata"]["name"] for each in await api.list("Namespace")}

    await wait_until(gone, 120, "the namespace of the test to be gone")


async def checked(release: Release, api: Api) -> None:
    """What the pod of `helm test` runs, with the rights that it has there: there is no kubelet to run it."""
    text = await release.helm("get", "hooks", "gpu")
    objects = objects_of(text)
    (test,) = [found for found in objects if found["kind"] == "Pod"]
    others = [found for found in objects if found["kind"] != "Pod"]
    plane = release.plane
    await asyncio.to_thread(plane.kubectl, "apply", "-f", "-", input=yaml.safe_dump_all(others))
    await asyncio.to_thread(plane.kubectl, "apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump(test))
    (container,) = test["spec"]["containers"]
    assert "requests" in container["resources"]  # else a namespace with a quota would not take it
    kubeconfig = plane.kubeconfig_for(release.namespace, test["spec"]["serviceAccountName"])

    async def well() -> bool:  # once the API server has heard of its rights
        answer = await asyncio.to_thread(doctor, container["args"], kubeconfig, release.namespace)
        found = json.loads(answer.stdout)["items"]
        assert answer.returncode == 0, [each for each in found if each["state"] == "broken"]
        assert [each for each in found if each["text"].startswith("no right")] == []
        return {each["check"]: each["state"] for each in found}["dryRun"] == "ok"

    await wait_until(well, 120, "doctor to have its rights, and to find nothing", every=1)
    answer = await asyncio.to_thread(doctor, ["doctor"], plane.kubeconfig)
    found = {each["check"]: each for each in json.loads(answer.stdout)["items"]}
    assert (found["endpoints"]["state"], found["policy"]["state"]) == ("ok", "ok"), "it finds the namespace by itself"
    assert found["networkPolicy"]["next"].startswith("helm upgrade gpu manifests/chart -n gpu-system")
    await asyncio.to_thread(plane.kubectl, "delete", "--wait=false", "-f", "-", input=yaml.safe_dump_all(others))


def doctor(arguments: list[str], kubeconfig: Path, namespace: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "webhook", *arguments, "-o", "json", "--kubeconfig", str(kubeconfig)]
    environment = os.environ | {"GPU_ADMISSION_NAMESPACE": namespace}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


BACK = (
    "apply -k my-gpu-admission/",
    "label -k my-gpu-admission/ app.kubernetes.io/managed-by-",
    "-n gpu-admission delete secret -l owner=helm,name=gpu",
)
"""Helm forgets its release, and deletes nothing."""


async def test_the_chart_takes_over_what_kubectl_has_installed_and_gives_it_back(
    beside: ControlPlane, two_nodes: Api, tmp_path: Path
) -> None:
    """With Helm 4, which applies on the server: a field of kubectl's is a conflict there."""
    api = two_nodes
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    nowhere = {"op": "add", "path": "/spec/template/spec/nodeSelector/there-is", "value": "no-kubelet"}
    patch = {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump([nowhere])}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["manifests"], "patches": [patch]}))
    with Installed(beside, replicas=2, reachable=True, routed=True):
        await api.namespace("ours")
        await opt_in(api, "ours")
        release, more = Release(beside, "4", "gpu-admission"), ["--take-ownership", "--force-conflicts"]
        async with creating(api, "ours") as created:
            await release.apply(*more)
            await release.apply(*more, "--set=replicas=3", "--set=failurePolicies.mutate=Fail")
            assert (await api.get(HOOKS[0], "gpu-admission"))["webhooks"][0]["failurePolicy"] == "Fail"
            for command in BACK:
                assert f"kubectl {command}\n" in (CHART / "README.md").read_text()
                words = command.replace("my-gpu-admission/", str(tmp_path)).split()
                await asyncio.to_thread(beside.kubectl, *words)
        assert (created.refused, created.unchanged) == ([], [])
        assert (await api.get(HOOKS[0], "gpu-admission"))["webhooks"][0]["failurePolicy"] == "Ignore"
        assert of_helm(beside) == set()
        assert "gpu" not in (await release.helm("list")).split()


async def test_helm_4_says_who_has_changed_the_policy(beside: ControlPlane, two_nodes: Api) -> None:
    release = Release(beside, "4", "gpu-admission")
    await release.apply()
    mine = made("ConfigMap", "gpu-admission-policy", data={"policy.yaml": "profiles: {}\n"})
    mine["metadata"]["namespace"] = "gpu-admission"
    text = yaml.safe_dump(mine)
    beside.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=somebody", "-f", "-", input=text)
    with pytest.raises(AssertionError, match=r'conflict with "somebody".*.data.policy.yaml'):
        await release.apply("--set-string=policy.text=profiles: {default: {}}")
    await release.apply("--set=policy.create=false")


async def test_a_dozen_replicas_fit_into_the_quota(beside: ControlPlane, two_nodes: Api) -> None:
    await Release(beside, "4", "gpu-admission").apply("--set=replicas=12")

    async def all_made() -> bool:
        return len(await two_nodes.list("Pod", "gpu-admission")) == 12

    await wait_until(all_made, 120, "a pod for each replica")


OF_OTHERS = (
    "--set=components.certManager=true",
    "--set=components.prometheus=true",
    "--set=components.monitoring=true",
)
SECRET = "gpu-admission-tls"


async def test_definitions_of_others_are_there_before_the_release_and_go_after_it(
    beside: ControlPlane, two_nodes: Api
) -> None:
    """And who issues the certificate may change, in the ways that the page of the chart names. Helm 4 does and says the same."""
    release, known = Release(beside, "3", "gpu-system"), [*definitions("monitoring"), *definitions("cert-manager")]
    in_place = partial(beside.kubectl, "--namespace", release.namespace)
    with pytest.raises(AssertionError, match="Install cert-manager first"):
        await release.apply(*OF_OTHERS)
    with beside.serving(*known):
        await release.apply(*OF_OTHERS)
        await release.apply(*OF_OTHERS, "--set=replicas=3")
        in_place("create", "secret", "generic", SECRET)  # cert-manager makes one
        with pytest.raises(AssertionError, match="exists and cannot be imported"):
            await release.apply("--set=components.monitoring=true")
        in_place("delete", "certificate/gpu-admission", f"secret/{SECRET}")
        await release.apply("--set=components.monitoring=true")
        in_place("get", "secret", SECRET)

    async def gone() -> bool:
        return in_place("get", "podmonitors", check=False).returncode != 0

    await wait_until(gone, 120, "the definitions to be gone")
    with pytest.raises(AssertionError, match='no matches for kind "PodMonitor"'):
        await release.apply()
    with beside.serving(*known):
        await release.apply("--set=components.ownCertificate=true")
        assert in_place("get", "secret", SECRET, "--ignore-not-found").stdout == "", (
            "Helm deletes it, whosesoever it is"
        )
        await release.helm("uninstall", "gpu")
    assert of_helm(beside) == KEPT

"""`kubectl apply` of a workload: what its author reads in the terminal, long before a pod is refused."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.controlplane.objects import deployment, made, pod_spec
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import wait_for
from tests.e2e.terminal import MODES, PROFILES, Json, Terminal, namespaces
from tests.installed import PROFILE_LABEL, SHIPPED, Installed

pytestmark = pytest.mark.controlplane


GPU = "nvidia.com/gpu"
FED = {"cpu": "8", "memory": "32Gi"}
SELECTOR = {"matchLabels": {"app": "a"}}


def container(limits: Json | None = None, requests: Json | None = None, **fields: Any) -> Json:
    """Of a pod, with what a GPU is fed by."""
    asked = {"requests": FED | (requests or {}), **({"limits": limits} if limits else {})}
    return {"container": {"resources": asked, **fields}}


GOOD, HALF, NO_LIMIT = container({GPU: "1"}), container({GPU: "0.5"}), container(requests={GPU: "1"})
THIEF = {"hostPID": True, **container({GPU: "1"}, securityContext={"privileged": True})}
PATH = "spec.template.spec.containers[0]"
DENIED = 'Error from server (Forbidden): error when creating "STDIN": admission webhook "'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def terminal(control_plane: ControlPlane, installed: Installed) -> AsyncIterator[Terminal]:
    """A namespace for each mode of templates, under one policy with a profile for each; two nodes of eight A100."""
    found = Terminal(control_plane, uuid.uuid4().hex[:6])
    with installed.policy(SHIPPED + PROFILES):
        async with namespaces(found):
            yield found


# --- What must not change ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_good_deployment_is_stored_as_it_was_written_and_its_author_is_told_nothing(
    terminal: Terminal, mode: str
) -> None:
    said = terminal.apply(mode, deployment("good", **GOOD))
    assert (said.out, said.err) == ("deployment.apps/good created", "")
    assert terminal.stored(mode, "good")["resources"] == GOOD["container"]["resources"]
    assert terminal.apply(mode, deployment("good", **GOOD)) == ("deployment.apps/good unchanged", "")


def test_under_mode_off_only_the_api_server_speaks(terminal: Terminal) -> None:
    assert terminal.apply("off", deployment("thief", 0, **THIEF)) == ("deployment.apps/thief created", "")
    said = terminal.apply("off", deployment("half", **HALF))
    assert said.err.startswith(
        f'The Deployment "half" is invalid: {PATH}.resources.limits[nvidia.com/gpu]: Invalid value: '
    )


def test_a_workload_that_was_there_is_scaled_and_labelled_freely_and_judged_when_its_template_changes(
    terminal: Terminal,
) -> None:
    """It was stored while its namespace had mode off."""
    terminal.apply("off", deployment("older", 0, **THIEF))
    relabel = "label", "namespace", terminal.namespaces["off"], "--overwrite"
    terminal.plane.kubectl(*relabel, f"{PROFILE_LABEL}=mode-deny")
    try:
        probe = deployment("probe", **THIEF)
        wait_for(lambda: "denied" in terminal.apply("off", probe, "--dry-run=server").err, "the new label")
        for change in (
            ("scale", "deployment/older", "--replicas=1"),
            ("label", "deployment/older", "team=a"),
            ("annotate", "deployment/older", "note=b"),
            ("patch", "deployment/older", "--patch", '{"spec": {"minReadySeconds": 5}}'),
        ):
            assert terminal.run("off", *change).err == ""
        said = terminal.run("off", "set", "image", "deployment/older", "main=registry.example/app:2")
        assert 'denied the request: Deployment "older": 2 problems' in said.err
    finally:
        terminal.plane.kubectl(*relabel, f"{PROFILE_LABEL}=mode-off")


# --- warn -------------------------------------------------------------------------------------------------------------


def test_kubectl_apply_is_told_what_the_pod_hook_would_refuse(terminal: Terminal) -> None:
    said = terminal.apply("warn", deployment("thief", 0, **THIEF))
    assert said.out == "deployment.apps/thief created"
    told = [line.partition(": its pods will be refused: ") for line in said.lines]
    assert [head for head, *_ in told] == ["Warning: hostNamespaces", "Warning: privileged"]
    assert told[1][2].startswith('true in container "main". ')


# --- What the API server would refuse ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "deny"])
def test_half_a_gpu_in_a_template_is_refused_with_what_to_do(terminal: Terminal, mode: str) -> None:
    (line,) = terminal.apply(mode, deployment("half", **HALF)).lines
    head = f'{DENIED}templates.mutate.gpu-admission.io" denied the request: Deployment "half": '
    assert line.startswith(f'{head}{PATH}.resources.limits[nvidia.com/gpu]: saw "500m"')
    assert line.endswith(" [gpuQuantity] (policy)")


def test_a_request_without_a_limit_is_corrected_under_fix_and_applying_it_again_changes_nothing(
    terminal: Terminal,
) -> None:
    assert terminal.apply("fix", deployment("asks", **NO_LIMIT)).out == "deployment.apps/asks created"
    asked = {"limits": {GPU: "1"}, "requests": FED | {GPU: "1"}}
    assert terminal.stored("fix", "asks")["resources"] == asked
    assert terminal.apply("fix", deployment("asks", **NO_LIMIT)) == ("deployment.apps/asks unchanged", "")
    assert terminal.stored("fix", "asks")["resources"] == asked


def test_errors_that_are_not_about_gpus_are_left_to_the_api_server(terminal: Terminal) -> None:
    said = terminal.apply("deny", deployment("patch", **container({GPU: "1"}, image=None)))
    assert said == ("", f'The Deployment "patch" is invalid: {PATH}.image: Required value')


# --- deny -------------------------------------------------------------------------------------------------------------


def template(**spec: Any) -> Json:
    return {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec(**THIEF, **spec)}


SELECTED, ENDING = {"selector": SELECTOR, "template": template()}, {"template": template(restartPolicy="Never")}
KINDS: dict[str, Json] = {
    "Deployment": SELECTED,
    "DaemonSet": SELECTED,
    "CronJob": {"schedule": "0 1 * * *", "jobTemplate": {"spec": ENDING}},
    "ReplicationController": SELECTED | {"selector": {"app": "a"}},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_workload_is_judged_by_its_template(terminal: Terminal, kind: str) -> None:
    obj = made(kind, "taker", spec=KINDS[kind])
    field = "spec.jobTemplate.spec.template." if kind == "CronJob" else "spec.template."
    head, *lines = terminal.apply("deny", obj).lines
    assert (
        head == f'{DENIED}templates.validate.gpu-admission.io" denied the request: {kind} "taker": 2 problems (policy):'
    )
    assert [(line.partition(": ")[0], line.rpartition(" ")[2]) for line in lines] == [
        (f"- {field}spec.hostPID", "[hostNamespaces]"),
        (f"- {field}spec.containers[0].securityContext.privileged", "[privileged]"),
    ]
    told = terminal.apply("warn", obj, "--dry-run=server")
    assert "hostNamespaces: its pods will be refused: " in told.err


def test_a_stateful_set_that_mounts_its_claim_templates_is_fine(terminal: Terminal) -> None:
    mounting = pod_spec(**container({GPU: "1"}, volumeMounts=[{"name": "data", "mountPath": "/data"}]))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "selector": SELECTOR,
        "serviceName": "a",
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": mounting},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    obj = made("StatefulSet", "stateful", spec=spec)
    for mode in ("warn", "deny"):
        said = terminal.apply(mode, obj)
        assert said.out == "statefulset.apps/stateful created"
        assert "refused" not in said.err


# --- Custom resources -------------------------------------------------------------------------------------------------

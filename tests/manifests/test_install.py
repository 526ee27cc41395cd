"""The installation on a real API server: it is accepted, and its account can do what it needs and nothing else."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.objects import pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.programs import Programs
from tests.manifests.files import MANIFESTS, ORDER, kustomized
from webhook.kube.pod import PROFILE_LABEL
from webhook.server.settings import PREFIX, ServeSettings

pytestmark = pytest.mark.controlplane

OWN = "gpu-admission"


def test_kustomize_applies_kinds_in_the_order_of_the_files(control_plane: ControlPlane) -> None:
    kinds = [ORDER.index(found["kind"]) for found in kustomized(control_plane)]
    assert kinds == sorted(kinds)


def test_the_api_server_accepts_all_of_it_without_a_warning(applied: ControlPlane) -> None:
    answer = applied.kubectl("apply", "-k", str(MANIFESTS), "--dry-run=server")
    assert answer.stderr == ""


def test_applying_again_changes_nothing(applied: ControlPlane) -> None:
    objects = [f for f in kustomized(applied) if f["kind"] not in ("PodDisruptionBudget",)]  # «configured», always
    objects = [f for f in objects if "webhookconfiguration" not in f["kind"].lower() and f["kind"] != "Deployment"]
    text = yaml.safe_dump_all(objects)
    applied.kubectl("apply", "-f", "-", input=text)  # another test may have set a policy
    answer = applied.kubectl("apply", "-f", "-", input=text)
    assert [line for line in answer.stdout.splitlines() if not line.endswith("unchanged")] == []


def test_the_examples_are_accepted_without_a_warning(applied: ControlPlane) -> None:
    namespace = ["namespace", "ml-team"]
    applied.kubectl("create", *namespace)
    try:
        answer = applied.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "examples"), "--dry-run=server")
        assert answer.stderr == ""
    finally:
        applied.kubectl("delete", *namespace, "--wait=false")


def test_the_optional_network_policy_is_accepted(applied: ControlPlane) -> None:
    applied.kubectl("apply", "-f", str(MANIFESTS / "optional" / "network-policy.yaml"), "--dry-run=server")


def test_removing_deletes_the_priority_classes_before_their_guards(applied: ControlPlane) -> None:
    """Otherwise every namespace may use a class that preempts meanwhile."""
    deleted = applied.kubectl(
        "delete", "-k", str(MANIFESTS), "--dry-run=client", "--ignore-not-found", "-o", "name"
    ).stdout
    kinds = [line.partition(".")[0] for line in deleted.splitlines()]
    last_class = len(kinds) - kinds[::-1].index("priorityclass")
    assert last_class <= kinds.index("validatingadmissionpolicy")


def test_an_upgrade_says_which_priority_class_is_immutable_and_the_command_in_the_file_replaces_it(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Under names of their own, so that the installed ones stay."""
    text = (MANIFESTS / "50-priority-classes.yaml").read_text()
    new = tmp_path / "new.yaml"
    new.write_text(text.replace("name: gpu-", "name: upgraded-gpu-"))
    classes = list(yaml.safe_load_all(new.read_text()))
    before = [{**each, "value": 10000} if each["metadata"]["name"].endswith("service") else each for each in classes]
    try:
        control_plane.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(before))
        answer = control_plane.kubectl("apply", "-f", str(new), check=False)
        assert answer.returncode == 1
        assert '"upgraded-gpu-service" is invalid: value: Forbidden: may not be changed in an update' in answer.stderr
        assert "upgraded-gpu-training" not in answer.stderr, "the others are applied"
        (command,) = re.findall(
            r"^#     kubectl (apply --force) -f manifests/50-priority-classes.yaml$", text, re.MULTILINE
        )
        said = control_plane.kubectl(*command.split(), "-f", str(new)).stdout
        assert "upgraded-gpu-training unchanged" in " ".join(said.split())
        stored = json.loads(control_plane.kubectl("get", "-f", str(new), "-o", "json").stdout)["items"]
        assert {each["metadata"]["name"]: each["value"] for each in stored} == {
            each["metadata"]["name"]: each["value"] for each in classes
        }
    finally:
        control_plane.kubectl("delete", "-f", str(new), "--ignore-not-found")


def composed(plane: ControlPlane, folder: Path, *components: str) -> list[dict[str, Any]]:
    """The installation with some components, as a kustomization of a user has it."""
    (folder / "manifests").symlink_to(MANIFESTS)
    parts = {"resources": ["manifests"], "components": [f"manifests/components/{each}" for each in components]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    return kustomized(plane, str(folder))


def test_the_kustomization_that_the_readme_shows_works(control_plane: ControlPlane, tmp_path: Path) -> None:
    first, more = re.findall(r"```yaml\n(.+?)```", (MANIFESTS / "README.md").read_text(), re.DOTALL)
    (tmp_path / "manifests").symlink_to(MANIFESTS)

    def built(name: str, shown: str) -> dict[str, Any]:
        (mine := tmp_path / name).mkdir()
        (mine / "kustomization.yaml").write_text(shown)
        (mine / "policy.yaml").write_text("profiles: {default: {dryRun: true}}\n")
        return {f"{each['kind']}/{each['metadata']['name']}": each for each in kustomized(control_plane, str(mine))}

    (container,) = built("first", first)["Deployment/gpu-admission"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/gpu-admission:0.1.0"
    found = built("more", first + more)
    assert found["ConfigMap/gpu-admission-policy"]["data"] == {"policy.yaml": "profiles: {default: {dryRun: true}}\n"}
    assert "ClusterRole/gpu-admission-events" in found


def test_the_readme_names_every_component() -> None:
    named = re.findall(r"^\| `manifests/components/([a-z-]+)` \|", (MANIFESTS / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(folder.name for folder in (MANIFESTS / "components").iterdir())


@pytest.mark.parametrize("component", ["own-certificate", "cert-manager"])
def test_a_component_takes_away_the_rights_that_issuing_needs(
    applied: ControlPlane, tmp_path: Path, component: str
) -> None:
    found = composed(applied, tmp_path, component)
    resources = {
        r
        for each in found
        if each["kind"] in ("Role", "ClusterRole")
        for rule in each["rules"]
        for r in rule["resources"]
    }
    read = {"namespaces", "nodes", "pods", "priorityclasses"}
    optional = {"horizontalpodautoscalers", "jobs", "resourceslices", "runtimeclasses"}
    optional |= {"persistentvolumeclaims", "persistentvolumes", "resourcequotas", "limitranges", "nodepools"}
    optional |= {"devicetaintrules", "deviceclasses", "resourceclaims", "resourceclaimtemplates"}
    assert resources == {"configmaps", "events", "profiles", "classes", *read, *optional}
    assert not [each for each in found if each["kind"] == "Secret"]
    (server,) = (each for each in found if each["kind"] == "Deployment")
    assert "--tls-cert=/tls/tls.crt" in server["spec"]["template"]["spec"]["containers"][0]["args"]
    ours = [each for each in found if "cert-manager" not in each["apiVersion"]]
    applied.kubectl("apply", "-f", "-", "--dry-run=server", input=yaml.safe_dump_all(ours))


def test_every_pod_takes_away_the_condition_on_devices_and_nothing_else(applied: ControlPlane, tmp_path: Path) -> None:
    (changed,) = (f for f in composed(applied, tmp_path, "every-pod") if f["kind"] == "MutatingWebhookConfiguration")
    (shipped,) = (f for f in kustomized(applied) if f["kind"] == "MutatingWebhookConfiguration")
    conditions = shipped["webhooks"][0]["matchConditions"]
    assert conditions.pop()["name"] == "asks-for-a-device"
    assert changed == shipped
    applied.kubectl("apply", "-f", "-", "--dry-run=server", input=yaml.safe_dump(changed))


MOUNTED = [
    ("prometheus", "/prometheus/", {"prometheus_ca": "ca.crt", "prometheus_token": "token"}),
    ("client-certificate", "/clients/", {"client_ca": "clients.crt"}),
]


@pytest.mark.parametrize(("component", "folder", "files"), MOUNTED, ids=[row[0] for row in MOUNTED])
def test_a_component_gives_the_server_files_that_it_reads(
    applied: ControlPlane, tmp_path: Path, component: str, folder: str, files: dict[str, str]
) -> None:
    (changed,) = (f for f in composed(applied, tmp_path, component) if f["kind"] == "Deployment")
    container = changed["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
    arguments = {
        f"{PREFIX}{name.upper().replace('-', '_')}": value
        for name, _, value in (argument.removeprefix("--").partition("=") for argument in container["args"][1:])
    }
    settings = ServeSettings().with_environment(environment | arguments)
    assert {name: str(getattr(settings, name)) for name in files} == {n: f"{folder}{key}" for n, key in files.items()}
    (mounted,) = (mount for mount in container["volumeMounts"] if f"{mount['mountPath']}/" == folder)
    assert mounted["readOnly"]
    applied.kubectl("apply", "-f", "-", "--dry-run=server", input=yaml.safe_dump(changed))


def test_cert_manager_writes_what_the_server_reads(control_plane: ControlPlane, tmp_path: Path) -> None:
    found = {
        (each["kind"], each["metadata"]["name"]): each for each in composed(control_plane, tmp_path, "cert-manager")
    }
    certificate = found["Certificate", "gpu-admission"]["spec"]
    assert (certificate["secretName"], certificate["dnsNames"]) == (
        "gpu-admission-tls",
        ["gpu-admission.gpu-admission.svc"],
    )
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert found[kind, "gpu-admission"]["metadata"]["annotations"] == {
            "admissions.enforcer/disabled": "true",
            "cert-manager.io/inject-ca-from": "gpu-admission/gpu-admission",
        }


# --- Removal ----------------------------------------------------------------------------------------------------------


async def test_the_documented_removal_ends_well_and_leaves_nothing(programs: Programs, tmp_path: Path) -> None:
    """Nobody answers the hooks here, as when the image is missing: pods are blocked until the first command. What was applied
    is a kustomization of a user, with components that have objects of their own."""
    text = (MANIFESTS.parent / "docs" / "upgrade.md").read_text()
    commands = re.findall(r"^kubectl (delete .*)$", text, re.MULTILINE)
    mine = commands[1].replace("manifests/", str(tmp_path)).split()
    first, second = commands[0].replace("manifests/", f"{MANIFESTS}/").split(), mine
    with ControlPlane(programs) as plane:
        composed(plane, tmp_path, "events", "reader")
        await asyncio.to_thread(plane.kubectl, "apply", "-k", str(tmp_path))
        async with Api.of(plane.kubeconfig) as api:
            await api.namespace("ours", labels={PROFILE_LABEL: "default"})

            async def blocked() -> bool:
                return "failed calling webhook" in await refusal(api.create(pod("a"), "ours", dryRun="All"))

            await wait_until(blocked, 120, "the hooks")
            await asyncio.to_thread(plane.kubectl, *first)
            await wait_until(lambda: api.create(pod("a"), "ours"), 120, "a pod")
            for _ in range(2):  # again: nothing is there any more, and that is well
                for command in (first, second):
                    answer = await asyncio.to_thread(plane.kubectl, *command)
                    assert answer.returncode == 0
                    assert "NotFound" not in answer.stderr
            await api.create(pod("b"), "ours")
        kinds = plane.kubectl("api-resources", "--verbs=list,delete", "-o", "name").stdout.split()
        left = plane.kubectl("get", ",".join({*kinds} - {"events", "events.events.k8s.io"}), "-A", "-o", "name").stdout
        assert [name for name in left.split() if "gpu-" in name] == []


async def test_applying_again_takes_no_key_out_of_the_secret(applied: ControlPlane, api: Api) -> None:
    before = (await api.get("Secret", "gpu-admission-tls", OWN)).get("data")
    probe = {"data": {"test-probe": "eA=="}}
    await api.patch("Secret", "gpu-admission-tls", probe, OWN)
    try:
        (secret,) = (each for each in kustomized(applied) if each["kind"] == "Secret")
        applied.kubectl("apply", "-f", "-", input=yaml.safe_dump(secret))
        after = (await api.get("Secret", "gpu-admission-tls", OWN))["data"]
        assert after == {**(before or {}), "test-probe": "eA=="}
    finally:
        await api.patch("Secret", "gpu-admission-tls", {"data": {"test-probe": None}}, OWN)

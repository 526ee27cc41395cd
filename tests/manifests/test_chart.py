"""The Helm chart is the manifests: object by object, with each component, in any namespace, with Helm 4 and 3."""

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.helm import HELM, find_helm
from tests.controlplane.plane import ControlPlane
from tests.manifests import chart
from tests.manifests.chart_values import ANOTHER, COMPONENTS, WRONG
from tests.manifests.files import MANIFESTS, Json, kustomized, objects_of
from tests.manifests.values import CHART, MAPS
from webhook.errors import PolicyError
from webhook.policy.model import Policy

ROOT = MANIFESTS.parent
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
KEEP = "helm.sh/resource-policy"


def test_what_is_made_from_the_manifests_is_up_to_date() -> None:
    for path, text in chart.files().items():
        assert path.read_text() == text, f"{path.name}: run `make manifests`"
    assert chart.left() == set()


def test_the_chart_is_whole_without_links() -> None:
    """Flux leaves links out of what it fetches: the policy would be empty. Helm names each link, at every command."""
    assert [path.name for path in CHART.rglob("*") if path.is_symlink()] == []


def test_each_component_is_one_value() -> None:
    assert sorted(VALUES["components"]) == sorted(chart.camel(name) for name in COMPONENTS)
    assert set(VALUES["components"].values()) == {False}


def test_every_value_is_in_a_template() -> None:
    text = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    for section, values in VALUES.items():
        names = values if isinstance(values, dict) and section not in MAPS else [""]
        assert [name for name in names if f".Values.{f'{section}.{name}'.strip('.')}" not in text] == []


def test_helm_never_owns_what_the_server_writes() -> None:
    """Helm 4 applies on the server: a field that it owns and somebody else changes ends each upgrade with a conflict."""
    for path in (CHART / "templates").glob("*.yaml"):
        text = path.read_text()
        assert not re.search(r"^ *caBundle:|\blookup ", text, re.MULTILINE), path.name
        for part in text.split("\n---\n"):
            assert "kind: Secret\n" not in part or not re.search(r"^(data|stringData):", part, re.MULTILINE)


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    (kustomization,) = yaml.safe_load_all((MANIFESTS / "kustomization.yaml").read_text())
    newest = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    versions = {described["version"], described["appVersion"], kustomization["images"][0]["newTag"], newest}
    assert versions == {project}


def test_every_release_says_how_to_upgrade() -> None:
    releases = re.split(r"^## \[", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    assert [each.partition("]")[0] for each in releases if "\n### Upgrade\n" not in each] == []


# --- With Helm --------------------------------------------------------------------------------------------------------

MAJORS = pytest.mark.parametrize("major", HELM)
APIS = ("--api-versions=cert-manager.io/v1", "--api-versions=monitoring.coreos.com/v1")


def helm(major: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([find_helm(major), *arguments], capture_output=True, text=True, check=False)


def rendered(major: str, *values: str, namespace: str = "gpu-admission", apis: tuple[str, ...] = APIS) -> list[Json]:
    """What `helm install` would apply. Raises AssertionError with what Helm says."""
    sets = [word for value in values for word in ("--set", value)]
    answer = helm(major, "template", "release", str(CHART), "--namespace", namespace, "--skip-tests", *apis, *sets)
    assert answer.returncode == 0, answer.stderr
    return objects_of(answer.stdout)


def by_name(objects: list[Json]) -> dict[tuple[str, str, str], Any]:
    """Each object, by its kind, namespace and name; but for the one annotation that only Helm reads."""
    found = {}
    for each in objects:
        metadata = each["metadata"]
        if metadata.get("annotations", {}).pop(KEEP, "keep") == "keep":
            metadata = {name: value for name, value in metadata.items() if value != {}}
        found[each["kind"], metadata.get("namespace", ""), metadata["name"]] = {**each, "metadata": metadata}
    assert len(found) == len(objects)
    return found


@pytest.mark.controlplane
@MAJORS
def test_the_default_is_what_kubectl_installs(control_plane: ControlPlane, major: str) -> None:
    wanted = by_name(kustomized(control_plane))
    assert by_name(rendered(major, "namespace.create=true")) == wanted
    del wanted["Namespace", "", "gpu-admission"]  # where Helm stores its release before it creates anything
    assert by_name(rendered(major)) == wanted


@pytest.mark.controlplane
@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_what_it_is_in_a_kustomization(
    control_plane: ControlPlane, tmp_path: Path, component: str
) -> None:
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    parts = {"resources": ["manifests"], "components": [f"manifests/components/{component}"]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(parts))
    found = rendered("4", "namespace.create=true", f"components.{chart.camel(component)}=true")
    assert by_name(found) == by_name(kustomized(control_plane, str(tmp_path)))


@pytest.mark.controlplane
def test_all_follow_the_namespace_of_the_release(control_plane: ControlPlane) -> None:
    components = [f"components.{chart.camel(name)}=true" for name in COMPONENTS if name != "own-certificate"]
    components.append("nvidiaSmi.namespace=drivers")
    here, there = rendered("4", *components), rendered("4", *components, namespace="elsewhere")
    text = json.dumps(there)
    for word in (
        '"namespace": "gpu-admission"',
        "serviceaccount:gpu-admission:",
        "admission.svc",
        '"namespace": "gpu-operator"',
        '"values": ["gpu-admission"',
        "-n gpu-admission",
    ):
        assert word not in text
    assert "gpu-admission.elsewhere.svc" in text
    moved = text.replace("elsewhere", "gpu-admission")
    assert json.loads(moved) == json.loads(json.dumps(here))


@pytest.mark.controlplane
def test_a_namespace_whose_name_looks_like_a_number_is_one(control_plane: ControlPlane, tmp_path: Path) -> None:
    components = {chart.camel(name): name != "own-certificate" for name in COMPONENTS}
    given = {"components": components, "nvidiaSmi": {"namespace": "456"}, "exemptNamespaces": ["789"]}
    values = {**given, "priorityClassName": "1234", "namespace": {"create": True}}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    where = ("--namespace", "123", "--values", str(tmp_path / "values.yaml"))
    answer = helm("4", "template", "release", str(CHART), *where, *APIS)
    assert answer.returncode == 0, answer.stderr
    assert {each for found in objects_of(answer.stdout) for each in numbers_in(found)} & {123, 456, 789, 1234} == set()


@pytest.mark.controlplane
def test_the_namespace_of_a_test_has_a_name_that_is_short_enough(control_plane: ControlPlane) -> None:
    answer = helm("4", "template", "release", str(CHART), "--namespace", "n" * 63)
    assert max(len(each["metadata"]["name"]) for each in objects_of(answer.stdout)) <= 63


def numbers_in(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)
    elif isinstance(value, int):
        yield value


@pytest.fixture(scope="module")
def default(control_plane: ControlPlane) -> list[Json]:
    """What the API server takes already: it is what kubectl installs."""
    return rendered("4")


@pytest.mark.controlplane
@pytest.mark.parametrize(("value", "kind", "path", "wanted"), ANOTHER, ids=[row[0][:40] for row in ANOTHER])
def test_a_value_changes_what_it_says_and_the_api_server_takes_it(
    applied: ControlPlane, default: list[Json], value: str, kind: str, path: str | None, wanted: Any
) -> None:
    found = rendered("4", value)
    objects = [each for each in found if each["kind"] == kind]
    if path is None:
        assert objects == []
    else:
        seen: Any = objects[0]
        for step in path.strip("/").split("/"):
            seen = seen[int(step)] if isinstance(seen, list) else seen[step]
        assert seen == wanted or (isinstance(wanted, str) and wanted in str(seen))
    others = ("cert-manager.io", "monitoring.coreos.com")
    served = [each for each in found if each not in default and each["apiVersion"].split("/")[0] not in others]
    served = [each for each in served if each["metadata"].get("namespace") != "gpu-operator"]  # is not there
    if served:
        answer = applied.kubectl("apply", "--dry-run=server", "-f", "-", input=yaml.safe_dump_all(served))
        warnings = [
            line for line in answer.stderr.splitlines() if "hostNetwork" not in value or "restricted" not in line
        ]
        assert warnings == []  # the namespace there is of level restricted: NOTES.txt says what to do


@pytest.mark.controlplane
@pytest.mark.parametrize("enabled", [True, False])
def test_a_chart_of_charts_can_switch_it_on_and_off(tmp_path: Path, enabled: bool) -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    part = {"name": "gpu-admission", "version": version, "condition": "gpu-admission.enabled"}
    whole = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [part]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(whole))
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "gpu-admission").symlink_to(CHART)
    answer = helm(
        "4", "template", str(tmp_path), "--namespace=ops", *APIS, f"--set=gpu-admission.enabled={enabled}".lower()
    )
    assert (answer.returncode, "kind: Deployment" in answer.stdout) == (0, enabled), answer.stderr


@pytest.mark.controlplane
@MAJORS
@pytest.mark.parametrize(("values", "said"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_a_wrong_value_is_refused_with_the_next_step(
    control_plane: ControlPlane, major: str, values: tuple[str, ...], said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        rendered(major, *values)


@pytest.mark.controlplane
@MAJORS
@pytest.mark.parametrize(
    ("policy", "said"),
    [
        pytest.param(
            "profiles: {default: {rules: {gpuLimt: {perPod: 8}}}}", "profiles.default.rules.gpuLimt", id="key"
        ),
        pytest.param(
            "profiles: {a: {rules: {gpuLimit: {action: denny}}}}", 'gpuLimit.action "denny", wanted', id="word"
        ),
        pytest.param("gpus: [{name: a/b, king: whole}]", "gpus.0.king", id="a key in a list"),
        pytest.param("profiles: {default: {rules: [gpuLimit]}}", "profiles.default.rules, wanted a map", id="a list"),
        pytest.param("profiles:\n\tdefault: {}", "policy.text is no YAML", id="no YAML"),
        pytest.param("- profiles", "policy.text is no YAML", id="no map"),
    ],
)
def test_a_policy_with_a_mistake_is_refused_before_there_is_a_webhook(
    control_plane: ControlPlane, major: str, policy: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(PolicyError):
        Policy.load(policy)
    (file := tmp_path / "policy.yaml").write_text(policy)
    command = ["install", "gpu", str(CHART), "--namespace=gpu-admission", f"--set-file=policy.text={file}"]
    answer = helm(major, *command, f"--kubeconfig={control_plane.kubeconfig}")
    assert answer.returncode == 1
    assert said in answer.stderr
    assert "gpu-admission policy lint" in answer.stderr


GOOD = {
    path.name: path.read_text()
    for path in [MANIFESTS / "policy.yaml", *(MANIFESTS / "examples" / "profiles").glob("*.yaml")]
}
GOOD["entries added to lists"] = (
    "gpus: [{name: a.example/gpu}, ...]\nprofiles: {default: {rules: {hostDevices: {allowed: [/a, ...]}}}}"
)


@pytest.mark.controlplane
@MAJORS
@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_a_good_policy_is_taken_as_it_is(control_plane: ControlPlane, major: str, text: str, tmp_path: Path) -> None:
    assert Policy.load(text).hash
    (file := tmp_path / "policy.yaml").write_text(text)
    answer = helm(
        major, "template", "gpu", str(CHART), "-n", "gpu-admission", "--skip-tests", f"--set-file=policy.text={file}"
    )
    assert answer.returncode == 0, answer.stderr
    (taken,) = [each for each in objects_of(answer.stdout) if each["metadata"]["name"] == "gpu-admission-policy"]
    assert taken["data"]["policy.yaml"].strip() == text.strip()


@pytest.mark.controlplane
@MAJORS
@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("default", "replicas=2", "Add: --namespace gpu-admission --create-namespace"),
        ("gpu-admission", "components.certManager=true", "Install cert-manager first"),
        ("gpu-admission", "components.monitoring=true", "Install the Prometheus operator first"),
    ],
)
def test_a_cluster_that_lacks_something_is_named_with_the_next_step(
    control_plane: ControlPlane, major: str, where: str, value: str, said: str
) -> None:
    with pytest.raises(AssertionError, match=said):
        rendered(major, value, namespace=where, apis=())


@pytest.mark.controlplane
@MAJORS
def test_helm_has_nothing_against_the_chart(control_plane: ControlPlane, major: str) -> None:
    answer = helm(major, "lint", "--strict", str(CHART))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "[WARNING]" not in answer.stdout


@pytest.mark.controlplane
def test_versions_of_managed_clusters_are_taken_and_older_ones_are_not(control_plane: ControlPlane) -> None:
    arguments = ("template", "release", str(CHART), "--namespace", "gpu-admission", "--kube-version")
    assert helm("4", *arguments, "v1.34.1-gke.100").returncode == 0
    assert "kubeVersion: >=1.34.0-0" in helm("4", *arguments, "v1.33.9").stderr

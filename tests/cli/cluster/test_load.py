"""Reading a cluster with a kubeconfig: pages, missing rights, unreachable servers.

Covers cli.reading.
"""

import asyncio
from pathlib import Path

import pytest

from tests.cli.objects import kubeconfig, namespace, snapshot
from tests.feeds.fake_api import FakeApi, fake_api
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.load import load, way_to_api
from webhook.cli.reading import namespace_of, snapshot_of
from webhook.errors import BadInput
from webhook.feeds import api, file
from webhook.kube.kinds import KINDS
from webhook.whatif.cluster.snapshot import CLAIMS, ENGINE

NODES, PODS, EVENTS = "/api/v1/nodes", "/api/v1/pods", "/api/v1/events"


def fill(fake: FakeApi) -> None:
    for number in range(3):
        fake.put(NODES, f"n-{number}")
        fake.put(PODS, f"p-{number}", metadata={"namespace": "team"}, spec={}, status={})


async def test_lists_are_read_in_pages_and_objects_have_their_kind(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fill(fake)
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod"))
    assert [obj["kind"] for obj in found.of("Node")] == ["Node"] * 3
    assert set(found.nodes) == {"n-0", "n-1", "n-2"}
    assert fake.asked("list", NODES)[0]["limit"] == "500"
    assert found.namespace == "team"
    assert found.taken > 1e9
    assert found.missing == {}


async def test_a_right_that_is_missing_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fill(fake)
        fake.refuse["list", EVENTS] = (403, "no")
        fake.refuse["list", "/apis/scheduling.k8s.io/v1beta1/podgroups"] = (404, "not served")
        found = await asyncio.to_thread(
            load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod", "Event", "PodGroup")
        )
    assert found.missing == {"Event": "no right to list events"}
    assert len(found.of("Pod")) == 3
    assert found.of("PodGroup") == [], "what is not served is not there"


async def test_a_cluster_without_dra_has_no_devices(tmp_path: Path) -> None:
    """As Kubernetes without the API group, or with a gate of it that is off."""
    async with fake_api() as fake:
        fill(fake)
        for name in ("ResourceSlice", *CLAIMS):
            fake.refuse["list", KINDS[name].path()] = (404, "not served")
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, (*ENGINE, *CLAIMS))
    assert found.missing == {}
    assert [found.of(name) for name in CLAIMS] == [[], [], []]
    assert list(found.state.nodes.devices.published()) == []


@pytest.mark.parametrize("version", ["v1", "v2beta1"])
async def test_a_kind_is_read_in_the_version_that_its_operator_has(tmp_path: Path, version: str) -> None:
    """The training operator has MPIJobs in v1, the MPI operator in v2beta1."""
    async with fake_api() as fake:
        fill(fake)
        fake.put(f"/apis/kubeflow.org/{version}/mpijobs", "fit", metadata={"namespace": "team"}, spec={})
        for other in {"v1", "v2beta1"} - {version}:
            fake.refuse["list", f"/apis/kubeflow.org/{other}/mpijobs"] = (404, "not served")
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod", "MPIJob"))
    assert [obj["metadata"]["name"] for obj in found.of("MPIJob")] == ["fit"]


@pytest.mark.parametrize("asked", ["team", None], ids=["the namespace of the question", "the namespace of the context"])
async def test_with_rights_in_one_namespace_only_that_namespace_is_read(tmp_path: Path, asked: str | None) -> None:
    async with fake_api() as fake:
        fill(fake)
        fake.refuse["list", PODS] = (403, "no")
        fake.put("/api/v1/namespaces/team/pods", "mine", metadata={"namespace": "team"})
        found = await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod"), asked)
    assert [obj["metadata"]["name"] for obj in found.of("Pod")] == ["mine"]
    assert found.missing == {"Pod": "no right to list pods of other namespaces than team"}


async def test_who_may_not_list_namespaces_may_still_get_his_own(tmp_path: Path) -> None:
    """The ClusterRole view, bound in a namespace, has that right."""
    async with fake_api() as fake:
        fill(fake)
        fake.refuse["list", "/api/v1/namespaces"] = (403, "no")
        fake.put("/api/v1/namespaces", "team", metadata={"labels": {"gpu-admission.io/profile": "default"}})
        found = await asyncio.to_thread(
            load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod", "Namespace"), "team"
        )
    assert [obj["metadata"]["name"] for obj in found.of("Namespace")] == ["team"]
    assert found.missing == {"Namespace": "no right to list namespaces"}


async def test_a_question_about_all_namespaces_needs_the_right_in_all(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fake.refuse["list", PODS] = (403, "no")
        with pytest.raises(
            BadInput,
            match=r"^no right to list pods, and nothing can be said without: the ClusterRole gpu-admission-viewer gives it",
        ):
            await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod"))


async def test_an_unknown_user_is_told_to_log_in_again(tmp_path: Path) -> None:
    async with fake_api() as fake:
        fake.refuse["list", NODES] = (401, "Unauthorized")
        with pytest.raises(BadInput, match=r"^the API server refuses the kubeconfig: .* wrong, or has expired \(401\)"):
            await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node",))


def test_an_unreachable_server_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^the API server cannot be asked: .*Is it the right --context") as caught:
        load(kubeconfig(tmp_path, "http://127.0.0.1:9"), None, ("Node",))
    assert "\n" not in str(caught.value)
    assert "ssl" not in str(caught.value)


async def test_a_connection_may_take_as_long_as_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the handshake takes longer than the server would wait for it."""
    monkeypatch.setattr(api, "CONNECT_SECONDS", 1e-9)
    async with fake_api() as fake:
        fill(fake)
        assert (await asyncio.to_thread(load, kubeconfig(tmp_path, fake.url), None, ("Node", "Pod"))).of("Pod")


def test_missing_contexts_and_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(BadInput, match=r"^--context three: .* has no such context: it has one, two$"):
        load(config, "three", ("Node",))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(BadInput, match=r"no kubeconfig there. Give --kubeconfig FILE, or --from FILE for a snapshot"):
        load(None, None, ("Node",))


def test_a_file_and_a_cluster_are_not_given_together(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^saw --from with --kubeconfig or --context, wanted one"):
        snapshot_of(tmp_path, tmp_path, None, ())


async def test_the_default_namespace_is_that_of_the_context(tmp_path: Path) -> None:
    async with fake_api() as fake:
        config = kubeconfig(tmp_path, fake.url)
        one, two = [await asyncio.to_thread(load, config, context, ("Node",)) for context in (None, "two")]
    assert [namespace_of(None, False, one), namespace_of(None, False, two)] == ["team", "other"]
    assert [namespace_of("a", False, one), namespace_of(None, True, one)] == ["a", None]


def test_an_unknown_namespace_is_an_error_if_all_are_known(tmp_path: Path) -> None:
    found = snapshot(tmp_path, namespace("team-a"))
    with pytest.raises(BadInput, match=r'no namespace "team-b"; did you mean team-a\?'):
        namespace_of("team-b", False, found)
    assert namespace_of("team-b", False, snapshot(tmp_path)) == "team-b"


def test_a_file_may_have_pods_of_a_namespace_without_its_namespace(tmp_path: Path) -> None:
    found = snapshot(
        tmp_path,
        namespace("team-a"),
        {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-b"}, "spec": {}, "status": {}},
    )
    assert namespace_of("team-b", False, found) == "team-b"


def test_a_file_may_have_every_kind_that_is_read(tmp_path: Path) -> None:
    for kind in (*KINDS, *QUESTIONS):
        obj = {"kind": kind, "metadata": {"name": "a", "namespace": "b"}}
        assert list(file.objects_in(obj, tmp_path)) == [(kind, obj)]


async def test_rights_that_are_missing_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with fake_api() as fake:
        fill(fake)
        kinds = ("Node", "Pod", "Event", "Job", "CSINode", "StorageClass", "JobSet", "ConfigMap")
        for kind in kinds[2:7]:
            fake.refuse["list", KINDS[kind].path()] = (403, "no")
        fake.refuse["list", KINDS["ConfigMap"].path("gpu-admission")] = (403, "no")
        await asyncio.to_thread(snapshot_of, None, kubeconfig(tmp_path, fake.url), None, kinds, "team")
    assert capsys.readouterr().err == (
        "warning: no right to list csinodes and 4 more kinds (the ClusterRole gpu-admission-viewer gives it): what depends on "
        "them is not known\n"
    )


@pytest.mark.parametrize(("files", "namespace"), [({"namespace": "mine\n"}, "mine"), ({}, "default")])
def test_in_a_pod_the_namespace_is_that_of_its_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], namespace: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("webhook.cli.cluster.load.SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert way_to_api(None, None)[0] == namespace

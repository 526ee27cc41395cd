"""From nvidia-smi in the pods of a device plugin to the node that a pod is bound to.

The API server, its RBAC, the guard of the component and the streams between webhook and API server are real. There is no kubelet
here, and no GPU. In the kubelet's place stands a second kwok: it serves `exec` to the API server by the kubelet's own protocol,
and starts a program of this machine, not one in a container. That program says what nvidia-smi would.
"""

import json
import os
import re
import urllib.request
from collections.abc import AsyncIterator, Iterator
from urllib.error import URLError

import pytest
import yaml

from bench.load import anybody
from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_namespace
from tests.controlplane.nodes import node
from tests.controlplane.objects import Json, pod, required
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Program, wait_for
from tests.controlplane.settings import HOST, STAGES, free_port
from tests.installed import ACCOUNT, NAMESPACE, ROOT, SHIPPED, Installed, decision
from webhook.nodes.gpu_metrics import PODS

pytestmark = pytest.mark.controlplane

PLUGINS = "gpu-operator"
PLUGIN = {"app": "nvidia-device-plugin-daemonset"}
RUN = PODS["nvidiaSmi"].command
COMMAND = RUN.line.split() if RUN else []
COMPONENT = ROOT / "manifests" / "components" / "nvidia-smi"
SCRIPT = """#!/bin/sh
[ "$*" = "$WANTED" ] || { echo "asked for $*"; exit 64; }
case $SAYS in
fails) echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9 ;;
*) printf '%b' "$SAYS" ;;
esac
"""


def gpus(*rows: str) -> str:
    """What nvidia-smi writes, with a UUID for each row."""
    return "".join(f"GPU-0000000{at}-1111-2222-3333-444444444444, {row}\\n" for at, row in enumerate(rows))


IDLE = "0, 4, 81559, 29"
SAYS = {
    "a-busy": gpus("98, 73797, 81559, 66", *["100, 73797, 81559, 64"] * 7),
    "c-idle": gpus(*[IDLE] * 8),
    "d-fails": "fails",
    "h-absent": "",
}
"""By node. The pod on the last one has a kubelet that cannot run the command."""


@pytest.fixture(scope="module")
def kubelets(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of the kubelets of all nodes that name it."""
    folder = tmp_path_factory.mktemp("kubelets")
    (folder / "nvidia-smi").write_text(SCRIPT)
    (folder / "nvidia-smi").chmod(0o755)
    execs = [
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Exec",
            "metadata": {"name": f"plugin-{name}", "namespace": PLUGINS},
            "spec": {"execs": [{"containers": ["main"], "local": {"envs": environment(says)}}]},
        }
        for name, says in SAYS.items()
        if says
    ]
    (folder / "execs.yaml").write_text(yaml.safe_dump_all(execs))
    port = free_port()
    flags = [
        f"--kubeconfig={control_plane.kubeconfig}",
        f"--config={STAGES},{folder / 'execs.yaml'}",
        "--manage-nodes-with-label-selector=nobody/manages=this",
        f"--server-address={HOST}:{port}",
        f"--tls-cert-file={control_plane.folder / 'apiserver.crt'}",
        f"--tls-private-key-file={control_plane.folder / 'apiserver.key'}",
    ]
    path = f"{folder}:{os.environ['PATH']}"
    kwok = control_plane.programs.path("kwok")
    program = Program("kubelets", [kwok, *flags], control_plane.folder, os.environ | {"PATH": path})
    program.start()
    wait_for(lambda: healthy(port), "the kubelets", [program], 120)
    yield port
    program.stop(patience=0)


def environment(says: str) -> list[Json]:
    return [{"name": "SAYS", "value": says}, {"name": "WANTED", "value": " ".join(COMMAND[1:])}]


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"https://{HOST}:{port}/healthz", timeout=5, context=anybody()) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def served(name: str, kubelets: int) -> Json:
    """A node with eight GPUs and the address of its kubelet."""
    made = node(name)
    made["status"]["addresses"] = [{"type": "InternalIP", "address": HOST}]
    made["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": kubelets}}
    return made


@pytest.fixture
async def plugins(api: Api, kubelets: int, nodes: MakeNodes) -> AsyncIterator[None]:
    """The nodes, each with the pod of a device plugin."""
    await nodes([served(name, kubelets) for name in SAYS])
    await api.namespace(PLUGINS)
    for name in SAYS:
        await api.create(pod(f"plugin-{name}", 0, labels=PLUGIN, nodeName=name), PLUGINS)

    async def run() -> bool:
        found = await api.pods(PLUGINS)
        return len(found) == len(SAYS) and all(each["status"].get("podIP") for each in found)

    await wait_until(run, 120, "the pods of the device plugin run")
    yield
    await remove_namespace(api, PLUGINS)

    async def gone() -> bool:
        return bool(await refusal(api.get("Namespace", PLUGINS)))

    await wait_until(gone, 120, "the namespace to be gone")


@pytest.fixture
def component(control_plane: ControlPlane, plugins: None) -> Iterator[ControlPlane]:
    """The component, as it is shipped."""
    files = [f"--filename={COMPONENT / name}" for name in ("access.yaml", "guard.yaml")]
    control_plane.kubectl("apply", *files)
    account = f"--as=system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    control_plane.await_right("create", "pods", "--subresource=exec", f"--namespace={PLUGINS}", account)
    yield control_plane
    control_plane.kubectl("delete", "--ignore-not-found", *files)


@pytest.fixture
def source(installed: Installed) -> Iterator[Installed]:
    """A policy with nvidia-smi as the source."""
    policy = yaml.safe_load(SHIPPED)
    policy["gpuMetrics"] |= {"source": "nvidiaSmi", "interval": "4s", "timeout": "4s", "staleAfter": "60s"}
    with installed.policy(yaml.safe_dump(policy)):
        yield installed


MEASURED = required("kubernetes.io/hostname", "In", "a-busy", "c-idle")
"""A node of which nothing is known is as good as an idle one."""


def said(installed: Installed, event: str) -> list[Json]:
    return [line for line in installed.decisions() if event in line.get("event", "")]


async def test_what_nvidia_smi_says_decides_where_a_pod_is_bound_and_silent_nodes_are_named(
    api: Api, team: str, component: ControlPlane, source: Installed
) -> None:
    async def ranked() -> bool:
        record = decision(await api.create(pod("probe", gpus=8), team, dryRun="All"))
        return record["by"][:2] == ["metrics", "nvidiaSmi"]

    await wait_until(ranked, 120, "nodes are ranked by what nvidia-smi says")
    made = await api.create(pod("p", gpus=8, affinity=MEASURED), team)
    assert (await api.bound(team, "p"))["spec"]["nodeName"] == "c-idle", decision(made)
    numbers = {entry[0]: entry[4:] for entry in decision(made)["nodes"] if len(entry) > 4}
    assert numbers["c-idle"] == [8, 0]

    async def measured() -> bool:  # of a node whose kubelet has been asked too early, in the next round
        return source.metrics()["gpu_admission_gpu_metrics_gpus"] == 8 * 2

    await wait_until(measured, 120, "the numbers of both nodes")
    named = {name: line["why"] for line in said(source, "some nodes gave no") for name in line["nodes"]}
    assert named.keys() >= {"d-fails", "h-absent"}
    first = next(why for name, why in named.items() if name == "d-fails")
    assert re.search(r'it wrote "NVIDIA-SMI has failed because it couldn', first)


REFUSED = [
    pytest.param(PLUGINS, ["exec", "plugin-c-idle", "--", "id"], "runs nothing in a pod but nvidia-smi", id="another"),
    pytest.param(PLUGINS, ["exec", "plugin-c-idle", "--", "nvidia-smi", "-r"], "nothing in a pod but", id="other flags"),
    pytest.param(PLUGINS, ["exec", "-i", "plugin-c-idle", "--", *COMMAND], "nothing in a pod but", id="with an input"),
    pytest.param(PLUGINS, ["attach", "plugin-c-idle"], "cannot create resource \"pods/attach\"", id="attach"),
    pytest.param("default", ["exec", "x", "--", *COMMAND], "cannot create resource \"pods/exec\"", id="elsewhere"),
]  # fmt: skip


async def test_our_account_runs_this_command_and_no_other(component: ControlPlane, installed: Installed) -> None:
    ours = component.kubeconfig_for(NAMESPACE, ACCOUNT)
    getter = ["clusterrolebinding", "kubectl-exec-gets-the-pod"]
    component.kubectl("create", "clusterrole", getter[1], "--verb=get", "--resource=pods")
    component.kubectl("create", *getter, f"--clusterrole={getter[1]}", f"--serviceaccount={NAMESPACE}:{ACCOUNT}")
    component.kubectl("run", "x", "--image=i", "--overrides", json.dumps({"spec": {"nodeName": "c-idle"}}))

    def guarded() -> bool:  # the API server takes up an admission policy by a watch: until then it allows every command
        tried = component.kubectl("exec", "-n", PLUGINS, "plugin-c-idle", "--", "true", kubeconfig=ours, check=False)
        return "runs nothing in a pod but nvidia-smi" in tried.stderr

    try:
        wait_for(guarded, "the guard to be in force", timeout=120)
        answer = component.kubectl("exec", "-n", PLUGINS, "plugin-c-idle", "--", *COMMAND, kubeconfig=ours)
        assert answer.stdout.count("GPU-") == 8
        for case in REFUSED:
            namespace, command, why = case.values
            refused = component.kubectl("-n", str(namespace), *command, kubeconfig=ours, check=False)  # type: ignore[misc]
            assert refused.returncode != 0, case.id
            assert str(why) in refused.stderr, case.id
    finally:
        component.kubectl("delete", "pod", "x", "--grace-period=0", "--force")
        component.kubectl("delete", "clusterrole,clusterrolebinding", getter[1])

"""The webhook on a control plane: installed by the shipped manifests, running with the token of its own ServiceAccount.

There is no kubelet and no pod network here, so two things differ from a cluster: the program runs beside the control plane
instead of in its Deployment, and the webhook configurations name it by URL instead of by Service. All else of the manifests
is applied as it is, the access rules above all.
"""

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError

import pytest

from tests import pretended
from tests.controlplane import clusters
from tests.controlplane.api import Api, ApiError, wait_until
from tests.controlplane.fixtures import MakeNodes, remove_namespace
from tests.controlplane.kinds import path
from tests.controlplane.objects import made, pod
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Program, wait_for
from tests.controlplane.settings import address_of_this_machine, free_port
from tests.manifests.files import HOOKS, kustomized

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = (ROOT / "manifests" / "policy.yaml").read_text()
DECISION = "gpu-admission.io/decision"
NAMESPACE = ACCOUNT = "gpu-admission"
PROFILE_LABEL = "gpu-admission.io/profile"
OPTED_IN = {PROFILE_LABEL: "default"}
_LEFT_OUT = ("Deployment", "PodDisruptionBudget")
"""Without kubelets its pods would only look as if they ran."""
PROBES, BARE = "probes", "probes-bare"
"""A namespace that has opted in, for dry runs, and one that has not, for pods that the scheduler is to find."""


@dataclass(eq=False)
class Installed:
    """A running webhook. `text`: of a policy instead of the shipped one. `replicas`: processes; connections are
    shared out among those that are ready, as a Service does. `before`: Python that each runs first, to wait less. `settings`:
    more of the environment. `routed`: the API server finds the Service's endpoints itself, so the hooks stay as they are.
    `release`: the namespace where all is installed already. `source`: the files of this version.
    `flags`: more of `kubectl apply`."""

    plane: ControlPlane
    text: str | None = None
    replicas: int = 1
    before: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    reachable: bool = False
    routed: bool = False
    release: str = ""
    source: Path = ROOT
    flags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.ports = [free_port() for _ in range(self.replicas)]
        self.ops_ports = [free_port() for _ in range(self.replicas)]
        self.members: list[Program] = []
        self._front = self.ports[0] if self.replicas == 1 else free_port()
        self._balancer: Program | None = None
        self._namespace = self.release or NAMESPACE
        self._host = address_of_this_machine() if self.reachable else "127.0.0.1"

    def __enter__(self) -> Self:
        try:
            if not self.release:
                self._install()
            kubeconfig = self.plane.kubeconfig_for(self._namespace, ACCOUNT)
            if self.replicas > 1:
                self._pretend()
            self.members = [self._program(number, kubeconfig) for number in range(len(self.ports))]
            for member in self.members:
                member.start()
            if self._front != self.ports[0]:
                command = [sys.executable, "-m", "tests.e2e.proxy", str(self._front)]
                command += [f"{port}:{ops}" for port, ops in zip(self.ports, self.ops_ports, strict=True)]
                self._balancer = Program("balancer", command, self.plane.folder, _environment())
                self._balancer.start()
            for number in range(len(self.members)):
                self.await_ready(number)
            wait_for(self._trusted, "caBundle in both webhook configurations", self.members, 120)
        except BaseException:
            self.close()
            raise
        return self

    def _install(self, *kinds: str) -> None:
        """Without `kinds`: all of them. Hooks come last: kustomize sees to that."""
        shipped = kustomized(self.plane, str(self.source / "manifests"))
        wanted = [each for each in shipped if each["kind"] not in _LEFT_OUT and each["kind"] in (kinds or each["kind"])]
        self._apply([self._adjusted(each) for each in wanted])

    def upgrade(self) -> None:
        """To the version that is tested: its manifests, then one replica after another."""
        self.source = ROOT
        self._install()
        self._replace(patience=60)

    def _replace(self, patience: float) -> None:
        """Each replica by a new one, on its ports."""
        kubeconfig = self.plane.kubeconfig_for(self._namespace, ACCOUNT)
        for number, member in enumerate(self.members):
            member.stop(patience)
            self.members[number] = self._program(number, kubeconfig)
            self.members[number].start()
            self.await_ready(number)

    @contextmanager
    def running(self, before: str) -> Iterator[None]:
        """With other replicas, which run this first."""
        ours, self.before = self.before, before
        try:
            self._replace(patience=0)
            yield
        finally:
            self.before = ours
            self._replace(patience=0)

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes and takes the webhook configurations away, so that nothing is called any more."""
        for member in (*self.members, *filter(None, [self._balancer])):
            member.stop(patience=0)
        with suppress(OSError):
            self._remove_hooks()

    def _remove_hooks(self) -> None:
        for kind in HOOKS:
            with suppress(HTTPError):  # there are none
                self.plane.request("DELETE", path(kind, name="gpu-admission"))

    @contextmanager
    def away(self) -> Iterator[None]:
        """Without the webhook configurations, and with them again."""
        self._remove_hooks()
        try:
            yield
        finally:
            self._install(*HOOKS)
            wait_for(self._trusted, "caBundle in both webhook configurations", self.members, 120)

    def await_ready(self, number: int = 0, within: float = 120) -> None:
        """Until the replica says that it is ready."""

        def ready() -> bool:
            with suppress(OSError):
                return bool(self.readiness(number))
            return False

        wait_for(ready, f"replica {number} to be ready", [self.members[number]], within)

    def metrics(self, number: int = 0) -> dict[str, float]:
        """Every sample of /metrics, by its name with labels."""
        lines = [line for line in self._page(number, "metrics").splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    def readiness(self, number: int = 0) -> str:
        """What a replica that is ready says of itself."""
        return self._page(number, "readyz", timeout=5)

    def _page(self, number: int, name: str, timeout: float = 120) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ops_ports[number]}/{name}", timeout=timeout) as answer:
            return str(answer.read().decode())

    def decisions(self) -> list[dict[str, Any]]:
        """The log lines of all replicas so far."""
        lines = [line for member in self.members for line in member.log.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def set_policy(self, text: str) -> None:
        """Replace the policy in its ConfigMap. The webhook takes it up by its watch."""
        where = path("ConfigMap", NAMESPACE, "gpu-admission-policy") + "?fieldManager=tests&force=true"
        self.plane.request("PATCH", where, _policy_map(text), "application/apply-patch+yaml")

    @contextmanager
    def policy(self, text: str) -> Iterator[None]:
        """Another policy within, and the shipped one again after it."""
        self.set_policy(text)
        try:
            yield
        finally:
            self.set_policy(SHIPPED)

    def _pretend(self) -> None:
        """The pods of the replicas, and if need be their places behind the Service."""
        (server,) = [found for found in kustomized(self.plane) if found["kind"] == "Deployment"]
        template, numbers = server["spec"]["template"], range(self.replicas)
        ports = [{"https": self.ports[number], "ops": self.ops_ports[number]} for number in numbers]
        objects = [pretended.of_template(template, number, self._namespace, ports[number]) for number in numbers]
        if self.routed:
            objects += [pretended.endpoint(n, self._namespace, self._host, self.ports[n]) for n in numbers]
        self._apply(objects)
        for number in numbers:
            where = path("Pod", self._namespace, pretended.name_of(number), "status")
            change = {"status": pretended.status(self._host)}
            self.plane.request("PATCH", where, change, "application/merge-patch+json")

    def _program(self, number: int, kubeconfig: Path) -> Program:
        run = f"{self.before}; import runpy; runpy.run_module('webhook', run_name='__main__', alter_sys=True)"
        listen = "127.0.0.1" if self._host == "127.0.0.1" else "0.0.0.0"
        program = ["-c", run] if self.before else ["-m", "webhook"]
        command = [sys.executable, *program, "serve", "--kubeconfig", str(kubeconfig), "--host", listen]
        command += ["--port", str(self.ports[number]), "--ops-port", str(self.ops_ports[number])]
        environment = _environment(self.source) | {
            "GPU_ADMISSION_REPLICA": pretended.name_of(number) if self.replicas > 1 else "",
            "TMPDIR": str(self.plane.folder),  # what a killed replica leaves goes with the plane
            "GPU_ADMISSION_NAMESPACE": self._namespace,
            **self.settings,
        }
        return Program(f"webhook-{number}-{self.ports[number]}", command, self.plane.folder, environment)

    def _adjusted(self, found: dict[str, Any]) -> dict[str, Any]:
        if found["kind"] in HOOKS and not self.routed:
            for hook in found["webhooks"]:
                path = hook["clientConfig"].pop("service")["path"]
                hook["clientConfig"]["url"] = f"https://127.0.0.1:{self._front}{path}"
                if self._host == "127.0.0.1":  # otherwise `doctor` looks at them
                    hook["timeoutSeconds"] = 30  # the most: no pod is refused or left alone because the machine is busy
        if found["kind"] == "ConfigMap" and self.text is not None:
            return _policy_map(self.text)
        return found

    def _apply(self, objects: list[dict[str, Any]]) -> None:
        self.plane.kubectl(
            "apply", *self.flags, "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        )

    def _trusted(self) -> bool:
        found = [json.loads(self.plane.request("GET", path(kind, name="gpu-admission"))) for kind in HOOKS]
        return all(hook["clientConfig"].get("caBundle") for each in found for hook in each["webhooks"])


def _environment(source: Path = ROOT) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(source), "PYTHONWARNINGS": "error"}


def _policy_map(text: str) -> dict[str, Any]:
    found = made("ConfigMap", "gpu-admission-policy", data={"policy.yaml": text})
    return found | {"metadata": found["metadata"] | {"namespace": NAMESPACE}}


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> Iterator[Installed]:
    """The webhook with the shipped policy, for the whole run. A test that breaks it corrects it."""
    with Installed(control_plane) as webhook:
        yield webhook


@pytest.fixture
async def nodes(request: pytest.FixtureRequest, api: Api) -> AsyncIterator[MakeNodes]:
    """Makes nodes: `await nodes("two-node")`, or a list of Nodes. They go after the test. Returns their names.

    If the test has the webhook, that knows them then."""
    made: list[str] = []

    async def make(what: str | Iterable[dict[str, Any]]) -> list[str]:
        wanted = clusters.cluster(what) if isinstance(what, str) else list(what)
        made.extend(each["metadata"]["name"] for each in wanted)
        names = await clusters.apply(api, wanted)
        if "installed" in request.fixturenames:
            await known(api, wanted)
        return names

    yield make
    await clusters.remove(api, made)


async def known(api: Api, nodes: Iterable[dict[str, Any]]) -> None:
    """Wait until the webhook and the scheduler have heard of all that has happened to nodes: a moment after the API server has.

    A watch shows writes in their order, so a label shows how far it is: that of a node which any pod may have."""
    with suppress(ApiError):  # they are there since an earlier call
        await api.namespace(BARE)
        await api.namespace(PROBES)
        await opt_in(api, PROBES)
    offered = {each["metadata"]["name"]: _offered(each) for each in nodes}
    name = next((name for name, resource in offered.items() if resource), None)
    if name is None:
        return
    mark = {"tests.example/known": uuid.uuid4().hex}
    await api.patch("Node", name, {"metadata": {"labels": mark}})
    there = {"nodeSelector": mark, "tolerations": [{"operator": "Exists"}]}
    probe = pod("probe", resource=offered[name], **there)

    async def chosen() -> bool:
        return bool((await tried(api, probe, PROBES)).get("nodes"))

    await wait_until(chosen, 120, f"the webhook to know node {name} as it is")
    await _scheduled(api, pod(f"probe-{uuid.uuid4().hex[:8]}", gpus=0, **there))


async def _scheduled(api: Api, probe: dict[str, Any]) -> None:
    """Wait until the scheduler has found a node for it. It does not stay."""
    name = probe["metadata"]["name"]
    await api.create(probe, BARE)

    async def bound() -> bool:
        return bool((await api.get("Pod", name, BARE))["spec"].get("nodeName"))

    await wait_until(bound, 120, f"the scheduler to know the node that {name} selects")
    await api.delete("Pod", name, BARE, grace=0)


def _offered(node: Mapping[str, Any]) -> str:
    """A resource of its GPUs, if any pod may have one."""
    spec, status = node["spec"], node["status"]
    well = {condition["type"]: condition["status"] == "True" for condition in status["conditions"]} == {"Ready": True}
    driver = node["metadata"]["labels"].get("nvidia.com/gpu-driver-upgrade-state", "upgrade-done")
    if not well or driver != "upgrade-done" or spec.get("unschedulable"):
        return ""
    offered = [name for name, amount in status["allocatable"].items() if name.startswith("nvidia.com/") and int(amount)]
    return offered[0] if offered else ""


MakeTeam = Callable[..., Coroutine[Any, Any, str]]


@pytest.fixture
async def team_of(installed: Installed, api: Api) -> AsyncIterator[MakeTeam]:
    """Makes a namespace that lives under a profile of the policy: `await team_of("strict")`. Its name."""
    there = []

    async def make(profile: str = "default") -> str:
        there.append(await api.namespace(f"test-{uuid.uuid4().hex[:8]}"))
        await opt_in(api, there[-1], profile)
        return there[-1]

    yield make
    for name in there:
        await remove_namespace(api, name)


@pytest.fixture
async def team(team_of: MakeTeam) -> str:
    """A namespace of its own that has opted in, once the API server calls the webhook for it: its name."""
    return await team_of()


async def opt_in(api: Api, namespace: str, profile: str = "default") -> None:
    """Label a namespace, and wait until a new GPU pod in it is decided by the profile (tried as a dry run)."""
    await api.patch("Namespace", namespace, {"metadata": {"labels": {PROFILE_LABEL: profile}}})

    async def decided() -> bool:
        try:
            answer = await api.create(pod("probe"), namespace, dryRun="All")
        except ApiError as error:
            return "gpu-admission.io" in str(error)  # refused by us: there may be no GPU node yet
        return bool(decision(answer).get("profile") == profile)

    await wait_until(decided, 120, f"namespace {namespace} to be served by the webhook")


async def tried(api: Api, made: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The decision record of a pod that is created as a dry run; empty where it has none, or is refused."""
    try:
        return decision(await api.create(made, namespace, dryRun="All"))
    except ApiError:
        return {}


def decision(found: Mapping[str, Any]) -> dict[str, Any]:
    """The decision record of a pod; empty where it has none."""
    record: dict[str, Any] = json.loads((found["metadata"].get("annotations") or {}).get(DECISION, "{}"))
    return record

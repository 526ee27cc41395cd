"""Every way to write a pod, tried by the owner of a namespace: one who may do all in it, and nothing elsewhere.

docs/threat-model.md lists the ways, and what guards each. The API server itself says whether the list is complete.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from tests.controlplane.api import Api, refusal, wait_until
from tests.controlplane.kinds import path
from tests.controlplane.objects import Json, made, pod
from tests.controlplane.plane import ControlPlane
from tests.e2e.conftest import Sides
from tests.installed import ROOT, Installed

pytestmark = pytest.mark.controlplane

NODE = "sides-a"
STOLEN = {"cdi.k8s.io/x": "nvidia.com/gpu=all"}
OF_SCHEDULERS = {
    "scheduling.koordinator.sh/device-allocated": '{"gpu": [{"minor": 0}]}',
    "nvidia.com/container.main.gpus.devices": "0",
}
CREATES, UPDATES = "validate.gpu-admission.io", "updates.validate.gpu-admission.io"
PODS, SCHEDULERS = "gpu-admission-running-pods", "gpu-admission-schedulers"
NOTHING, NO_FIELD = "nothing", "the API server: it takes over no other field"


@dataclass(frozen=True)
class Way:
    """A resource and the verbs by which a pod is written, or reached. `guards`: what refuses an annotation, or a node, that
    is not for the author; or why there is no need."""

    resource: str
    verbs: str
    guards: str
    attempts: tuple["Attempt", ...] = ()


@dataclass(frozen=True)
class Attempt:
    """What the owner sends for the pod `victim`; `said`: what a refusal contains. Empty: the request is accepted."""

    what: str
    said: str
    method: str
    path: str
    body: Json
    content_type: str = "application/json"
    query: Mapping[str, str] = field(default_factory=dict)


MERGE, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
METADATA = {"metadata": {"name": "victim", "annotations": STOLEN}}
IDENTITY = {"apiVersion": "v1", "kind": "Pod"}


def binding(annotations: Json, name: str = "victim") -> Json:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": NODE}}


def patched(what: str, said: str, body: Json, subresource: str = "") -> Attempt:
    return Attempt(what, said, "PATCH", f"pods/victim{subresource}", body, MERGE)


def resized(cpu: str) -> Json:
    return METADATA | {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}


_NEW = pod("new", 0, annotations=STOLEN, schedulerName="mine")
_CREATED = (
    Attempt("a pod", "[deviceAnnotations]", "POST", "pods", _NEW),
    Attempt("a node", "[nodeName]", "POST", "pods", pod("new", 0, nodeName=NODE)),
    Attempt(
        "a pod with devices of a scheduler",
        "[deviceAnnotations]",
        "POST",
        "pods",
        pod("new", 0, annotations=OF_SCHEDULERS),
    ),
)
_CHANGED = (
    patched("patched", "[deviceAnnotations]", METADATA),
    patched("patched with devices of a scheduler", PODS, {"metadata": {"annotations": OF_SCHEDULERS}}),
    patched("patched with a node", "may not change fields", {"spec": {"nodeName": NODE}}),
    Attempt(
        "applied", "[deviceAnnotations]", "PATCH", "pods/victim", IDENTITY | METADATA, APPLY, {"fieldManager": "owner"}
    ),
    Attempt("replaced", "[deviceAnnotations]", "PUT", "pods/victim", METADATA),
)
_REPORTED = (
    patched("in a status", PODS, METADATA, "/status"),
    patched("in a status, with devices of a scheduler", PODS, {"metadata": {"annotations": OF_SCHEDULERS}}, "/status"),
    Attempt("a replaced status", PODS, "PUT", "pods/victim/status", METADATA),
)
_BOUND = tuple(
    Attempt(what, SCHEDULERS, "POST", where, binding(annotations))
    for where in ("pods/victim/binding", "bindings")
    for what, annotations in ((f"annotations by {where}", STOLEN), (f"a node by {where}", {}))
)
_DEBUGGER = {
    "ephemeralContainers": [
        {"name": "thief", "image": "i", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    ]
}
_DEBUGGED = (
    patched("a debugger that takes devices", "[deviceEnv]", {"spec": _DEBUGGER}, "/ephemeralcontainers"),
    patched(
        "with a debugger",
        "",
        METADATA | {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}},
        "/ephemeralcontainers",
    ),
)
_EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", **METADATA}
WAYS = [
    Way("pods", "create", f"`{CREATES}`", _CREATED),
    Way("pods", "update, patch", f"`{UPDATES}`, `{PODS}`", _CHANGED),
    Way("pods", "delete, deletecollection", NOTHING),
    Way("pods/status", "update, patch", f"`{PODS}`", _REPORTED),
    Way("pods/binding", "create", f"`{SCHEDULERS}`", _BOUND[:2]),
    Way("bindings", "create", f"`{SCHEDULERS}`", _BOUND[2:]),
    Way("pods/ephemeralcontainers", "update, patch", f"`{CREATES}`", _DEBUGGED),
    Way("pods/resize", "update, patch", NO_FIELD, (patched("resized", "", resized("200m"), "/resize"),)),
    Way(
        "pods/eviction",
        "create",
        NO_FIELD,
        (Attempt("evicted", "", "POST", "pods/victim/eviction", _EVICTION, query={"dryRun": "All"}),),
    ),
    *[Way(f"pods/{name}", "create", NOTHING) for name in ("attach", "exec", "portforward")],
    Way("pods/proxy", "create, update, patch, delete", NOTHING),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rights(control_plane: ControlPlane, installed: Installed, sides: Sides) -> AsyncIterator[Path]:
    """The kubeconfig of one who may do everything in both namespaces, once the guard is in force."""
    async with Api.of(control_plane.kubeconfig) as api:
        await api.create(made("ServiceAccount", "owner"), sides.ours)
        for namespace in sides:
            for each in may_do("owner", sides.ours, [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]):
                await api.create(each, namespace)
        kubeconfig = control_plane.kubeconfig_for(sides.ours, "owner")
        async with Api.of(kubeconfig) as client:

            async def guarded() -> bool:
                return SCHEDULERS in await refusal(bind(client, sides.ours, binding({}), dryRun="All"))

            await api.create(pod("victim", 0, schedulerName="mine"), sides.ours)
            await wait_until(guarded, 120, "the rights of the owner, and the guard")
            await api.delete("Pod", "victim", sides.ours, grace=0)
        yield kubeconfig


@pytest.fixture
async def owner(rights: Path) -> AsyncIterator[Api]:
    async with Api.of(rights) as client:
        yield client


def may_do(name: str, home: str, rules: list[Json], of: str = "") -> list[Json]:
    """A Role with these rules, given to an account; `of`="Cluster": a ClusterRole, in all namespaces."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{of}Role", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": home}]
    return [made(f"{of}Role", name, rules=rules), made(f"{of}RoleBinding", name, roleRef=reference, subjects=subjects)]


async def bind(client: Api, namespace: str, body: Json, resource: str = "pods/binding", **query: str) -> Json:
    """The pod that the body names, at one of two addresses."""
    where = path("Pod", namespace).removesuffix("pods") + resource.replace("/", f"/{body['metadata']['name']}/")
    return await client.request("POST", where, body, **query)


@asynccontextmanager
async def waiting(api: Api, sides: Sides, name: str) -> AsyncIterator[Json]:
    """A pod that waits for a scheduler of its own. As its author wrote it, and the API server stored it. One that is to be bound
    has a name of its own: the node's kubelet ends pods by name, and perhaps the next one of that name."""
    requests = {"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}
    for namespace in sides:
        await api.create(pod(name, 0, container=requests, schedulerName="mine"), namespace)
    yield await api.get("Pod", name, sides.ours)
    for namespace in sides:
        await api.delete("Pod", name, namespace, grace=0, missing_ok=True)


@pytest.fixture
async def victim(api: Api, sides: Sides) -> AsyncIterator[Json]:
    async with waiting(api, sides, "victim") as found:
        yield found


@pytest.mark.parametrize("attempt", [pytest.param(each, id=each.what) for way in WAYS for each in way.attempts])
async def test_the_owner_of_a_namespace_brings_neither_devices_nor_a_node_into_a_pod(
    owner: Api, api: Api, sides: Sides, victim: Json, attempt: Attempt
) -> None:
    body = attempt.body
    if attempt.method == "PUT":
        metadata = victim["metadata"] | {"annotations": victim["metadata"].get("annotations", {}) | STOLEN}
        body = victim | {"metadata": metadata}
    where = f"{path('Pod', sides.ours).removesuffix('pods')}{attempt.path}"
    said = await refusal(owner.request(attempt.method, where, body, attempt.content_type, **attempt.query))
    assert attempt.said in said
    assert bool(said) is bool(attempt.said)
    found = await api.get("Pod", "victim", sides.ours)
    brought = found["metadata"].get("annotations", {}).keys() & {*STOLEN, *OF_SCHEDULERS}
    assert (brought, found["spec"].get("nodeName")) == (set(), None)


async def test_a_namespace_that_has_not_opted_in_binds_as_it_likes(owner: Api, api: Api, sides: Sides) -> None:
    async with waiting(api, sides, "free"):
        await bind(owner, sides.plain, binding(STOLEN, "free"))
        found = await api.get("Pod", "free", sides.plain)
    assert (found["spec"]["nodeName"], found["metadata"]["annotations"].items() >= STOLEN.items()) == (NODE, True)


@pytest.mark.parametrize("right", ["pods/binding", "bindings"])
async def test_a_scheduler_binds_in_every_namespace_and_says_which_devices_a_pod_gets(
    control_plane: ControlPlane, owner: Api, api: Api, sides: Sides, right: str
) -> None:
    """It is one by its right in all namespaces, whatever its name."""
    rules = [
        {"apiGroups": [""], "resources": [right], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "patch"]},
    ]
    name = f"by-{right.replace('/', '-')}"
    await api.create(made("ServiceAccount", name), sides.plain)
    given = may_do(name, sides.plain, rules, "Cluster")
    async with (
        waiting(api, sides, name),
        api.having(*given),
        Api.of(control_plane.kubeconfig_for(sides.plain, name)) as client,
    ):

        async def bound() -> bool:
            return not await refusal(bind(client, sides.ours, binding({}, name), right, dryRun="All"))

        await wait_until(bound, 120, "its rights")
        await client.patch("Pod", name, {"metadata": {"annotations": OF_SCHEDULERS}}, sides.ours)
        await bind(client, sides.ours, binding({}, name), right)
        without = {"metadata": {"annotations": dict.fromkeys(OF_SCHEDULERS)}}
        assert PODS in await refusal(owner.patch("Pod", name, without, sides.ours))  # others would get the devices
        found = await api.get("Pod", name, sides.ours)
        assert found["spec"]["nodeName"] == NODE
        assert found["metadata"]["annotations"].items() >= OF_SCHEDULERS.items()


CLASS = "devices-of-others"


async def test_only_a_scheduler_gives_devices_to_a_claim_and_its_pods_keep_them(
    owner: Api, api: Api, sides: Sides, victim: Json
) -> None:
    """The API server of 1.37 itself asks for `resourceclaims/binding`. Before, all depends on the guard: so here he has it."""
    result = {"request": "r", "driver": "gpu.x", "pool": NODE, "device": "gpu-0"}
    change = {"status": {"allocation": {"devices": {"results": [result]}}}}
    right = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["update", "patch"]}
    given = may_do("owner", sides.ours, [right], "Cluster")
    for each in given:
        each["metadata"]["name"] = "owner-as-before"
    given[1]["roleRef"]["name"] = "owner-as-before"
    asked = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": CLASS}}]}}
    async with api.having(made("DeviceClass", CLASS, spec={}), *given):
        for namespace in sides:
            await api.create(made("ResourceClaim", "victim", spec=asked), namespace)
        write = {"subresource": "status"}

        async def accepted() -> bool:
            """Where the namespace has not opted in, once the right is known."""
            return not await refusal(owner.patch("ResourceClaim", "victim", change, sides.plain, **write))

        await wait_until(accepted, 120, "the right of the owner")
        assert SCHEDULERS in await refusal(owner.patch("ResourceClaim", "victim", change, sides.ours, **write))
        await api.patch("ResourceClaim", "victim", change, sides.ours, **write)
        await owner.patch("ResourceClaim", "victim", {"status": {"allocation": None}}, sides.ours, **write)

        # While a pod has it, they are not given back: the scheduler would give to another what the pod goes on to use.
        user = {"resource": "pods", "name": "victim", "uid": victim["metadata"]["uid"]}
        kept = {"finalizers": ["resource.kubernetes.io/delete-protection"]}
        await api.patch("ResourceClaim", "victim", {"metadata": kept}, sides.ours)
        await api.patch(
            "ResourceClaim", "victim", {"status": change["status"] | {"reservedFor": [user]}}, sides.ours, **write
        )
        for taken in (
            {"allocation": None, "reservedFor": None},
            {"reservedFor": []},
            {"reservedFor": [user | {"uid": "x"}]},
        ):
            assert "is reserved" in await refusal(
                owner.patch("ResourceClaim", "victim", {"status": taken}, sides.ours, **write)
            )
        unprotected = {"metadata": {"finalizers": None, "annotations": {"of": "owner"}}}
        assert "is reserved" in await refusal(owner.patch("ResourceClaim", "victim", unprotected, sides.ours))
        await owner.patch("ResourceClaim", "victim", {"status": {"devices": []}}, sides.ours, **write)
        await owner.patch("Pod", "victim", {"status": {"phase": "Succeeded"}}, sides.ours, **write)
        await owner.patch("ResourceClaim", "victim", {"metadata": {"annotations": {"of": "owner"}}}, sides.ours)

        async def free() -> bool:
            """By the controller, which looks at a claim that changes."""
            claim = await api.get("ResourceClaim", "victim", sides.ours)
            return not (claim.get("status", {}).get("allocation") or claim["metadata"].get("finalizers"))

        await wait_until(free, 120, "the claim to be free")


# --- docs/threat-model.md ----------------------------------------------------------------------------------------------

WRITES = ("create", "update", "patch", "delete", "deletecollection")


async def test_the_list_has_every_verb_that_the_api_server_has(api: Api) -> None:
    """A subresource that a new version of Kubernetes brings belongs into it."""
    served = {
        (each["name"], verb)
        for each in (await api.request("GET", "/api/v1"))["resources"]
        for verb in each["verbs"]
        if re.fullmatch("pods(/.+)?|bindings", each["name"]) and verb in WRITES
    }
    assert {(way.resource, verb) for way in WAYS for verb in way.verbs.split(", ")} == served


def test_the_threat_model_has_the_list() -> None:
    section = (
        (ROOT / "docs" / "threat-model.md").read_text().partition("## How a pod is written\n")[2].partition("\n## ")[0]
    )
    rows = dict(re.findall(r"^\| `(pods.*?|bindings.*?)` \| (.+) \|$", section, re.MULTILINE))
    assert {way: guards.strip("`") for way, guards in rows.items()} == {
        f"{way.resource}: {way.verbs}": way.guards.strip("`") for way in WAYS
    }

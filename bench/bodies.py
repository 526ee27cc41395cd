"""Bodies that were made to keep a webhook busy: by what they are, the hook that gets them and the bytes.

Everything in a review is written by a tenant, or by a stranger who has any pod's reach. `bench.hostile` measures what each of
these costs; the tests count the calls that each makes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

Json = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_PRODUCT: Final = "nvidia.com/gpu.product"


class Body(NamedTuple):
    """`hooks`: which of the two get it."""

    hooks: tuple[str, ...]
    make: Callable[[], bytes]


BODIES: Final[dict[str, Body]] = {}


def _add(name: str, make: Callable[[], bytes], *hooks: str) -> None:
    assert name not in BODIES, name
    BODIES[name] = Body(hooks or ("mutate", "validate"), make)


def review(obj: Any, kind: str = "Pod", group: str = "", resource: str = "pods", **request: Any) -> bytes:
    """A review of this object, as the API server sends it."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "namespace": "serving",
        "operation": "UPDATE" if "oldObject" in request else "CREATE",
        "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
        "object": obj,
    } | request
    return orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked})


def container(**fields: Any) -> Json:
    return {"name": "main", "image": "app:1", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}} | fields


def pod(containers: Any = None, metadata: Json | None = None, **spec: Any) -> Json:
    metadata = {"name": "job", "namespace": "serving"} | (metadata or {})
    return {"metadata": metadata, "spec": {"containers": [container()] if containers is None else containers} | spec}


def _pod(name: str, make: Callable[[], Json]) -> None:
    _add(name, lambda: review(make()))


def _updated(name: str, make: Callable[[str], Json], **request: Any) -> None:
    """An UPDATE whose old and new object differ by one word."""
    _add(name, lambda: review(make("new"), oldObject=make("old"), **request), "validate")


# --- pods: one of the lists is long -----------------------------------------------------------------------------------

_LONG = "x" * 60


def _named(count: int, **fields: Any) -> list[Json]:
    return [{"name": f"{_LONG}{number}", **fields} for number in range(count)]


def _resources(names: list[str]) -> Json:
    every = {GPU: "1"} | dict.fromkeys(names, "1")
    return {"limits": every, "requests": every}


def _affinity(terms: list[Json], kind: str = "nodeAffinity", when: str = _REQUIRED) -> Json:
    return {kind: {when: {"nodeSelectorTerms": terms} if kind == "nodeAffinity" and when == _REQUIRED else terms}}


def _expression(*values: str, key: str = _PRODUCT, operator: str = "In") -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _mounts(volumes: int, mounts: int, word: str = "") -> Json:
    return pod(
        [container(volumeMounts=_named(mounts, mountPath=f"/{word}", subPath=_LONG))],
        volumes=[{"name": f"{_LONG}{word}y{number}", "emptyDir": {}} for number in range(volumes)],
    )


_pod("2,500,000 empty containers", lambda: pod([{}] * 2_500_000))
_pod("70,000 containers with GPUs", lambda: pod([container()] * 70_000))
_pod("250 containers with GPUs", lambda: pod([container(name=f"c{n}") for n in range(250)]))
_pod("50,000 sidecars", lambda: pod(initContainers=[container(restartPolicy="Always")] * 50_000))
_pod(
    "120 sidecars with 15 resources each",
    lambda: pod(
        initContainers=[
            container(
                name=f"s{n}",
                restartPolicy="Always" if n % 2 else None,
                resources={"limits": {f"a.b/{n}-{m}": "1" for m in range(15)}},
            )
            for n in range(120)
        ]
    ),
)
_pod("1,000 volumes with long names, 20 unknown mounts", lambda: _mounts(1_000, 20))
_pod("1,000 volumes, 2,000 unknown mounts", lambda: _mounts(1_000, 2_000))
_pod("20,000 volumes, 20,000 unknown mounts", lambda: _mounts(20_000, 20_000))
_pod("80,000 variables", lambda: pod([container(env=_named(80_000, value="v"))]))
_pod(
    "100,000 times NVIDIA_VISIBLE_DEVICES",
    lambda: pod([container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 100_000)]),
)
_pod(
    "4,000 times NVIDIA_VISIBLE_DEVICES",
    lambda: pod([container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 4_000)]),
)
_pod("100,000 sources of variables", lambda: pod([container(envFrom=[{"prefix": "NVIDIA_VISIBLE"}] * 100_000)]))
_pod("30,000 names of GPUs", lambda: pod([container(resources=_resources([f"{GPU}{n}" for n in range(30_000)]))]))
_pod(
    "30,000 names of slices",
    lambda: pod([container(resources=_resources([f"nvidia.com/mig-{n}" for n in range(30_000)]))]),
)
_pod(
    "30,000 names of other resources",
    lambda: pod([container(resources=_resources([f"tenant.example/{n}" for n in range(30_000)]))]),
)
_pod(
    "1,000 names of slices",
    lambda: pod([container(resources=_resources([f"nvidia.com/mig-{n}" for n in range(1_000)]))]),
)
_pod(
    "60 names of slices that no node has",
    lambda: pod([container(resources=_resources([f"nvidia.com/mig-{n}{_LONG}" for n in range(60)]))]),
)
_pod("100,000 tolerations", lambda: pod(tolerations=[{"key": "a", "operator": "Is", "effect": "No"}] * 100_000))
_pod(
    "250 tolerations", lambda: pod(tolerations=[{"key": f"a{n}", "operator": "Is", "effect": "No"} for n in range(250)])
)
_pod("100,000 values in one expression", lambda: pod(affinity=_affinity([_expression(*map(str, range(100_000)))])))
_pod("2,000 values in one expression", lambda: pod(affinity=_affinity([_expression(*map(str, range(2_000)))])))
_pod("80,000 terms of node affinity", lambda: pod(affinity=_affinity([_expression("x")] * 80_000)))
_pod("20,000 empty terms of node affinity", lambda: pod(affinity=_affinity([{}] * 20_000)))
_pod("20,000 empty preferences of nodes", lambda: pod(affinity=_affinity([{}] * 20_000, when=_PREFERRED)))
_pod("20,000 empty terms of pod affinity", lambda: pod(affinity=_affinity([{}] * 20_000, kind="podAffinity")))
_pod("13,000 values in one expression", lambda: pod(affinity=_affinity([_expression(*["x"] * 13_000)])))
_pod("600 terms of node affinity", lambda: pod(affinity=_affinity([_expression(f"x{n}") for n in range(600)])))
_pod(
    "60,000 preferred terms",
    lambda: pod(affinity=_affinity([{"weight": 1, "preference": _expression("x")}] * 60_000, when=_PREFERRED)),
)
_pod(
    "Gt with 100,000 digits",
    lambda: pod(affinity=_affinity([_expression("9" * 100_000, key="a", operator="Gt")])),
)
_pod(
    "100,000 terms of pod affinity",
    lambda: pod(affinity=_affinity([{"labelSelector": {}}] * 100_000, kind="podAffinity")),
)
_pod(
    "1,000 terms of pod affinity with large selectors",
    lambda: pod(
        affinity=_affinity([{"labelSelector": _expression(*map(str, range(100)))}] * 1_000, kind="podAntiAffinity")
    ),
)
_pod(
    "60,000 spread constraints",
    lambda: pod(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1}] * 60_000),
)
_pod(
    "a spread constraint with 60,000 expressions",
    lambda: pod(
        topologySpreadConstraints=[
            {"topologyKey": "a", "labelSelector": {"matchExpressions": _expression("a")["matchExpressions"] * 60_000}}
        ]
    ),
)
_pod("100,000 entries in the node selector", lambda: pod(nodeSelector={f"a{n}": "b" for n in range(100_000)}))
_pod("100,000 labels", lambda: pod(metadata={"labels": {f"a{n}": "?" for n in range(100_000)}}))
_pod("a label of 3 MB", lambda: pod(metadata={"labels": {"workload-type": "?" * 3_000_000}}))
_pod("100,000 annotations", lambda: pod(metadata={"annotations": {f"cdi.k8s.io/{n}": "x" for n in range(100_000)}}))
_pod(
    "1,000 annotations for devices",
    lambda: pod(metadata={"annotations": {f"cdi.k8s.io/{n}": "x" for n in range(1_000)}}),
)
_pod(
    "60,000 owners",
    lambda: pod(metadata={"ownerReferences": [{"kind": "Job", "name": "a", "uid": "b"}] * 60_000}),
)
_pod(
    "50,000 claims",
    lambda: pod([container(resources={"claims": _named(50_000)})], resourceClaims=_named(50_000)),
)
_pod(
    "250 claims, 250 others asked for",
    lambda: pod([container(resources={"claims": _named(250)})], resourceClaims=[{"name": f"y{n}"} for n in range(250)]),
)
_pod("100,000 ports", lambda: pod([container(ports=[{"hostPort": 1, "containerPort": 1}] * 100_000)]))
_pod(
    "100,000 capabilities",
    lambda: pod([container(securityContext={"capabilities": {"add": ["SYS_ADMIN"] * 100_000}})]),
)
_pod("100,000 scheduling gates", lambda: pod(schedulingGates=[{"name": "a"}] * 100_000))
_pod(
    "2 MB of arguments about parallelism",
    lambda: pod([container(args=["--tp " * 2_000])] * 200),
)
_pod(
    "900 names of resources that are almost a GPU's",
    lambda: pod([container(resources={"limits": {f"nvidia.com/gp{number}": "1" for number in range(900)}})]),
)
_pod("50,000 host paths", lambda: pod(volumes=_named(50_000, hostPath={"path": "/dev"})))


def _everything() -> Json:
    """A pod that is at nearly every bound together, and wrong wherever it can be."""
    names = [f"{GPU}{number}" for number in range(4)]
    every = [
        container(
            name=f"c{number}",
            resources={"limits": dict.fromkeys(names, "1"), "requests": dict.fromkeys(names, "2")},
            env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 15,
            envFrom=[{"prefix": "NVIDIA_"}],
            volumeMounts=[{"name": f"{_LONG}{number}", "mountPath": "/run/nvidia-container-devices/x"}] * 8,
            securityContext={"privileged": True, "capabilities": {"add": ["SYS_ADMIN"] * 4}},
        )
        for number in range(250)
    ]
    metadata = {
        "annotations": {f"cdi.k8s.io/{number}": "x" for number in range(1_000)},
        "labels": {f"l{number}": "?" for number in range(1_000)},
    }
    return pod(
        every,
        metadata,
        volumes=[{"name": f"{_LONG}y{number}", "hostPath": {"path": "/dev"}} for number in range(1_000)],
        tolerations=[{"key": f"a{number}", "operator": "Is", "effect": "No"} for number in range(250)],
        affinity=_affinity([_expression(f"x{number}") for number in range(250)]),
        nodeSelector={f"a{number}": "b" for number in range(250)},
    )


_pod("everything at its bound", _everything)
_pod("everything at its bound, and the GPUs of one kind", lambda: _of_one_kind(_everything()))


def _of_one_kind(made: Json) -> Json:
    for each in made["spec"]["containers"]:
        each["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    return made


# --- pods: one of the values is long, or odd --------------------------------------------------------------------------


def _asking(quantity: Any) -> Json:
    return pod([container(resources={"limits": {GPU: quantity, "cpu": quantity}})])


def _deep(levels: int, start: bytes = b'{"a":', end: bytes = b"}") -> bytes:
    return review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', start * levels + b"1" + end * levels)


_pod("a quantity of 100,000 digits", lambda: _asking("9" * 100_000))
_pod("a quantity of 10^999999999", lambda: _asking("1e999999999"))
_add("a number of 100,000 digits", lambda: review(_asking("HERE")).replace(b'"HERE"', b"9" * 100_000))
_add("a number of 3,000,000 digits", lambda: review(_asking("HERE")).replace(b'"HERE"', b"0." + b"9" * 3_000_000))
_add("nested 1,000 levels deep", partial(_deep, 1_000))
_add("nested 2,000,000 levels deep", partial(_deep, 2_000_000, b"[", b"]"))
_add(
    "a million equal keys",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"{" + b'"a":1,' * 1_000_000 + b'"a":1}'),
)
_add(
    "1,100,000 nested maps in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"[" + b'{"":0},' * 1_100_000 + b"{}]"),
)
_add(
    "300,000 nested maps in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(b'"HERE"', b"[" + b'{"":0},' * 300_000 + b"{}]"),
)
_add(
    "480,000 nested maps and 900,000 words in a field that nobody reads",
    lambda: review(pod(metadata={"x": "HERE"})).replace(
        b'"HERE"', b"[" + b'{"":0},' * 480_000 + b'"ab",' * 900_000 + b"{}]"
    ),
)
_pod("700,000 keys in a field that nobody reads", lambda: pod(metadata={"x": {f"{n:x}": 1 for n in range(700_000)}}))
_pod("2,700,000 lists in a field that nobody reads", lambda: pod(metadata={"x": [[]] * 2_700_000}))
_pod("1,600,000 short words in a field that nobody reads", lambda: pod(metadata={"x": ["ab"] * 1_600_000}))
_pod("8 MB of emoji", lambda: pod(metadata={"annotations": {"a": "😀" * 2_000_000}}))
_pod("a name of 3 MB", lambda: pod(metadata={"name": "A" * 3_000_000}))
_pod("a generateName of 3 MB", lambda: pod(metadata={"name": "", "generateName": "A-" * 1_500_000}))
_pod("a namespace of 3 MB", lambda: pod(metadata={"namespace": "A" * 3_000_000}))
_add("a namespace of 3 MB in the request", lambda: review(pod(), namespace="a" * 3_000_000))
_add("a user of 3 MB", lambda: review(pod(), userInfo={"username": "a" * 3_000_000}))
_add("500,000 groups", lambda: review(pod(), userInfo={"username": "a", "groups": [f"g{n}" for n in range(500_000)]}))
_pod("a host path of 3 MB", lambda: pod(volumes=[{"name": "a", "hostPath": {"path": "/a/.." * 500_000}}]))
_pod(
    "1,000 mounts with paths of 3 kB",
    lambda: pod(
        [container(volumeMounts=[{"name": "a", "mountPath": "/nvidia-container-devices" + "/a/.." * 500}] * 1_000)]
    ),
)
_pod("our record, 2 MB of it", lambda: pod(metadata={"annotations": {"gpu-admission.io/decision": "[" * 2_000_000}}))
_pod(
    "our record with 300 nodes, and 600 terms that name them",
    lambda: pod(
        metadata={
            "annotations": {
                "gpu-admission.io/decision": orjson.dumps(
                    {"nodes": [[f"gpu-{n:05d}", 1, 1, 1] for n in range(300)]}
                ).decode()
            }
        },
        affinity=_affinity(
            [
                {
                    "weight": 1,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                }
            ]
            * 600,
            when=_PREFERRED,
        ),
    ),
)
_pod(
    "wishes for 1,000 nodes",
    lambda: pod(metadata={"annotations": {"gpu-admission.io/preferred-nodes": ",".join(map(str, range(1_000)))}}),
)
_pod("an image of 3 MB", lambda: pod([container(image="a" * 3_000_000)]))
_pod("a priority class of 3 MB", lambda: pod(priorityClassName="a" * 3_000_000))
_add("8 MB that are not JSON", lambda: b"[" + b"1," * 4_000_000)
_add("8 MB of spaces", lambda: b" " * 8_000_000)

# --- updates ----------------------------------------------------------------------------------------------------------


def _changed(make: Callable[[], Json], word: str) -> Json:
    body = make()
    body["metadata"]["annotations"] = {"a": word}
    return body


_updated(
    "UPDATE: 1,000 volumes, 2,000 unknown mounts", lambda word: _changed(lambda: _mounts(1_000, 2_000, word), word)
)
_updated("UPDATE: 1,000 volumes, 500 unknown mounts", lambda word: _changed(lambda: _mounts(1_000, 500), word))
_updated("UPDATE: 30,000 containers", lambda word: _changed(lambda: pod([container()] * 30_000), word))
_updated(
    "UPDATE: the finalizers of 30,000 containers", lambda word: pod([container()] * 30_000, {"finalizers": [word]})
)
_updated(
    "UPDATE: 1,000 slices",
    lambda word: _changed(
        lambda: pod([container(resources=_resources([f"nvidia.com/mig-{word}{n}" for n in range(1_000)]))]), word
    ),
)
_add(
    "UPDATE: what was large is small",
    lambda: review(pod(metadata={"labels": {"a": "b"}}), oldObject=_mounts(20_000, 20_000)),
    "validate",
)
_updated("UPDATE: everything at its bound", lambda word: _changed(_everything, word))
_updated(
    "UPDATE: 30,000 ephemeral containers",
    lambda word: pod(ephemeralContainers=[container(name=word)] * 30_000),
    subResource="ephemeralcontainers",
)

# --- workloads --------------------------------------------------------------------------------------------------------


def _workload(spec: Json, kind: str = "Deployment", group: str = "apps", **request: Any) -> bytes:
    obj = {"metadata": {"name": "web", "namespace": "serving"}, "spec": spec}
    return review(obj, kind, group, kind.lower() + "s", **request)


def _template(made: Json) -> Json:
    return {"metadata": {"labels": {"app": "web"}}, "spec": made["spec"]}


_SELECTOR: Final[Json] = {"matchLabels": {"app": "web"}}


def _deployment(name: str, make: Callable[[], Json], **spec: Any) -> None:
    _add(name, lambda: _workload({"selector": _SELECTOR, "template": _template(make())} | spec))


_deployment("Deployment: 1,000 volumes, 20 unknown mounts", lambda: _mounts(1_000, 20))
_deployment("Deployment: 1,000 volumes, 2,000 unknown mounts", lambda: _mounts(1_000, 2_000))
_deployment("Deployment: everything at its bound", _everything)
_deployment("Deployment: 70,000 containers", lambda: pod([container()] * 70_000))
_deployment("Deployment: 2,500,000 empty containers", lambda: pod([{}] * 2_500_000))
_deployment(
    "Deployment: a selector of 100,000 labels",
    pod,
    selector={"matchLabels": {f"a{n}": "b" for n in range(100_000)}},
)
_deployment(
    "Deployment: a selector of 60,000 expressions",
    pod,
    selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}] * 60_000},
)
_deployment(
    "Deployment: a selector with 500,000 values",
    pod,
    selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"] * 500_000}]},
)
_add(
    "Deployment: 100,000 labels",
    lambda: review(
        {
            "metadata": {"name": "web", "labels": {f"a{n}": "?" for n in range(100_000)}},
            "spec": {"selector": _SELECTOR, "template": _template(pod())},
        },
        "Deployment",
        "apps",
        "deployments",
    ),
)
_add(
    "Deployment: UPDATE, 1,000 volumes, 2,000 unknown mounts",
    lambda: _workload(
        {"selector": _SELECTOR, "template": _template(_mounts(1_000, 2_000, "new"))},
        oldObject={
            "metadata": {"name": "web"},
            "spec": {"selector": _SELECTOR, "template": _template(_mounts(1_000, 2_000, "old"))},
        },
    ),
)
_add(
    "CronJob: 30,000 containers",
    lambda: _workload(
        {"jobTemplate": {"spec": {"template": _template(pod([container()] * 30_000))}}}, "CronJob", "batch"
    ),
)
_add(
    "StatefulSet: 60,000 claims for volumes",
    lambda: _workload(
        {
            "selector": _SELECTOR,
            "template": _template(pod()),
            "volumeClaimTemplates": [{"metadata": {"name": f"a{n}"}} for n in range(60_000)],
        },
        "StatefulSet",
    ),
)
_add(
    "PyTorchJob: 20,000 kinds of replicas",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(pod())} for n in range(20_000)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
_add(
    "PyTorchJob: 30 kinds of replicas with 100 unknown mounts each",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(_mounts(300, 100))} for n in range(30)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
_add(
    "PyTorchJob: 4 kinds of replicas with everything at its bound",
    lambda: _workload(
        {"pytorchReplicaSpecs": {f"a{n}": {"template": _template(_everything())} for n in range(4)}},
        "PyTorchJob",
        "kubeflow.org",
    ),
)
_add(
    "JobSet: 30 jobs with 250 containers each",
    lambda: _workload(
        {
            "replicatedJobs": [
                {"template": {"spec": {"template": _template(pod([container(name=f"c{n}") for n in range(250)]))}}}
            ]
            * 30
        },
        "JobSet",
        "jobset.x-k8s.io",
    ),
)
_add(
    "RayCluster: 1,000,000 groups of workers",
    lambda: _workload({"workerGroupSpecs": [{"": 0}] * 1_000_000}, "RayCluster", "ray.io"),
)

# --- the policy -------------------------------------------------------------------------------------------------------


def _policy(name: str, make: Callable[[], str]) -> None:
    _add(name, lambda: config_map({"policy.yaml": make()}), "validate")


def config_map(data: Json) -> bytes:
    obj = {"metadata": {"name": "gpu-admission-policy", "namespace": "gpu-admission"}, "data": data}
    return review(obj, "ConfigMap", "", "configmaps", namespace="gpu-admission")


_policy("policy: a number to the base 60 of 120,000 digits", lambda: "a: 1" + ":1" * 120_000)
_policy("policy: 10,000 numbers to the base 60", lambda: "a: [" + "1:1:1:1:1:1:1:1:1.0, " * 10_000 + "1]")
_policy("policy: a number of 250,000 digits", lambda: "a: " + "1" * 250_000)
_policy("policy: a binary number of 250,000 digits", lambda: "a: 0b1" + "1" * 250_000)
_policy("policy: 250,000 lists in lists", lambda: "[" * 250_000)
_policy("policy: aliases of aliases", lambda: "a: &a [x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(10_000)))
_policy("policy: 20,000 unknown keys", lambda: "".join(f"profilez{n}: 1\n" for n in range(20_000)))
_policy("policy: 40,000 equal keys in one line", lambda: "{" + "a: 1, " * 40_000 + "}")
_policy(
    "policy: 8,000 unknown keys in a profile",
    lambda: "profiles: {default: {rules: {" + ", ".join(f"gpuLimitz{n}: {{}}" for n in range(8_000)) + "}}}",
)
_policy("policy: 8,000 profiles", lambda: "profiles: {" + ", ".join(f"a{n}: {{}}" for n in range(8_000)) + "}")
_policy(
    "policy: 100 profiles of a large default",
    lambda: (
        "profiles:\n  default: {rules: {hostDevices: {paths: ["
        + ", ".join(f"/a/{n}" for n in range(15_000))
        + "]}}}\n"
        + "".join(f"  a{n}: {{shadow: true}}\n" for n in range(98))
    ),
)
_policy(
    "policy: 100 profiles of a large wrong default",
    lambda: (
        "profiles:\n  default: {rules: {hostDevices: {paths: ["
        + ", ".join("[]" for n in range(15_000))
        + "]}}}\n"
        + "".join(f"  a{n}: {{shadow: true}}\n" for n in range(98))
    ),
)
_policy("policy: 8,000 names of GPUs", lambda: "gpus: [" + ", ".join(f"{{name: a.b/c{n}}}" for n in range(8_000)) + "]")
_policy(
    "policy: 5,000 classes",
    lambda: "classes: [" + ", ".join(f"{{class: a{n}, labels: {{b: [c]}}}}" for n in range(5_000)) + "]",
)
_policy("policy: 250 kB of !!binary", lambda: "a: !!binary " + "AAAA" * 60_000)
_policy("policy: 20,000 timestamps", lambda: "a: [" + "2001-01-01, " * 20_000 + "]")
_policy("policy: a word of 250 kB", lambda: "profiles: " + "x" * 250_000)
_policy("policy: 8 MB", lambda: "# x\n" * 1_600_000)
_add("policy: 600,000 other keys", lambda: config_map({f"{n:x}": "" for n in range(600_000)}), "validate")

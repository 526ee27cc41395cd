"""The parts that bodies are made of, and the table that they stand in."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

Json = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
PRODUCT: Final = "nvidia.com/gpu.product"


class Body(NamedTuple):
    """`hooks`: which of the two get it."""

    hooks: tuple[str, ...]
    make: Callable[[], bytes]


BODIES: Final[dict[str, Body]] = {}


def add(name: str, make: Callable[[], bytes], *hooks: str) -> None:
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


def add_pod(name: str, make: Callable[[], Json]) -> None:
    add(name, lambda: review(make()))


def add_update(name: str, make: Callable[[str], Json], **request: Any) -> None:
    """An UPDATE whose old and new object differ by one word."""
    add(name, lambda: review(make("new"), oldObject=make("old"), **request), "validate")


LONG = "x" * 60


def named(count: int, **fields: Any) -> list[Json]:
    return [{"name": f"{LONG}{number}", **fields} for number in range(count)]


def resources(names: list[str]) -> Json:
    every = {GPU: "1"} | dict.fromkeys(names, "1")
    return {"limits": every, "requests": every}


def affinity(terms: list[Json], kind: str = "nodeAffinity", when: str = REQUIRED) -> Json:
    return {kind: {when: {"nodeSelectorTerms": terms} if kind == "nodeAffinity" and when == REQUIRED else terms}}


def expression(*values: str, key: str = PRODUCT, operator: str = "In") -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def mounts(volumes: int, mounts: int, word: str = "") -> Json:
    return pod(
        [container(volumeMounts=named(mounts, mountPath=f"/{word}", subPath=LONG))],
        volumes=[{"name": f"{LONG}{word}y{number}", "emptyDir": {}} for number in range(volumes)],
    )


def everything() -> Json:
    """A pod that is at nearly every bound together, and wrong wherever it can be."""
    names = [f"{GPU}{number}" for number in range(4)]
    every = [
        container(
            name=f"c{number}",
            resources={"limits": dict.fromkeys(names, "1"), "requests": dict.fromkeys(names, "2")},
            env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 15,
            envFrom=[{"prefix": "NVIDIA_"}],
            volumeMounts=[{"name": f"{LONG}{number}", "mountPath": "/run/nvidia-container-devices/x"}] * 8,
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
        volumes=[{"name": f"{LONG}y{number}", "hostPath": {"path": "/dev"}} for number in range(1_000)],
        tolerations=[{"key": f"a{number}", "operator": "Is", "effect": "No"} for number in range(250)],
        affinity=affinity([expression(f"x{number}") for number in range(250)]),
        nodeSelector={f"a{number}": "b" for number in range(250)},
    )


def of_one_kind(made: Json) -> Json:
    for each in made["spec"]["containers"]:
        each["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    return made

"""Every way to devices that the catalogue knows, in every spelling: way × vendor × spelling × kind of container.

`tests/rules/test_spellings.py` tries all of them on the rules, `tests/e2e/test_theft.py` one for each way and vendor on a real
API server. `make manifests` writes their numbers into docs/ways.md.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, NamedTuple

from tests.controlplane.objects import pod
from webhook.vendors import VENDORS, model
from webhook.vendors.model import Fact, Vendor

Json = dict[str, Any]
_VALUES: Final = (
    *("all", "ALL", "0", "0,1", "-1", "GPU-8f6d", "0:0", "nvidia.com/gpu=all", "runtime.nvidia.com/gpu=0", "$(OTHER)"),
    *("VOID", "None", " void", "void ", "void,0", "none,all", "0,void", "void\n", "$(A)void", ",", "null", "\t"),
)
"""Devices by number, UUID or CDI name; and what looks as if it stood for none."""
_SOURCES: Final[dict[str, Json]] = {
    "configMapKeyRef": {"name": "a", "key": "a"},
    "secretKeyRef": {"name": "a", "key": "a", "optional": True},
    "fieldRef": {"fieldPath": "metadata.annotations['a']"},
    "resourceFieldRef": {"resource": "limits.cpu"},
    "fileKeyRef": {"volumeName": "v", "path": "a", "key": "a"},
}
_NOTHING: Final = ("", "void", "none")
OF_HANDLER: Final = "of-"
"""How the name of a RuntimeClass begins whose handler is the rest of it."""


class Attempt(NamedTuple):
    """A pod that asks for no GPU, and how it tries to get devices. `rule` is to refuse it."""

    way: str
    rule: str
    spelling: str
    pod: Json


def attempts(vendor: Vendor) -> Iterator[Attempt]:
    for of in vendor.facts.values():
        for fact in of:
            yield from _of(fact)


def _of(fact: Fact) -> Iterator[Attempt]:
    match fact:
        case model.Variable(gives="devices" | "besideGpu"):
            yield from _variables(fact)
        case model.Variable(gives="legacy"):
            yield from _contained("variable", "deviceEnv", f"{fact.name}=12.4", env=[_set(fact.name, "12.4")])
        case model.DeviceMount():
            yield from _mounts(fact)
        case model.Annotation(gives="devices" | "besideGpu") | model.ContainerPart():
            yield from _annotations(fact)
        case model.RuntimeClass():
            for handler in (fact.name.replace("*", end) for end in ("", "-cdi", "-legacy", "-v2")):
                for name in (handler, f"{OF_HANDLER}{handler}"):
                    yield Attempt("runtime class", "runtimeClass", name, pod("thief", 0, runtimeClassName=name))
        case model.HostPath() if fact.gives == "node" or fact.label:
            yield from _host_paths(fact)
        case model.Resource(one="all"):
            for amount in ("1", "2"):
                yield from _contained(
                    "all of a resource", "nodeWideResources", f"{amount} of {fact.name}",
                    resources={"limits": {fact.name: amount}},
                )  # fmt: skip


def _contained(way: str, rule: str, spelling: str, **fields: Any) -> Iterator[Attempt]:
    """In each kind of container. An ephemeral one may ask for no resource."""
    thief, main = {"name": "thief", "image": "i", **fields}, {"name": "main", "image": "i"}
    lists: dict[str, Json] = {
        "container": {"containers": [main, thief]},
        "init container": {"init": [thief]},
        "sidecar": {"init": [thief | {"restartPolicy": "Always"}]},
        "ephemeral container": {"ephemeral": [thief]},
    }
    for kind, found in lists.items():
        if kind != "ephemeral container" or "resources" not in fields:
            made = pod("thief", 0, **found, volumes=[{"name": "v", "emptyDir": {}}])
            yield Attempt(way, rule, f"{spelling!r} in {kind}", made)


def _set(name: str, value: str) -> Json:
    return {"name": name, "value": value}


def _variables(fact: model.Variable) -> Iterator[Attempt]:
    for name in dict.fromkeys(fact.name.replace("*", end) for end in ("0", "X_Y", "DEVICES")):
        odd = [value for value in _NOTHING if fact.none is not None and value not in fact.none]
        written = {f"{name}={value}": [_set(name, value)] for value in (*_VALUES, *odd)}
        written |= {f"{name} from {of}": [{"name": name, "valueFrom": {of: field}}] for of, field in _SOURCES.items()}
        written[f"{name} twice"] = [_set(name, "void"), _set(name, "all")]
        written[f"{name} after it was void"] = [_set("A", "all"), _set(name, "void"), _set(name, "$(A)")]
        for spelling, env in written.items():
            yield from _contained("variable", "deviceEnv", spelling, env=env)


def _mounts(fact: model.DeviceMount) -> Iterator[Attempt]:
    folders = ("/var/run", "/run", "var/run", "//var//run", "/./var/./run", "/tmp/../var/run", "/var/lib/../run")
    ends = ("/all", "/GPU-8f6d", "/0", "", "/", "/a/b", "/./0", "//0", "/../" + fact.name + "/0", "-more/0")
    for folder, end in product(folders, ends):
        path = f"{folder}/{fact.name}{end}"
        for more in ({}, {"subPath": "a"}, {"subPathExpr": "$(A)"}, {"readOnly": True}):
            mount = {"name": "v", "mountPath": path, **more}
            yield from _contained("mount", "deviceMounts", f"{path} {' '.join(more)}", volumeMounts=[mount])


def _annotations(fact: model.Annotation | model.ContainerPart) -> Iterator[Attempt]:
    if isinstance(fact, model.ContainerPart):
        words = ("gpus.devices", "gpus", "gpu-memory.request.devices", "gpu-memory", "x.gpus.devices")
        keys = [f"{fact.prefix}{container}.{word}" for container in ("main", "Main", "0", "a.b") for word in words]
    else:
        keys = [fact.key.replace("*", end) for end in ("", "/pod", "/container.main", ".x", "-2")]
    for key in dict.fromkeys(keys):
        for spelt in dict.fromkeys((key, key.upper(), key.title())):
            for value in ("0", "all", "nvidia.com/gpu=all", "- path: /dev/nvidia0", "true", ""):
                made = pod("thief", 0, annotations={spelt: value})
                yield Attempt("annotation", "deviceAnnotations", f"{spelt}={value}", made)


def _host_paths(fact: model.HostPath) -> Iterator[Attempt]:
    path = fact.path
    for spelt in (path, f"{path}/", f"/{path}", path.replace("/", "//"), f"{path}/.", f"{path}/a", f"/.{path}"):
        for kind in ("", "Directory", "DirectoryOrCreate", "File", "Socket", "CharDevice"):
            volume = {"name": "v", "hostPath": {"path": spelt, "type": kind}}
            yield Attempt("path of the node", "hostDevices", f"{spelt} {kind}", pod("thief", 0, volumes=[volume]))


def lines() -> Iterator[str]:
    """How many are tried, for docs/ways.md."""
    counts = Counter(attempt.way for vendor in VENDORS for attempt in attempts(vendor))
    vendors = Counter(way for vendor in VENDORS for way in {attempt.way for attempt in attempts(vendor)})
    yield ""
    yield from (f"- {way}: {counts[way]} of {vendors[way]} vendors" for way in sorted(counts))
    yield ""

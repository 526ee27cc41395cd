"""Starts a controller beside us: with the definitions and webhooks of its own files, and a certificate for these."""

import base64
import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import trustme

from tests.controlplane.others import OTHERS, find_other
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Program, wait_for
from tests.controlplane.settings import HOST, free_port, write_private
from tests.installed import Installed
from tests.manifests.files import HOOKS, documents, kustomized

Json = dict[str, Any]
_TAKEN = ("Namespace", "Secret", "CustomResourceDefinition", *HOOKS)
"""Kinds of its files. It runs beside the control plane, as an administrator: it needs no Deployment and no roles."""


class Place(NamedTuple):
    """Where a controller runs. `file`: of its configuration; `hooks`, `health`, `metrics`: ports."""

    folder: Path
    kubeconfig: Path
    file: Path
    hooks: int
    health: int
    metrics: int


class Start(NamedTuple):
    """The content of a controller's configuration file, its flags, and where it says that it is ready. `needs`: what has to be in
    the cluster beside its files."""

    file: object
    flags: Mapping[str, object]
    ready: str
    needs: Sequence[Json] = ()


Setup = Callable[[Place], Start]


@dataclass
class Room:
    """A control plane where `others` run beside us."""

    plane: ControlPlane
    ours: Installed
    others: Mapping[str, Program]

    def check(self) -> None:
        """Raises Failed if one of the programs has ended by itself."""
        self.plane.check()
        for program in self.others.values():
            program.check()


def manager(version: str, **settings: object) -> Setup:
    """Of a controller with webhooks that is built on controller-runtime. `version`: of its Configuration. A setting that is None
    is one that it does not know."""

    def setup(place: Place) -> Start:
        file = {
            "apiVersion": version,
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{HOST}:{place.health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": HOST, "port": place.hooks, "certDir": str(place.folder)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
        }
        known = {key: value for key, value in (file | settings).items() if value is not None}
        return Start(known, {"config": place.file}, f"http://{HOST}:{place.health}/readyz")

    return setup


@contextmanager
def running(plane: ControlPlane, name: str, setup: Setup) -> Iterator[Program]:
    """With this controller (a key of OTHERS), once it is ready."""
    path = find_other(name)
    folder = plane.folder / name
    folder.mkdir()
    place = Place(folder, plane.kubeconfig, folder / "config.json", free_port(), free_port(), free_port())
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    write_private(folder / "tls.key", certificate.private_key_pem.bytes())
    write_private(folder / "tls.crt", b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
    start = setup(place)
    objects = [
        *start.needs,
        *[
            _served_here(each, place.hooks, base64.b64encode(authority.cert_pem.bytes()).decode())
            for each in _objects(plane, path.with_name(f"{name}.files"), OTHERS[name].files)
        ],
    ]
    if objects:
        wanted = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        plane.kubectl("apply", "--server-side", "-f", "-", input=wanted)
        wait_for(lambda: _established(plane), f"the kinds of {name}", [], 120)
    write_private(place.file, json.dumps(start.file))
    environment = {
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "SYSTEM_NAMESPACE": "kube-system",
    }
    program = Program(
        name, [str(path), *(f"--{key}={value}" for key, value in start.flags.items())], plane.folder, environment
    )
    try:
        program.start()
        wait_for(lambda: _answers(start.ready), f"{name} to be ready", [program], 120)
        yield program
    finally:
        program.stop(patience=0)


def _established(plane: ControlPlane) -> bool:
    """Whether all kinds that are defined are served: some controllers ask for theirs once, when they start."""
    found = json.loads(plane.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"))["items"]
    served = [{c["type"]: c["status"] for c in each["status"].get("conditions") or ()} for each in found]
    return all(each.get("Established") == "True" for each in served)


def _objects(plane: ControlPlane, files: Path, folders: tuple[str, ...]) -> list[Json]:
    """What a cluster needs of its files: as a kustomization has it, or as they stand."""
    found = list[Json]()
    for folder in [files / each for each in folders]:
        if (folder / "kustomization.yaml").exists():
            found += kustomized(plane, str(folder))
        else:
            found += [each for file in folder.glob("*.yaml") for each in documents(file)]
    return [each for each in found if each["kind"] in _TAKEN]


def _served_here(found: Any, port: int, authority: str) -> Any:
    """With all webhooks by URL: there is no network to a Service here."""
    if isinstance(found, list):
        return [_served_here(each, port, authority) for each in found]
    if not isinstance(found, dict):
        return found
    if service := (found.get("clientConfig") or {}).get("service"):
        url = f"https://{HOST}:{port}{service['path']}"
        longest = {"timeoutSeconds": 30} if "rules" in found else {}  # the machine may be busy
        return found | {"clientConfig": {"url": url, "caBundle": authority}} | longest
    return {key: _served_here(value, port, authority) for key, value in found.items()}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5, context=ssl._create_unverified_context()) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

"""A control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok, on loopback.

    with ControlPlane(find("1.37")) as plane:
        plane.kubectl("get", "namespaces")

Ready in seconds; when the block is left, or this process ends in any way, every program ends and the folder goes.
"""

import atexit
import json
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trustme
import yaml

from tests.controlplane import settings
from tests.controlplane.kinds import path
from tests.controlplane.process import Guard, Program, wait_for
from tests.controlplane.programs import Programs
from tests.controlplane.settings import HOST, USERS, Options, write_private

PATIENCE = 1.0  # seconds; an API server stops listening at once, and then waits a minute for its watches to end


class ControlPlane:
    """A running control plane. `server`, `ca`, `kubeconfig` and `token` are those of an administrator."""

    def __init__(self, programs: Programs, options: Options | None = None) -> None:
        self.programs = programs
        self.options = options or Options()
        self._tokens = {user: secrets.token_urlsafe(24) for user in USERS}

    def __enter__(self) -> Self:
        # In /tmp unless told otherwise: the path of a socket may have about 100 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-admission-"))
        self._guard = Guard(self.folder)
        atexit.register(self.close)
        self._members: dict[str, Program] = {}
        try:
            self._write_keys()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every program at once and removes the folder. Nothing here is worth a slow end. Again: nothing."""
        atexit.unregister(self.close)
        for member in reversed(self._members.values()):
            member.stop(patience=0)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._guard.release()

    # What tests use

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self.port}"

    @property
    def ca(self) -> Path:
        """The certificate of the authority that signed the API server's."""
        return self.folder / "ca.crt"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of an administrator (system:masters)."""
        return self.folder / "admin.kubeconfig"

    @property
    def token(self) -> str:
        return self._tokens["admin"]

    def kubeconfig_for(self, namespace: str, service_account: str, hours: int = 8) -> Path:
        """A kubeconfig with a token of a ServiceAccount that exists (a TokenRequest)."""
        where = path("ServiceAccount", namespace, service_account, "token")
        answer = self.request("POST", where, {"spec": {"expirationSeconds": hours * 3600}}, "application/json")
        user = f"{namespace}.{service_account}"  # a name of the file too, and colons separate paths in KUBECONFIG
        return self._write_kubeconfig(user, json.loads(answer)["status"]["token"], namespace)

    def kubectl(
        self, *arguments: str, input: str | None = None, kubeconfig: Path | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl, as the administrator unless told otherwise. Raises AssertionError with what it said.

        It blocks: a test that serves a webhook on its own loop calls it through asyncio.to_thread.
        """
        answer = subprocess.run(
            [self.programs.path("kubectl"), *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
            env=self._environment() | {"KUBECONFIG": str(kubeconfig or self.kubeconfig)},
        )
        if check and answer.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)} gave {answer.returncode}:\n{answer.stderr.strip()}")
        return answer

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "", within: float = 120
    ) -> bytes:
        """The answer to the administrator, where kubectl would prove no more: to start it costs as much as ten requests.

        Raises OSError, as an HTTPError of urllib for a status of 400 and above.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        asked = urllib.request.Request(self.server + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=self.ca)
        with urllib.request.urlopen(asked, timeout=within, context=context) as answer:
            return bytes(answer.read())

    @contextmanager
    def having(self, *objects: Mapping[str, Any]) -> Iterator[None]:
        """With these objects, as kubectl applies and deletes them."""
        text = yaml.safe_dump_all(objects)
        self.kubectl("apply", "-f", "-", input=text)
        try:
            yield
        finally:
            self.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", input=text)

    def await_right(self, *question: str) -> None:
        """Wait until the API server has heard of a right: the words after `kubectl auth can-i`."""

        def given() -> bool:
            return self.kubectl("auth", "can-i", *question, check=False).returncode == 0

        wait_for(given, f"the right to {' '.join(question)}", list(self._members.values()), 120)

    @contextmanager
    def serving(self, *definitions: Mapping[str, Any]) -> Iterator[None]:
        """With these CustomResourceDefinitions, once kubectl can read each kind.

        `kubectl wait --for=condition=Established` ends with an error when it comes before the first condition.
        """
        kinds = ",".join(f"{each['spec']['names']['plural']}.{each['spec']['group']}" for each in definitions)
        with self.having(*definitions):
            wait_for(
                lambda: self.kubectl("get", kinds, check=False).returncode == 0,
                kinds,
                list(self._members.values()),
                120,
            )
            yield

    def stop(self, name: str, patience: float = PATIENCE) -> None:
        """Ends one program, such as "kube-apiserver": SIGTERM, SIGKILL after `patience` seconds (0: a crash)."""
        self._members[name].stop(patience)

    def start(self, name: str) -> None:
        """Starts it again, on the same port and with the same data, and waits until it answers."""
        self._members[name].start()
        self._await(name)

    def check(self) -> None:
        """Raises Failed, with its last words, if a program ended by itself."""
        for member in self._members.values():
            member.check()

    def audit_events(self) -> list[dict[str, Any]]:
        """The audit events (audit.k8s.io/v1) so far, oldest first. An event may come a moment after its answer."""
        whole, _, _ = (self.folder / "audit.log").read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    # How it starts

    def _start(self) -> None:
        self.port = settings.free_port()
        for user, token in self._tokens.items():
            self._write_kubeconfig(user, token)
        socket_path = self.folder / "etcd.sock"
        commands = {
            "etcd": settings.etcd(self.folder, socket_path),
            "kube-apiserver": settings.apiserver(self.folder, socket_path, self.port, self.options),
            "kube-controller-manager": settings.controller_manager(self.folder, self.options),
            "kube-scheduler": settings.scheduler(self.folder, self.options),
            "kwok": settings.kwok(self.folder),
        }
        self._members = {
            name: Program(name, [self.programs.path(name), *flags], self.folder, self._environment())
            for name, flags in commands.items()
        }
        for name, member in self._members.items():
            member.start()
            self._await(name)
        path = "/api/v1/namespaces/default/serviceaccounts/default"  # the controller manager makes it
        wait_for(lambda: self._answers(path), f"{self.server}{path}", list(self._members.values()), 120)

    def _await(self, name: str) -> None:
        members = [member for member in self._members.values() if member.running or member.name == name]
        if name == "etcd":
            wait_for(lambda: _listens(self.folder / "etcd.sock"), "the socket of etcd", members, 120)
        elif name == "kube-apiserver":
            wait_for(lambda: self._answers("/readyz"), f"{self.server}/readyz", members, 120)

    def _answers(self, path: str) -> bool:
        try:
            self.request("GET", path, within=5)
        except OSError:
            return False
        return True

    def _write_keys(self) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert(HOST, "localhost", "kubernetes.default.svc")
        write_private(self.ca, authority.cert_pem.bytes())
        write_private(self.folder / "apiserver.key", certificate.private_key_pem.bytes())
        write_private(self.folder / "apiserver.crt", b"".join(pem.bytes() for pem in certificate.cert_chain_pems))
        signer = authority.issue_cert("service-accounts.invalid")
        write_private(self.folder / "service-accounts.key", signer.private_key_pem.bytes())
        lines = [f'{token},{user},{user},"{USERS[user]}"' for user, token in self._tokens.items()]
        write_private(self.folder / "tokens.csv", "\n".join(lines) + "\n")

    def _write_kubeconfig(self, user: str, token: str, namespace: str = "default") -> Path:
        content = settings.kubeconfig(self.server, self.ca.read_bytes(), user, token, namespace)
        return write_private(self.folder / f"{user}.kubeconfig", json.dumps(content, indent=1) + "\n")

    def _environment(self) -> dict[str, str]:
        """Ours, without what would send a loopback request or a setting astray."""
        dropped = {"KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}
        return {name: value for name, value in os.environ.items() if name not in dropped} | {"HOME": str(self.folder)}


def _listens(path: Path) -> bool:
    """Whether a program takes connections on the socket; after a crash the file alone is still there."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True

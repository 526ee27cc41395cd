"""The files and flags that the programs of a control plane are started with."""

import base64
import fcntl
import json
import os
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STAGES = Path(__file__).parent / "stages.yaml"
"""What kwok does in place of kubelets."""
HOST = "127.0.0.1"
# Their default RBAC roles are bound to these names; the webhook and the audit log see who a request is from.
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "kwok": "system:masters",
}
# Only what tests read: created pods as they are stored, with the annotations that admission added to the event.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "RequestResponse", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True)
class Options:
    """How a control plane differs from the plain one.

    apiserver: more flags, such as ("--enable-admission-plugins=PodTolerationRestriction",).
    scheduler: a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) without its connection; None: as released.
    gates: feature gates that are on, for all of them.
    """

    apiserver: Sequence[str] = ()
    scheduler: Mapping[str, Any] | None = None
    gates: Sequence[str] = ()

    @property
    def feature_gates(self) -> list[str]:
        return [f"--feature-gates={','.join([f'{gate}=true' for gate in self.gates])}"] if self.gates else []


def most_allocated(*resources: str) -> dict[str, Any]:
    """The scheduler configuration of an administrator who packs `resources` (default: nvidia.com/gpu)."""
    weights = [{"name": name, "weight": 1} for name in resources or ("nvidia.com/gpu",)]
    strategy = {"type": "MostAllocated", "resources": weights}
    fit = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
    return {"profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [fit]}]}


_LOCKS: list[int] = []
"""One for each port that this process was given. They are held until it ends, so that no other run of tests gets the port."""


def free_port() -> int:
    """A port that nothing has now, and no other run of tests gets; below those that the system hands out."""
    folder = Path.home() / ".cache/gpu-admission/ports"
    folder.mkdir(parents=True, exist_ok=True)
    for port in random.sample(range(20_000, 32_000), 100):
        lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)
        with socket.socket() as probe:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                probe.bind((HOST, port))
            except OSError:
                os.close(lock)
                continue
        _LOCKS.append(lock)
        return port
    raise RuntimeError(f"none of 100 ports between 20000 and 32000 is free on {HOST}")


def address_of_this_machine() -> str:
    """As others see it. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


def kubeconfig(server: str, ca: bytes, user: str, token: str, namespace: str = "default") -> dict[str, Any]:
    """A kubeconfig that needs no other file."""
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "simulated", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "simulated", "context": {"cluster": "simulated", "user": user, "namespace": namespace}}],
        "current-context": "simulated",
    }


def write_private(path: Path, content: str | bytes) -> Path:
    """Writes a file that only this user reads."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def etcd(folder: Path, socket_path: Path) -> list[str]:
    """Client and peer over sockets in our folder: no port to lose, and nobody else can connect.

    etcd before 3.7 takes no socket as an address that it advertises; nobody reads those of a single member.
    """
    advertised = "http://127.0.0.1:2380"
    return [
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=unix://{socket_path}",
        f"--advertise-client-urls={advertised}",
        f"--listen-peer-urls=unix://{folder / 'peer.sock'}",
        f"--initial-advertise-peer-urls={advertised}",
        f"--initial-cluster=default={advertised}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(folder: Path, etcd_socket: Path, port: int, options: Options) -> list[str]:
    write_private(folder / "audit-policy.json", json.dumps(AUDIT_POLICY))
    return [
        f"--etcd-servers=unix://{etcd_socket}",
        f"--secure-port={port}",
        f"--bind-address={HOST}",
        f"--tls-cert-file={folder / 'apiserver.crt'}",
        f"--tls-private-key-file={folder / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-accounts.key'}",
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--profiling=false",
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={folder / 'audit-policy.json'}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-maxsize=100000",  # MiB; 0 is 100, and a test that reads on finds another file
        *options.apiserver,
        *options.feature_gates,
    ]


def controller_manager(folder: Path, options: Options) -> list[str]:
    """Each controller under its own service account, as everywhere; quick enough for a burst of pods."""
    return [
        f"--kubeconfig={folder / 'system:kube-controller-manager.kubeconfig'}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
        f"--service-account-private-key-file={folder / 'service-accounts.key'}",
        f"--root-ca-file={folder / 'ca.crt'}",
        "--use-service-account-credentials",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--node-monitor-grace-period=1h",  # no node is lost because the machine is busy
        *options.feature_gates,
    ]


def scheduler(folder: Path, options: Options) -> list[str]:
    connection = folder / "system:kube-scheduler.kubeconfig"
    if options.scheduler is None:
        configuration = [f"--kubeconfig={connection}", "--leader-elect=false", "--profiling=false"]
    else:
        file = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(connection)},
            "leaderElection": {"leaderElect": False},
            **options.scheduler,
        }
        configuration = [f"--config={write_private(folder / 'scheduler.json', json.dumps(file))}"]
    return [*configuration, *options.feature_gates, "--secure-port=0", "--authentication-skip-lookup"]


def kwok(folder: Path) -> list[str]:
    return [
        f"--kubeconfig={folder / 'kwok.kubeconfig'}",
        f"--config={STAGES}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=0",  # nobody asks for leases, and to renew those of 400 nodes takes 40 writes a second
        "--cidr=10.64.0.1/14",
    ]

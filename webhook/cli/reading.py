"""What the commands that look at a cluster do first: read it, and say what could not be read."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from webhook.cli.cluster import metrics
from webhook.cli.cluster.files import read_snapshot
from webhook.cli.cluster.load import EVERYWHERE, FORBIDDEN, load
from webhook.cli.cluster.measured import Figures
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.offline import load_policy
from webhook.cli.terminal import no_such, policy_named, say
from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.errors import BadInput
from webhook.feeds.gpu_source import SourceFailed
from webhook.policy.model import Policy
from webhook.text import listed


def snapshot_of(
    cluster: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    kinds: Iterable[str],
    namespace: str | None = EVERYWHERE,
    *,
    nodes_needed: bool = True,
) -> Snapshot:
    """The cluster of a file, or of a kubeconfig: see `load`. What could not be read is said on stderr. Raises BadInput."""
    gc.disable()  # a million small objects that all stay: to look for garbage among them takes longer than to read them
    if cluster is not None:
        if kubeconfig or context:
            raise BadInput("saw --cluster with --kubeconfig or --context, wanted one: the file is instead of a cluster")
        snapshot = read_snapshot(cluster)
    else:
        snapshot = load(kubeconfig, context, kinds, namespace, nodes_needed=nodes_needed)
        if snapshot.missing:
            say(f"warning: {_together(snapshot.missing.values())}: what depends on them is not known", "yellow")
    return snapshot


def _together(missing: Iterable[str]) -> str:
    """«no right to list nodes; pods, events of team», then all other reasons."""
    places: dict[str, list[str]] = {}
    reasons = []
    for why in sorted(missing):
        kind, of, where = why.removeprefix(FORBIDDEN).partition(" of ")
        if why.startswith(FORBIDDEN):
            places.setdefault(f"{of}{where}", []).append(kind)
        else:
            reasons.append(why)
    lists = "; ".join(f"{listed(kinds, 40)}{where}" for where, kinds in sorted(places.items()))
    return "; ".join([*([f"{FORBIDDEN}{lists}"] if lists else []), *reasons])


def measure_gpus(snapshot: Snapshot, policy: Policy, address: str | None) -> None:
    """Ask GPU metrics, at `address` or where the policy says. Where they do not answer that is said on stderr: all else is known.

    A file has what was known when it was written. Nodes are then ranked by them as the webhook does. Raises BadInput.
    """
    settings = policy.file.gpu_metrics
    if address == "off":
        snapshot.measured = None
    elif address is not None:
        _ask(snapshot, metrics.with_url(address, settings))
    elif snapshot.access is not None and settings.source != "off":
        _ask(snapshot, settings)
    if snapshot.measured and settings.source != "off":
        use = Figures(snapshot.measured, settings, snapshot.taken).use
        for name, now in use.changes():
            snapshot.state.gpu_use_seen(name, now)
        snapshot.state.gpu_metrics = use.status


def _ask(snapshot: Snapshot, settings: GpuMetricsSettings) -> None:
    try:
        with Console(stderr=True).status("reading GPU metrics"):  # on a terminal only
            in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
            snapshot.measured = asyncio.run(metrics.measure(snapshot, settings, in_pod=in_pod))
    except SourceFailed as error:
        unknown = "utilisation, memory, temperature and idle GPUs are not known"
        say(f"warning: GPU metrics cannot be read: {unknown}: {error}. Give --metrics URL, or --metrics off", "yellow")


def policy_of(name: str | None, snapshot: Snapshot) -> Policy:
    """The policy that is named; else that of the cluster; else the shipped one. Raises BadInput, PolicyError."""
    if name is not None:
        return policy_named(name)
    return snapshot.policy or load_policy()


def namespace_of(namespace: str | None, everywhere: bool, snapshot: Snapshot) -> str | None:
    """The namespace that is asked about; None: all. Of a file all, unless one is given."""
    if everywhere:
        if namespace:
            raise BadInput("saw -n and -A, wanted one of them")
        return None
    known = [name for _, name in snapshot.named("Namespace")]
    if namespace and known and namespace not in known:
        raise no_such("namespace", namespace, known)
    return namespace or snapshot.namespace

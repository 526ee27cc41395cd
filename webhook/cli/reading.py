"""The first steps of the commands that look at a cluster: read it, its policy and its GPU metrics, and print what could not be
read."""

import asyncio
import gc
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from webhook.cli.cluster import metrics
from webhook.cli.cluster.load import EVERYWHERE, FORBIDDEN, grant, load, read_snapshot
from webhook.cli.cluster.measured import Figures
from webhook.cli.cluster.snapshot import NEEDED, Snapshot
from webhook.cli.offline import load_policy, policy_named
from webhook.cli.terminal import no_such, say
from webhook.errors import BadInput
from webhook.feeds.gpu_source import SourceFailed
from webhook.kube import selectors
from webhook.kube.kinds import KINDS
from webhook.kube.selectors import Requirement
from webhook.policy.model import Policy
from webhook.text import listed, quoted


def snapshot_of(
    cluster: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    kinds: Iterable[str],
    namespace: str | None = EVERYWHERE,
    *,
    needed: Collection[str] = NEEDED,
) -> Snapshot:
    """The cluster, from the file `cluster` or else from the API server of a kubeconfig (see `load`).

    What could not be read is printed on stderr. Raises BadInput. Automatic garbage collection stays off afterwards.
    """
    gc.disable()  # a snapshot is about a million small objects that all stay: collection takes longer than reading them
    if cluster is not None:
        if kubeconfig or context:
            raise BadInput("saw --cluster with --kubeconfig or --context, wanted one: the file is instead of a cluster")
        snapshot = read_snapshot(cluster)
    else:
        snapshot = load(kubeconfig, context, kinds, namespace, needed=needed)
        if snapshot.missing:
            say(f"warning: {together(snapshot.missing.values())}: what depends on them is not known", "yellow")
            if command := missing_right(snapshot):
                say(f"an operator gives the right by: {command}", "dim")
    return snapshot


def missing_right(snapshot: Snapshot) -> str:
    """The command by which an operator gives the right to list what may not be listed; "" if all may be."""
    refused = [name for name, why in snapshot.missing.items() if why.startswith(FORBIDDEN) and name in KINDS]
    most = [name for name in NEEDED if name in refused] or refused  # the rest says little
    return grant(KINDS[name] for name in most) if most else ""


def together(missing: Iterable[str]) -> str:
    """One text for all reasons: `no right to list nodes; pods, events of team`, then all other reasons."""
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
    """Read GPU metrics into the snapshot, and use them: see `poll_gpus`. Raises BadInput."""
    poll_gpus(snapshot, policy, address)
    use_metrics(snapshot, policy)


def poll_gpus(snapshot: Snapshot, policy: Policy, address: str | None) -> None:
    """Read GPU metrics into the snapshot.

    `address`: a Prometheus; "off": no metrics; None: the source that the policy names. For a snapshot from a file, None keeps
    the metrics in the file. If the source does not answer, a warning is printed on stderr. Raises BadInput.
    """
    settings = policy.file.gpu_metrics
    if address == "off":
        snapshot.measured = None
        return
    if address is not None:
        settings = metrics.with_url(address, settings)
    elif snapshot.access is None or settings.source == "off":
        return
    try:
        with Console(stderr=True).status("reading GPU metrics"):  # is shown on a terminal only
            in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
            snapshot.measured = asyncio.run(metrics.measure(snapshot, settings, in_pod=in_pod))
    except SourceFailed as error:
        unknown = "utilisation, memory, temperature and idle GPUs are not known"
        say(f"warning: GPU metrics cannot be read: {unknown}: {error}. Give --metrics URL, or --metrics off", "yellow")


def use_metrics(snapshot: Snapshot, policy: Policy) -> None:
    """Rank nodes by the GPU metrics of the snapshot, as the webhook does."""
    settings = policy.file.gpu_metrics
    if snapshot.measured and settings.source != "off":
        use = Figures(snapshot.measured, settings, snapshot.taken).use
        for name in use.nodes():
            snapshot.state.nodes.use_seen(name, use.node(name))
        snapshot.state.gpu_metrics = use.status


def policy_of(name: str | None, snapshot: Snapshot) -> Policy:
    """The policy called `name`, or with None that of the cluster, or the shipped one if the cluster has none. Raises BadInput
    and PolicyError."""
    if name is not None:
        return policy_named(name)
    return snapshot.policy or load_policy()


def namespace_of(namespace: str | None, everywhere: bool, snapshot: Snapshot) -> str | None:
    """The namespace to show: `namespace`, else that of the kubeconfig's context. None: all, as with `everywhere` or a file.
    Raises BadInput if the namespace does not exist."""
    if everywhere:
        if namespace:
            raise BadInput("saw -n and -A, wanted one of them")
        return None
    known = {name for _, name in snapshot.named("Namespace")}
    if namespace and known and namespace not in known:
        # A file may have pods of a namespace without its Namespace.
        known.update(obj["metadata"].get("namespace") or "" for objects in snapshot.objects.values() for obj in objects)
        if namespace not in known:
            raise no_such("namespace", namespace, sorted(known - {""}))
    return namespace or snapshot.namespace


_PART: Final = re.compile(r"(?:[^,(]|\([^)]*\))+")
_SET: Final = re.compile(r"([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)")
_EQUAL: Final = re.compile(r"([\w./-]+)\s*(==|=|!=)\s*([\w.-]*)")
_EXISTS: Final = re.compile(r"(!?)\s*([\w./-]+)")
_OPERATORS: Final = {
    "in": "In",
    "notin": "NotIn",
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    "": "Exists",
    "!": "DoesNotExist",
}
Labels = Mapping[str, str]


def selector(text: str | None) -> Callable[[Labels], bool]:
    """A function that says whether labels match the selector `text`; None matches all. Raises BadInput."""
    requirements = [_requirement(part.strip()) for part in _PART.findall(text or "")]
    return lambda labels: all(requirement.holds(labels) for requirement in requirements)


def _requirement(part: str) -> Requirement:
    if match := _SET.fullmatch(part):
        return Requirement(match[1], _OPERATORS[match[2]], frozenset([value.strip() for value in match[3].split(",")]))
    if match := _EQUAL.fullmatch(part):
        return Requirement(match[1], _OPERATORS[match[2]], frozenset((match[3],)))
    if match := _EXISTS.fullmatch(part):
        return Requirement(match[2], _OPERATORS[match[1]], frozenset())
    raise BadInput(f"-l: saw {quoted(part)}, wanted labels as a=b, a!=b, a in (b,c), a or !a, with commas between")


def selects(label_selector: Any, labels: Labels) -> bool:
    """Whether a LabelSelector of an object matches these labels; one that is malformed or too large matches nothing."""
    try:
        return bool(selectors.selects(selectors.compiled(label_selector), labels))
    except (ValueError, TypeError, LookupError):
        return False

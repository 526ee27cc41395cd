"""The first steps of the commands that look at a cluster: read it, its policy and its GPU metrics, and print what could not be
read."""

import asyncio
import gc
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from rich.console import Console

from webhook.cli.cluster import metrics
from webhook.cli.cluster.answers import QUESTIONS
from webhook.cli.cluster.load import EVERYWHERE, FORBIDDEN, giver, load, read_snapshot
from webhook.cli.terminal import say
from webhook.errors import BadInput, PolicyError
from webhook.feeds.gpu_source import SourceFailed
from webhook.kube.kinds import KINDS, OTHERS
from webhook.kube.selectors import Requirement
from webhook.policy.model import Policy
from webhook.text import listed, no_such, plural, printable, quoted
from webhook.whatif.cluster.measured import Figures
from webhook.whatif.cluster.release import OUR_POLICY
from webhook.whatif.cluster.snapshot import NEEDED, Snapshot
from webhook.whatif.offline import load_policy, policy_named


def snapshot_of(
    file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    kinds: Iterable[str],
    namespace: str | None = EVERYWHERE,
    *,
    needed: Collection[str] = NEEDED,
) -> Snapshot:
    """The cluster, from `file` or else from the API server of a kubeconfig (see `load`).

    What could not be read is printed on stderr. Raises BadInput. Automatic garbage collection stays off afterwards.
    """
    gc.disable()  # a snapshot is about a million small objects that all stay: collection takes longer than reading them
    if file is not None:
        if kubeconfig or context:
            raise BadInput("saw --from with --kubeconfig or --context, wanted one: the file is instead of a cluster")
        snapshot = read_snapshot(file)
    else:
        snapshot = load(kubeconfig, context, kinds, namespace, needed=needed)
        if missing := not_read(snapshot.missing):
            say(f"warning: {missing}: what depends on them is not known", "yellow")
    return snapshot


def no_cluster(why: str) -> Snapshot:
    """A cluster of which nothing is known."""
    return Snapshot({}, dict.fromkeys((*KINDS, *QUESTIONS), why))


def not_read(missing: Mapping[str, str]) -> str:
    """One line for the kinds that could not be read: which rights are missing, and who gives them; else why. "" without any. Of
    OTHERS nothing is said: labels say most of what these do."""
    kinds = {kind: why for kind, why in missing.items() if kind not in OTHERS}
    refused = [kind for kind, why in kinds.items() if why.startswith("no right to ")]
    refused.sort(key=lambda kind: (kind not in NEEDED, kind in QUESTIONS, kind))
    reasons = sorted({why for kind, why in kinds.items() if kind not in refused})
    if refused:
        first = [kind for kind in refused if kind in NEEDED] or refused[:1]  # the rest says little
        more = [plural(len(refused) - len(first), "more kind")] if len(refused) > len(first) else []
        names = [kinds[first[0]], *[kinds[kind].removeprefix(FORBIDDEN) for kind in first[1:]], *more]
        reasons.insert(0, f"{' and '.join(names)} ({giver(refused)} gives it)")
    return "; ".join(reasons)


def measure_gpus(snapshot: Snapshot, policy: Policy, address: str | None) -> None:
    """Read GPU metrics into the snapshot, and use them: see `poll_gpus`. Raises BadInput."""
    poll_gpus(snapshot, policy, address)
    use_metrics(snapshot, policy)


def poll_gpus(snapshot: Snapshot, policy: Policy, address: str | None, within: float | None = None) -> None:
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
            snapshot.measured = asyncio.run(metrics.measure(snapshot, settings, in_pod=in_pod, within=within))
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
    """The policy called `name`, or with None that of the cluster, or the shipped one where there is none or it cannot be used.
    Raises BadInput, and PolicyError for a policy of that name."""
    if name is not None:
        return policy_named(name)
    with suppress(PolicyError):
        return snapshot.policy or load_policy()
    return load_policy()


def policy_alone(
    name: str | None, file: Path | None, kubeconfig: Path | None, context: str | None
) -> tuple[Policy, str]:
    """The policy called `name`, or that of the cluster if one is named, or the shipped one; and which it is, in words."""
    if name is None and (file or kubeconfig or context):
        snapshot = snapshot_of(file, kubeconfig, context, ("ConfigMap",), needed=())
        return policy_of(None, snapshot), decided_by(None, snapshot)
    return policy_named(name), decided_by(name or "default", Snapshot({}))


def decided_by(name: str | None, snapshot: Snapshot) -> str:
    """By which policy `policy_of` lets decide, in words."""
    if name is not None:
        return _SHIPPED if name == "default" else f"the policy of {name}"
    if why := _why_not_its_own(snapshot):
        return f"{_SHIPPED}, since {why}"
    if (policy := snapshot.policy) is not None:
        return f"the policy of the cluster, {policy.hash}"
    return f"{_SHIPPED}, since there is no ConfigMap {OUR_POLICY}" if snapshot.objects else _SHIPPED


def say_by(name: str | None, snapshot: Snapshot, head: str = "", *, always: bool = True) -> None:
    """Say by which policy it was answered; not `always`: only if that is not the cluster's, and it has one or may have."""
    if always or (name is None and _why_not_its_own(snapshot)):
        say(f"{head}by {decided_by(name, snapshot)}", "dim")


def _why_not_its_own(snapshot: Snapshot) -> str:
    """Why the policy of the cluster cannot be used here; "" if it can, or if there is none."""
    try:
        if snapshot.policy is None and snapshot.objects and (why := snapshot.missing.get("ConfigMap")):
            return f"that of the cluster is not known: {why}"
    except PolicyError as error:
        if error.later:
            return f"that of the cluster is for gpu-admission {error.later}: use the command of that version"
        wrong = f"that of the cluster cannot be used: {printable(listed(error.problems, 1))}"
        return f"{wrong}; the webhook decides by the last good one, or is of a newer version"
    return ""


_SHIPPED: Final = "the shipped policy"


def namespace_of(namespace: str | None, everywhere: bool, snapshot: Snapshot) -> str | None:
    """The namespace to show: `namespace`, else that of the kubeconfig's context. None: all, as with `everywhere` or a file.
    Raises BadInput if the namespace does not exist."""
    if everywhere:
        return None
    known = {name for _, name in snapshot.named("Namespace")}
    if namespace and known and namespace not in known:
        # A file may have pods of a namespace without its Namespace.
        known.update(obj["metadata"].get("namespace") or "" for objects in snapshot.objects.values() for obj in objects)
        if namespace not in known:
            raise no_such("namespace", namespace, sorted(known - {""}))
    return namespace or snapshot.namespace


_KEY: Final = r"[\w./-]+"
_VALUE: Final = r"[\w.-]*"
_PART: Final = re.compile(
    rf"\s*(?:(?P<of>{_KEY})\s+(?P<set>in|notin)\s*\((?P<values>\s*{_VALUE}\s*(?:,\s*{_VALUE}\s*)*)\)"
    rf"|(?P<key>{_KEY})\s*(?P<how>==|=|!=)\s*(?P<value>{_VALUE})|(?P<not>!?)\s*(?P<exists>{_KEY}))\s*(?:,|$)"
)
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
    requirements, at = list[Requirement](), 0
    while at < len(text or ""):
        if (match := _PART.match(text or "", at)) is None:
            wanted = "labels as a=b, a!=b, a in (b,c), a or !a, with commas between"
            raise BadInput(f"-l: saw {quoted((text or '')[at:])}, wanted {wanted}")
        requirements.append(_requirement(match))
        at = match.end()
    return lambda labels: all(requirement.holds(labels) for requirement in requirements)


def _requirement(match: re.Match[str]) -> Requirement:
    if match["of"]:
        return Requirement(match["of"], _OPERATORS[match["set"]], frozenset(map(str.strip, match["values"].split(","))))
    if match["key"]:
        return Requirement(match["key"], _OPERATORS[match["how"]], frozenset((match["value"],)))
    return Requirement(match["exists"], _OPERATORS[match["not"]], frozenset())

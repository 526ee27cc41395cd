"""`gpu-admission pending`: why pods wait for a node, and what to do about it."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.devices import PodGpus
from webhook.cli.cluster.report import workload_name
from webhook.cli.cluster.snapshot import CLAIMS, ENGINE, FINISHED, Snapshot, created
from webhook.cli.reading import namespace_of, policy_of, selector, snapshot_of
from webhook.cli.terminal import age, clear, document, repeated, say, show, table
from webhook.cli.waiting.causes import Cause
from webhook.cli.waiting.diagnosis import Diagnosis, Findings, bound
from webhook.cli.waiting.situation import Situation
from webhook.cli.waiting.workloads import not_created
from webhook.errors import BadInput
from webhook.kube.pod import Pod, labels_of
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.text import listed, plural, quoted

KINDS: Final = (
    *ENGINE,
    *("Event", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "ReplicaSet", "StatefulSet"),
    *("DaemonSet", "Job", "ServiceAccount", *CLAIMS, "PodGroup", "Lease"),
)
_MAX_MESSAGE: Final = 1024
"""Maximum characters shown of the scheduler's message. The scheduler cuts its Events to the same length."""


def pending(
    pod: Annotated[
        str | None, typer.Argument(help="A pod or a workload, such as `job/train`. Default: all pods that wait.")
    ] = None,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = "table",
    watch: options.Watch = False,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Say why pods wait: a row for each workload with its first cause and the first thing to do.

    With the name of a POD or workload, or with `-o wide`: every cause with numbers and every fix, in the order in which to try.
    Each fix was tried on the cluster as it is: `!` marks one after which the pod would run. Workloads whose pods could not be
    created (by a quota or a refusal) are listed too. The names of causes do not change; docs/cli.md lists them.
    Example: `gpu-admission pending -n team-a trainer-0`.
    """
    matches = selector(labels)

    def refresh() -> None:
        snapshot = snapshot_of(cluster, kubeconfig, context, KINDS, namespace, needed=("Pod",))
        wanted, rules = namespace_of(namespace, everywhere, snapshot), policy_of(policy, snapshot)
        found = answers(snapshot, rules, wanted, pod)
        waiting = [each for each in found if matches(labels_of(each.pod) if each.pod else {})]
        if watch and output in ("table", "wide"):
            clear()
        if document([each.document() for each in waiting], output):
            return
        if not waiting:
            say(f"no pod{f' with {labels}' if labels else ''} waits{f' in {wanted}' if wanted else ''}")
            return
        rows = rows_of(waiting, PodGpus(snapshot, rules))
        if pod is None and output != "wide":
            _print(rows, snapshot.taken)
        else:
            for row in rows if pod else ():
                show(Text("\n").join(_lines(row.answers[0], row.name, wide=output == "wide")))
            for each in waiting if not pod else ():
                show(Text("\n").join(_lines(each, f"{each.namespace}/{each.name}", wide=output == "wide")))

    repeated(refresh, watch=watch, from_file=cluster is not None)


class Answer(NamedTuple):
    """Why one pod waits, or why the pods of one workload could not be created."""

    namespace: str
    name: str
    """The pod's name. Of a workload whose pods could not be created: kind and name, `replicaset/chat-5d8`."""
    causes: list[Cause]
    notes: list[str] = []
    """What else is known: see `waiting.notes`."""
    says: str = ""
    """The scheduler's message; "" if there is none."""
    pod: Pod | None = None
    """None for a workload."""

    def document(self) -> dict[str, Any]:
        """The entry that `-o json` prints, described in docs/cli.md."""
        causes = [cause.document() for cause in self.causes]
        head = {"namespace": self.namespace, "name": self.name, "causes": causes}
        return {**head, "notes": self.notes, "schedulerSays": self.says}


def answers(snapshot: Snapshot, policy: Policy, namespace: str | None, name: str | None = None) -> list[Answer]:
    """An answer for each pod and workload that waits, or only for the one called `name`. Raises BadInput if that one does
    not exist or does not wait."""
    situation = Situation(snapshot, policy)
    diagnosis = Diagnosis(situation)
    missing = [Answer(*each) for each in not_created(situation, namespace)]
    if name is not None:
        lacking = [each for each in missing if name in (each.name, each.name.partition("/")[2])]
        if not lacking:
            return [_named(diagnosis, pod) for pod in pods_named(snapshot, namespace, name)]
        waiting = filter(_waits, _pods_of(snapshot, namespace, name))
        return [*lacking, *[_named(diagnosis, pod) for pod in waiting]]
    found = [(pod, Findings([bound(situation, pod)], [])) for pod in situation.astray]
    found += [
        (pod, diagnosis.of(pod)) for pod in situation.waiting if namespace in (None, pod["metadata"]["namespace"])
    ]
    return missing + [_answer(*each) for each in found if namespace in (None, each[0]["metadata"]["namespace"])]


def pods_named(snapshot: Snapshot, namespace: str | None, name: str) -> list[Pod]:
    """The pod of that name, or the pods of the workload of that name, those that wait if some do. Raises BadInput with the
    nearest name if there is neither."""
    try:
        return [snapshot.pod(namespace, name)]
    except BadInput:
        pods = _pods_of(snapshot, namespace, name)
        there = sorted({pod["metadata"]["namespace"] for pod in pods})
        if len(there) > 1 and not any(key[1] == name for key in snapshot.named("Pod")):
            text = f"{quoted(name)} is in {plural(len(there), 'namespace')}: {listed(there)}. Give one: -n"
            raise BadInput(text) from None
        if len(there) != 1:
            raise
    return [*filter(_waits, pods)] or pods


def _pods_of(snapshot: Snapshot, namespace: str | None, workload: str) -> list[Pod]:
    here = [pod for pod in snapshot.of("Pod") if namespace in (None, pod["metadata"]["namespace"])]
    return [pod for pod in here if workload in (of := workload_name(pod), of.partition("/")[2])]


def _waits(pod: Pod) -> bool:
    leaves = pod["metadata"].get("deletionTimestamp")
    return not leaves and not pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending"


def _named(diagnosis: Diagnosis, pod: Pod) -> Answer:
    """The answer for a pod that was asked for by name. Raises BadInput if it runs, has ended or is being deleted."""
    phase = "being deleted" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase")
    if phase in ("Running", "being deleted", *FINISHED):
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        raise BadInput(f"pod {quoted(name)} in namespace {namespace} does not wait: it is {phase}")
    if pod["spec"].get("nodeName"):
        return _answer(pod, Findings([bound(diagnosis.situation, pod)], []))
    return _answer(pod, diagnosis.of(pod))


def _answer(pod: Pod, found: Findings) -> Answer:
    return Answer(pod["metadata"]["namespace"], pod["metadata"]["name"], *found, pod)


class Row(NamedTuple):
    """Pods of one workload that wait for the same reason; or a workload without its pods."""

    name: str
    since: float
    """When the first of them was created, in seconds since 1970; 0: it is not known."""
    gpus: int | float
    """GPUs that all of them ask for."""
    cause: Cause
    answers: list[Answer]
    """Those that it stands for."""


def rows_of(waiting: Iterable[Answer], devices: PodGpus) -> list[Row]:
    """The rows of the table, the longest wait first: pods of one workload that wait for the same reason are one."""
    grouped: dict[tuple[str, str, tuple[str, str]], list[Answer]] = {}
    for each in waiting:
        of = workload_name(each.pod) if each.pod else each.name
        grouped.setdefault((each.namespace, of, each.causes[0][:2]), []).append(each)
    rows = []
    for (namespace, of, _), same in grouped.items():
        pods = [each.pod for each in same if each.pod]
        name = f"{of} × {len(same)}" if len(same) > 1 else same[0].name
        since = min((created(pod) for pod in pods), default=0.0)
        gpus = gpu_number(sum(sum(devices.asked(pod).values()) for pod in pods))
        rows.append(Row(f"{namespace}/{name}", since, gpus, same[0].causes[0], same))
    return sorted(rows, key=lambda row: (row.since, row.name))


def _print(rows: Iterable[Row], taken: float) -> None:
    cells = [
        (
            row.name,
            age(row.since, taken),
            row.gpus or "",
            words_of(row.cause.cause),
            Text.assemble("! " if row.cause.helps else "  ", (first_fix(row.cause), "green")),
        )
        for row in rows
    ]
    table(
        ["POD", "SINCE", "GPUS", "WHY", "FIX (! is enough alone)"], cells, cut_last=True, drop=["SINCE", "GPUS", "WHY"]
    )
    say("all causes and fixes: gpu-admission pending POD, or -o wide", "dim")


def first_fix(cause: Cause) -> str:
    """The first of the fixes of a cause."""
    return cause.fix.partition(", or ")[0]


def words_of(cause: str) -> str:
    """The word of a cause as a phrase: "insufficient CPU" for `insufficientCpu`."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+", cause)]
    return " ".join([{"cpu": "CPU", "gpu": "GPU", "gpus": "GPUs"}.get(word, word) for word in words])


def _lines(answer: Answer, title: str, *, wide: bool) -> Iterator[Text]:
    yield Text(title, style="bold")
    yield from cause_lines(answer.causes, wide=wide)
    for note in answer.notes:
        yield Text(f"  {note}")
    if answer.says:
        more = "… (-o json: all of it)" if len(answer.says) > _MAX_MESSAGE else ""
        yield Text(f"  scheduler: {answer.says[:_MAX_MESSAGE]}{more}", style="dim")


def cause_lines(causes: Iterable[Cause], *, wide: bool) -> Iterator[Text]:
    """Each cause with its fix. `!` marks a fix that is enough alone. If not `wide`, causes of nodes that are not for the pod
    are one line."""
    others: dict[str, tuple[set[str], int]] = {}
    for cause in causes:
        if cause.elsewhere and not wide:
            names, helps = others.get(cause.cause, (set(), 0))
            others[cause.cause] = names.union(cause.nodes), helps + cause.helps
            continue
        yield Text.assemble("! " if cause.helps else "  ", (cause.cause, "yellow"), f": {cause.text}")
        yield Text.assemble("    → ", (cause.fix, "green"))
        if wide and cause.nodes:
            yield Text(f"    nodes: {', '.join(cause.nodes)}", style="dim")
    if others:
        total = len(set().union(*[names for names, _ in others.values()]))
        by = [
            f"{len(names)} by {word}{f' ({helps} of them would take it but for that)' if helps else ''}"
            for word, (names, helps) in others.items()
        ]
        nodes = f"{plural(total, 'other node')} {'is' if total == 1 else 'are'} not for this pod"
        yield Text(f"  {nodes}: {', '.join(by)} (all of it: -o wide)", style="dim")

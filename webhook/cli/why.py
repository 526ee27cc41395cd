"""`gpu-admission why`: why pods wait, or why a pod is where it is, and what would change that."""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.alike import alike
from webhook.cli.decided import decision_of, show_decision
from webhook.cli.reading import namespace_of, policy_of, say_by, selector, snapshot_of
from webhook.cli.terminal import COMMAND, PROGRAM, age, clear, counted, document, repeated, say, show, table
from webhook.kube.pod import labels_of
from webhook.policy.model import Policy
from webhook.text import listed, plural
from webhook.whatif.answers import KINDS, Answer, Asked, Row, answers, asked, left_out, rows_of
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.waiting.causes import Cause, Fix

_MAX_MESSAGE = 1024
"""Maximum characters shown of the scheduler's message. The scheduler cuts its Events to the same length."""


def why(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A pod or a workload: `train-3`, `job/train`, `deploy/chat`. Default: all pods that wait.",
            show_default=False,
        ),
    ] = None,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = "table",
    watch: options.Watch = False,
    policy: options.Policy = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Show why pods wait: a row for each workload, with its first cause and what to do first.

    With the NAME of a pod or a workload: every cause with its numbers, and every fix, in the order in which to try them; what the
    webhook decided, what each injector did, the ranked nodes, and why the pod is on its node. `!` marks a fix that was tried
    on the cluster as it is: with it alone the pod would run. Workloads whose pods could not be created (by a quota or a
    refusal) are listed too. The words of causes do not change; docs/waiting.md lists them.

    Examples: `gpu-admission why`, `gpu-admission why deploy/chat -n team-a`.

    A node that is kept back is ranked after the others, and the table says why: it is whole and kept for large pods, its GPUs
    are shared, other pods need just what is free there, or another replica of the webhook fills it now.
    """
    matches = selector(labels)

    def refresh() -> None:
        snapshot = snapshot_of(file, kubeconfig, context, KINDS, namespace, needed=("Pod",))
        where, rules = namespace_of(namespace, everywhere, snapshot), policy_of(policy, snapshot)
        wide = output == "wide"
        if name is not None:
            found = asked(snapshot, rules, where, name)
            if watch and output in ("table", "wide"):
                clear()
            if not document(documents(snapshot, rules, found), output, "Why"):
                _print_asked(snapshot, rules, found, wide=wide)
            return say_by(policy, snapshot, "fixes were tried ")
        with counted("looking at the pods that wait") as progress:
            every = answers(snapshot, rules, where, progress)
        waiting = [each for each in every if matches(labels_of(each.pod) if each.pod else {})]
        if watch and output in ("table", "wide"):
            clear()
        if document([each.document() for each in waiting], output, "Why"):
            pass
        elif not waiting:
            say(f"no pod{f' with {labels}' if labels else ''} waits{f' in {where}' if where else ''}")
        elif wide:
            for each in waiting:
                show(*_lines(each, f"{each.namespace}/{each.name}", wide=True))
        else:
            _print(rows_of(waiting, PodGpus(snapshot, rules)), snapshot.taken)
            if more := left_out(waiting):
                say(more, "dim")
        return say_by(policy, snapshot, "fixes were tried ", always=bool(waiting))

    repeated(refresh, watch=watch, from_file=file is not None)


def documents(snapshot: Snapshot, policy: Policy, found: Asked) -> list[dict[str, Any]]:
    """The entries for a name: those that wait, or else its first pod. The first pod has its decision too, and what tells the
    other replicas from it."""
    entries = [each.document() for each in found.answers]
    if found.pods:
        first = found.pods[0]
        at = next((n for n, each in enumerate(found.answers) if each.pod is first), len(entries))
        if at == len(entries):
            entries.append(Answer(first["metadata"]["namespace"], first["metadata"]["name"], [], pod=first).document())
        entries[at] |= {"decision": decision_of(snapshot, policy, first), **alike(found.pods)}
    return entries


def _print_asked(snapshot: Snapshot, policy: Policy, found: Asked, *, wide: bool) -> None:
    first = found.pods[0] if found.pods else None
    if first and (of := alike(found.pods).get("replicas")):
        show(
            Text(of["text"], style="bold"),
            *[Text(f"  {group['text']}: {listed(group['pods'])}") for group in of["groups"][:8]],
        )
    for row in rows_of(found.answers, PodGpus(snapshot, policy)):
        show(*_lines(row.answers[0], row.name, wide=wide))
    if first:
        decision = decision_of(snapshot, policy, first)
        if not any(each.pod is first for each in found.answers) or len(found.pods) > 1:
            show(Text(f"{first['metadata']['namespace']}/{first['metadata']['name']}", style="bold"))
        show(*[Text(f"  {decision[key]}") for key in ("state", "undecided") if decision.get(key)])
        show_decision(decision)


def _print(rows: Iterable[Row], taken: float) -> None:
    cells = [
        (
            row.name,
            age(row.since, taken),
            row.gpus or "",
            words_of(row.cause.cause),
            fix_line("! " if row.cause.helps else "  ", row.cause.fixes[0]),
        )
        for row in rows
    ]
    table(["POD", "SINCE", "GPUS", "WHY", "FIX (! is enough alone)"], cells, last_below=True, drop=["SINCE", "GPUS"])
    say(f"!: for one pod of a row at least; all causes and fixes: {PROGRAM} why NAME, or -o wide", "dim")


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
    """Each cause with its fixes. `!` marks one that is enough alone. If not `wide`, causes of nodes that are not for the pod
    are one line."""
    others: dict[str, tuple[set[str], int]] = {}
    said: dict[str, str] = {}
    for cause in causes:
        if cause.elsewhere and not wide:
            names, helps = others.get(cause.cause, (set(), 0))
            new = {*cause.nodes}.difference(*[known for known, _ in others.values()])  # a node counts once
            others[cause.cause] = names | new, helps + cause.helps
            continue
        yield Text.assemble("  ", (cause.cause, "yellow"), f": {cause.text}")
        for fix in cause.fixes:
            yield fix_line("    ! " if fix.helps else "    → ", fix)
        if cause.then:
            above = next((word for word, text in said.items() if text == cause.then), "")
            yield Text(f"      the first is not enough: then {f'{above}, as above' if above else cause.then}")
        said[cause.cause] = cause.text
        if wide and cause.nodes:
            yield Text(f"    nodes: {', '.join(cause.nodes)}", style="dim")
    if others:
        total = len(set().union(*[names for names, _ in others.values()]))
        by = [
            f"{len(names)} by {word}{f' ({helps} of them would take it but for that)' if helps else ''}"
            for word, (names, helps) in others.items()
            if names
        ]
        nodes = f"{plural(total, 'other node')} {'is' if total == 1 else 'are'} not for this pod"
        why = ", ".join(by) if len(by) != 1 else by[0].partition(" ")[2]  # the number stands there already
        yield Text(f"  {nodes}: {why} (all of it: -o wide)", style="dim")


def fix_line(head: str, fix: Fix) -> Text:
    """The line of a fix. On a terminal that is too narrow its command has a line of its own, whole, so that it can be copied."""
    line = Text.assemble(head, (fix.words, "green"))
    if fix.command:
        line = Text.assemble(line, ": " if fix.words else "", (shlex.join(fix.command), COMMAND))
    return line

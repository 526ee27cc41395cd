"""`gpu-admission doctor`: checks the installation and the cluster, and names the next step for each problem."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.checks import CHECKS, run_checks
from webhook.cli.checks.dry_run import conformance as cases_of_conformance
from webhook.cli.checks.dry_run import dry_run
from webhook.cli.checks.replicas import is_called_by_url
from webhook.cli.checks.result import Result, opted_in
from webhook.cli.reading import policy_of, snapshot_of
from webhook.cli.terminal import PROGRAM, REFUSED, document, say, show, totals
from webhook.cli.why import fix_line
from webhook.errors import BadInput, PolicyError
from webhook.feeds.access import Access
from webhook.kube.pod import PROFILE_LABEL
from webhook.text import bare, listed, plural, quoted
from webhook.whatif.cluster.release import OUR_POLICY
from webhook.whatif.cluster.snapshot import CLAIMS, ENGINE, Snapshot
from webhook.whatif.offline import load_policy, policy_named
from webhook.whatif.waiting.causes import Fix

READ: Final = tuple(dict.fromkeys((*ENGINE, *CLAIMS, *(kind for check in CHECKS for kind in check.reads))))
"""Kinds that the checks read."""
_STYLES: Final = {"ok": "green", "warn": "yellow", "broken": "red", "unknown": "dim"}


_OF_NODES: Final = ("nodes", "taints", "sameNames", "twoStacks")
"""Checks of the nodes, which say nothing about the webhook."""
_Try = Annotated[
    str | None,
    typer.Option("--try", help="Also create a GPU pod in this namespace, as a dry run.", metavar="NAMESPACE"),
]
_Conformance = Annotated[
    str | None,
    typer.Option(
        help="Only create pods in this namespace, as dry runs, and report what became of each.", metavar="NAMESPACE"
    ),
]


def doctor(
    output: options.Output = "table",
    policy: options.Policy = None,
    file: options.From = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    attempt: _Try = None,
    conformance: _Conformance = None,
) -> None:
    """Check the installation, the policy and the cluster: each check is ok, warn or broken, with the next step.

    A check is `unknown` if a right or an answer is missing. Exit status 1 if something is broken. docs/documents.md lists the
    checks, docs/rights.md the rights. Does the API server call the webhook for a GPU pod? `gpu-admission doctor --try my-team`.
    """
    snapshot = snapshot_of(file, kubeconfig, context, READ, needed=())
    if (attempt or conformance) and snapshot.access is None:
        raise BadInput(
            f"saw --{'try' if attempt else 'conformance'} with --from, wanted an API server: a file creates no pod. "
            "Leave out one of them"
        )
    if conformance and snapshot.access is not None:
        page = conforming(snapshot, snapshot.access, conformance, policy)
    else:
        page = list(results(snapshot, policy))
    if attempt and snapshot.access is not None:
        page.append(dry_run(snapshot.access, snapshot.release, attempt))
    if not document([result._asdict() for result in page], output, "Check"):
        lines = _by_reason(page)
        for result, after in zip(lines, [*lines[1:], None], strict=True):
            state = f"{result.state:8}", _STYLES[result.state]
            show(Text.assemble(state, (result.check, "bold"), f": {result.text}"))
            if result.next and (after is None or after.next != result.next):  # adjacent results share one next step
                words = result.next.removesuffix(shlex.join(result.command)).removesuffix(": ")
                show(fix_line("        → ", Fix(words, result.command)))
        for line in [_sums(page)] if conformance else summary(snapshot, page):
            say(line, "dim")
    if any(result.state == "broken" for result in page):
        raise typer.Exit(REFUSED)


def _by_reason(page: Iterable[Result]) -> list[Result]:
    """The results; those that are unknown for the same reason as one, with the names of all."""
    found: dict[tuple[str, ...], Result] = {}
    for each in page:
        key = (each.text, each.next) if each.state == "unknown" else (each.check, str(len(found)), "")
        one = found.get(key)
        found[key] = each if one is None else one._replace(check=f"{one.check}, {each.check}")
    return [*found.values()]


def summary(snapshot: Snapshot, page: Iterable[Result]) -> list[str]:
    """Whether the webhook is healthy, and apart from that the nodes."""
    page = list(page)
    ours, of_nodes = ([each for each in page if (each.check in _OF_NODES) == wanted] for wanted in (False, True))
    states = {each.check: each.state for each in ours}
    answered = [each.text for each in ours if (each.check, each.state) == ("failOpen", "ok")]
    broken = sum(each.state == "broken" for each in ours)
    unknown = list(dict.fromkeys(each.check for each in ours if each.state == "unknown"))
    unmade = f"{len(unknown)} of {plural(len(states), 'check')} could not be made" if unknown else "nothing is broken"
    head = [f"{broken} broken" if broken else unmade, *answered]
    by_url = ", as it is called by URL" if states.get("endpoints") == "unknown" and is_called_by_url(snapshot) else ""
    known = _sums([each for each in ours if each.state in ("warn", "ok")])
    lines = [f"the webhook: {', and '.join(head)}; {known}"]
    lines += [f"not known{by_url}: {listed(unknown, len(unknown))}"] if unknown else []
    return [*lines, *([f"the nodes: {_sums(of_nodes)}"] if of_nodes else [])]


def _sums(page: Iterable[Result]) -> str:
    return totals(Counter([result.state for result in page]), ("broken", "warn", "unknown", "ok"))


def conforming(snapshot: Snapshot, access: Access, namespace: str, named: str | None) -> list[Result]:
    """A result for each case of conformance. Raises BadInput if the namespace has not opted in."""
    opted = opted_in(snapshot)
    if namespace not in opted and "Namespace" not in snapshot.missing:
        raise BadInput(
            f"--conformance: saw namespace {quoted(namespace)}, which has not opted in; wanted one that has: "
            f"kubectl label namespace {bare(namespace)} {PROFILE_LABEL}=default"
        )
    profile = opted.get(namespace, {}).get(PROFILE_LABEL, "")
    return cases_of_conformance(access, snapshot.release, namespace, policy_of(named, snapshot), profile)


def results(snapshot: Snapshot, named: str | None = None) -> Iterator[Result]:
    """The results of all checks, in the order in which they are printed. `named`: the policy to use instead of the cluster's."""
    try:
        policy = policy_named(named) if named else snapshot.policy or load_policy()
        if named or (snapshot.release.namespace, OUR_POLICY) in snapshot.named("ConfigMap"):
            yield Result("policy", "ok", f"good, hash {policy.hash}")
        elif "ConfigMap" in snapshot.missing:
            yield Result("policy", "unknown", f"{snapshot.missing['ConfigMap']}; checked is the shipped one")
        else:
            text = "there is no ConfigMap: the last good policy is in force, in replicas that start now the shipped one"
            yield Result("policy", "warn", text, snapshot.release.created("policy"))
    except PolicyError as error:
        if error.later:
            seen, _, step = error.problems[0].rpartition(": ")
            yield Result("policy", "unknown", f"{seen}: it cannot be checked", step)
        else:
            text = (
                f"{plural(len(error.problems), 'problem')}: {listed(error.problems, 2)}; the last good one is in force"
            )
            step = f"{shlex.join(snapshot.release.edit_policy)}, then {PROGRAM} policy lint"
            yield Result("policy", "broken", text, step)
        policy = load_policy()
    yield from run_checks(snapshot, policy)

"""`gpu-admission policy test`: checks a policy against cases, each a pod and the expected decision."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.reports import junit_xml
from webhook.cli.terminal import COULD_NOT, DIFF_COLOURS, REFUSED, diff, document, show, totals, write
from webhook.errors import BadInput, PolicyError
from webhook.feeds.file import objects_in
from webhook.framework.interface import Settings
from webhook.kube.yaml import to_yaml
from webhook.placement.placer import Placer
from webhook.policy.loader import read
from webhook.policy.model import Policy
from webhook.text import listed, plural, quoted
from webhook.whatif import offline
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.manifests import Planned, planned_in
from webhook.whatif.offline import load_policy, new_state, policy_named
from webhook.whatif.verdict import Outcome, Verdict, verdict


class Expected(Settings):
    """What the case checks. A field that is left out is not checked."""

    outcome: Outcome | None = None
    """refused | changed | unchanged | notAsked (the namespace has not opted in, or the pod has no GPU)"""
    changes: dict[str, Any] = {}
    """A part of the stored pod. Of a map only the keys given here are compared (null: the pod has no such key); of a list
    all entries are compared."""
    findings: tuple[str, ...] | None = None
    """The names of all rules that have a finding."""
    message: str | None = None
    """A part of the message of the refusal."""
    node: str | tuple[str, ...] | None = None
    """The chosen node, or several of which one must be chosen; "": no node is chosen."""


class Given(Settings):
    """What cases are decided by. File names are relative to the file of the cases."""

    policy: str | dict[str, Any] | None = None
    """The policy, or the name of its file. Left out, or `default`: the shipped policy."""
    cluster: str | list[dict[str, Any]] | None = None
    """A list of objects, or the name of a file that `gpu-admission snapshot` or `kubectl get … -o json` wrote. Without a
    cluster no node is chosen."""
    namespace: str | None = None
    """The namespace of pods that have none in their manifest."""


class Case(Given):
    """What is given here replaces what the file gives."""

    name: str
    pod: str | dict[str, Any]
    """A manifest, or the name of a file with one. If it is a workload, a pod of its first template is tried."""
    expect: Expected


class Cases(Given):
    """One file of cases."""

    cases: tuple[Case, ...]


class Result(NamedTuple):
    file: str
    case: str
    """The name of the case; "" where the file as a whole cannot be used."""
    problems: list[str]
    """The differences from what was expected; a problem may have several lines. Empty if the case passes."""
    error: str = ""
    """Why the case could not be tried; "" if it was."""

    @property
    def state(self) -> str:
        return "error" if self.error else "failed" if self.problems else "passed"

    def document(self) -> dict[str, Any]:
        """The entry that `-o json` prints, described in docs/documents.md."""
        return {**self._asdict(), "state": self.state}


def files_in(folder: Path) -> list[Path]:
    """All `*.test.yaml` in this folder and the folders below it; if `folder` is a file, that file. Raises BadInput if there
    are none."""
    if folder.is_file():
        return [folder]
    files = sorted(folder.rglob("*.test.yaml"))
    if not files:
        raise BadInput(f"{folder}: no file of cases there: wanted some *.test.yaml. docs/cli.md shows one")
    return files


def try_cases(file: Path, policy: Policy | None) -> Iterator[Result]:
    """Try every case of a file. `policy`, if given, replaces the policy that the file names."""
    try:
        cases = read(offline.read(str(file)), Cases)
    except PolicyError as error:
        yield Result(str(file), "", [], "\n".join(error.problems))
        return
    if not cases.cases:
        yield Result(str(file), "", [], "cases: saw none, wanted at least one")
    for case in cases.cases:
        try:
            yield Result(str(file), case.name, _problems(case, _verdict(case, cases, file.parent, policy)))
        except PolicyError as error:
            yield Result(str(file), case.name, [], "; ".join(error.problems))
        except BadInput as error:
            yield Result(str(file), case.name, [], str(error))


def _verdict(case: Case, cases: Cases, folder: Path, policy: Policy | None) -> Verdict:
    rules = policy or _policy(case.policy or cases.policy, folder)
    cluster = case.cluster if case.cluster is not None else cases.cluster
    snapshot = _cluster(cluster, folder) if cluster is not None else None
    state, now = (snapshot.state, snapshot.taken) if snapshot else (new_state(), 0.0)
    where = str(folder / case.pod) if isinstance(case.pod, str) else "pod"
    text = offline.read(where) if isinstance(case.pod, str) else orjson.dumps(case.pod)
    planned = next(planned_in(text, where, rules, case.namespace or cases.namespace), None)
    if not isinstance(planned, Planned):
        raise planned or BadInput(f"{where}: no pod, and no workload that makes some")
    return verdict(planned.document, rules, state.view(now), Placer(state))


def _policy(written: str | dict[str, Any] | None, folder: Path) -> Policy:
    if isinstance(written, dict):
        return load_policy(to_yaml(written))
    return policy_named(written if written in (None, "default") else str(folder / str(written)))


def _cluster(written: str | list[dict[str, Any]], folder: Path) -> Snapshot:
    if isinstance(written, str):
        return read_snapshot(folder / written)
    objects: dict[str, list[dict[str, Any]]] = {}
    for kind, obj in objects_in({"kind": "List", "items": written}, Path("cluster")):
        objects.setdefault(kind, []).append(obj)
    return Snapshot(objects)


def _problems(case: Case, seen: Verdict) -> list[str]:
    expect, problems = case.expect, []
    if expect.outcome is not None and seen.outcome != expect.outcome:
        why = f": {seen.message}" if seen.message else ""
        problems.append(f"outcome: saw {seen.outcome}, wanted {expect.outcome}{why}")
    if expect.findings is not None and seen.units != sorted(set(expect.findings)):
        extra = [
            f"{each.unit}: {each.finding.message}"
            for each in seen.validated.findings
            if each.unit not in expect.findings
        ]
        wanted = listed(sorted(set(expect.findings)), 20) or "none"
        problems.append("\n  ".join([f"findings: saw {listed(seen.units, 20) or 'none'}, wanted {wanted}", *extra]))
    if expect.message is not None and expect.message not in seen.message:
        problems.append(f"message: saw {quoted(seen.message)}, wanted {quoted(expect.message)} in it")
    if expect.node is not None:
        wanted_nodes = (expect.node,) if isinstance(expect.node, str) else expect.node
        if seen.node not in wanted_nodes:
            reason = f" ({seen.placement.reason})" if seen.placement and seen.placement.reason else ""
            wanted = listed([name or "none" for name in wanted_nodes], 20)
            problems.append(f"node: saw {seen.node or 'none'}{reason}, wanted {wanted}")
    overlaid = _overlaid(seen.pod, expect.changes)
    if overlaid != seen.pod:
        problems.append("\n".join(["pod: - wanted, + seen", *diff(overlaid, seen.pod, 2)]))
    return problems


def _overlaid(seen: Any, wanted: Any) -> Any:
    """`seen` with the wanted values put over its own. It equals `seen` if and only if all is as wanted."""
    if isinstance(seen, dict) and isinstance(wanted, dict):
        overlaid = dict(seen)
        for key, value in wanted.items():
            if value is None:
                overlaid.pop(key, None)
            else:
                overlaid[key] = _overlaid(seen.get(key), value)
        return overlaid
    if isinstance(seen, list) and isinstance(wanted, list) and len(seen) == len(wanted):
        return [_overlaid(one, other) for one, other in zip(seen, wanted, strict=True)]
    return wanted


def test(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="A folder with *.test.yaml, in it or below, or one file.")
    ],
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JUnit XML.")] = None,
    output: options.Output = "table",
    policy: Annotated[
        str | None,
        typer.Option(
            help="A policy file, or `default` for the shipped one. Default: what the cases name.",
            metavar="FILE|default",
        ),
    ] = None,
) -> None:
    """Run test cases of a policy. Each is a pod, a policy, a cluster, and the expected decision; differences are shown as a diff.

    Example: `gpu-admission policy test policy-tests/`, with a file `pods.test.yaml` there:
    `cases: [{name: one GPU, pod: pod.yaml, expect: {outcome: changed, findings: []}}]`. docs/cli.md has all keys.
    --policy tries another policy on the same cases. Exit status 1 if a case fails, 2 if one could not be run.
    """
    rules = policy_named(policy) if policy is not None else None
    results = [result for file in files_in(folder) for result in try_cases(file, rules)]
    if junit is not None:
        suites: dict[str, list[tuple[str, str, str]]] = {}
        for each in results:
            suites.setdefault(each.file, []).append((each.case or "the file", "\n".join(each.problems), each.error))
        write(junit, junit_xml(suites) + "\n")
    if not document([each.document() for each in results], output, "PolicyTest"):
        _print(results)
    if any(result.error for result in results):
        raise typer.Exit(COULD_NOT)
    if any(result.state != "passed" for result in results):
        raise typer.Exit(REFUSED)


def _print(results: Sequence[Result]) -> None:
    for result in results:
        style = "green" if result.state == "passed" else "red"
        show(Text.assemble((f"{result.state:6}", style), f"  {result.file}{f': {result.case}' if result.case else ''}"))
        for problem in [*result.problems, *([result.error] if result.error else [])]:
            for line in problem.splitlines():
                show(Text(f"        {line}", style=DIFF_COLOURS.get(line[:1], "")))
    counts = totals(Counter([each.state for each in results]), ("passed", "failed", "error"))
    show(Text(f"{plural(len(results), 'case')}: {counts}", style="bold"))

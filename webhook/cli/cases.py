"""Cases for `gpu-admission test`: a pod, and what must become of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from webhook.cli import terminal
from webhook.cli.cluster.files import read_snapshot
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.manifests import Planned, planned_in
from webhook.cli.offline import load_policy, load_state
from webhook.cli.printing import diff
from webhook.cli.terminal import policy_named
from webhook.cli.verdict import Outcome, Verdict, verdict
from webhook.errors import BadInput, PolicyError
from webhook.feeds.file import objects_in
from webhook.framework.interface import Settings
from webhook.kube.yaml import to_yaml
from webhook.placement.placer import Placer
from webhook.policy.loader import read
from webhook.policy.model import Policy
from webhook.text import listed, quoted


class Expected(Settings):
    """What must become of the pod. What is not written here may be anything."""

    outcome: Outcome | None = None
    """refused | changed | unchanged | notAsked (the namespace has not opted in, or the pod has no GPU)"""
    changes: dict[str, Any] = {}
    """A part of the pod as it must be stored. Of a map the keys that stand here count (null: there is
    none), of a list every entry."""
    findings: tuple[str, ...] | None = None
    """The rules that find something, and no other."""
    message: str | None = None
    """A part of the refusal."""
    node: str | tuple[str, ...] | None = None
    """The chosen node, or one of these; "": none is chosen."""


class Case(Settings):
    name: str
    pod: str | dict[str, Any]
    """A manifest, or the file that holds it. Of a workload, a pod of its first template."""
    expect: Expected
    policy: str | dict[str, Any] | None = None
    cluster: str | list[dict[str, Any]] | None = None
    namespace: str | None = None
    """In place of those of the file."""


class Cases(Settings):
    """One file. Names of files are relative to it."""

    policy: str | dict[str, Any] | None = None
    """The policy, or its file; left out, or `default`: the shipped one."""
    cluster: str | list[dict[str, Any]] | None = None
    """Objects, or the file that `gpu-admission snapshot` or `kubectl get … -o json` wrote. Without it no node is chosen."""
    namespace: str | None = None
    """Of pods that name none."""
    cases: tuple[Case, ...]


class Judged(NamedTuple):
    """`problems`: what is not as expected, each with its lines; none where the case passes. `error`: it could not be tried."""

    file: str
    case: str
    problems: list[str]
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.problems and not self.error


def files_in(folder: Path) -> list[Path]:
    """The files of cases: `*.test.yaml`, in this folder and below; or the one file. Raises BadInput."""
    if folder.is_file():
        return [folder]
    files = sorted(folder.rglob("*.test.yaml"))
    if not files:
        raise BadInput(f"{folder}: no file of cases there: wanted some *.test.yaml. docs/cli.md shows one")
    return files


def judged(file: Path, policy: Policy | None) -> Iterator[Judged]:
    """Every case of a file. `policy`: in place of the one that is written there."""
    try:
        text = terminal.read(str(file))
        if text.lstrip()[:2] in (b"- ", b"[", b""):
            raise PolicyError([f"line 1: saw {'a list' if text.strip() else 'nothing'}; wanted a map with cases"])
        cases = read(text, Cases)
    except PolicyError as error:
        yield from [Judged(str(file), "", [], problem) for problem in error.problems]
        return
    if not cases.cases:
        yield Judged(str(file), "", [], "cases: saw none, wanted at least one")
    for case in cases.cases:
        try:
            yield Judged(str(file), case.name, _problems(case, _verdict(case, cases, file.parent, policy)))
        except PolicyError as error:
            yield Judged(str(file), case.name, [], "; ".join(error.problems))
        except BadInput as error:
            yield Judged(str(file), case.name, [], str(error))


def _verdict(case: Case, cases: Cases, folder: Path, policy: Policy | None) -> Verdict:
    rules = policy or _policy(case.policy or cases.policy, folder)
    cluster = case.cluster if case.cluster is not None else cases.cluster
    snapshot = _cluster(cluster, folder) if cluster is not None else None
    state, now = (snapshot.state, snapshot.taken) if snapshot else (load_state(None), 0.0)
    text = terminal.read(str(folder / case.pod)) if isinstance(case.pod, str) else orjson.dumps(case.pod)
    where = str(folder / case.pod) if isinstance(case.pod, str) else "pod"
    planned = next(planned_in(text, where, rules, case.namespace or cases.namespace), None)
    if not isinstance(planned, Planned):
        raise planned or BadInput(f"{where}: no pod, and no workload that makes some")
    request = planned.document.request
    return verdict(request, where, rules, state, Placer(state), now)


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
        extra = [f"{each.unit}: {each.finding.message}" for each in seen.findings if each.unit not in expect.findings]
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
    """`seen` with what is wanted in its place; equal where it is as wanted."""
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

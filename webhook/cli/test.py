"""`gpu-admission test`: cases in YAML, each a pod and what is to become of it under a policy, in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from xml.etree import ElementTree

import orjson
import typer
from pydantic import ValidationError
from rich.text import Text

from webhook.cli import offline, options
from webhook.cli.cluster.files import read_snapshot
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.options import Format
from webhook.cli.printing import diff, document, show
from webhook.cli.terminal import REFUSED, policy_named, read, say
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.framework.interface import Settings
from webhook.kube.yaml import parse_documents, to_yaml
from webhook.policy.model import Policy
from webhook.text import plural

_SUFFIXES: Final = (".yaml", ".yml")


class Expected(Settings):
    """What is to become of it. What is not written is not looked at."""

    result: Literal["allowed", "refused"] | None = None
    findings: tuple[str, ...] | None = None
    """The rules that find something, no more and no fewer."""
    message: str | None = None
    """A part of what the user is told."""
    pod: dict[str, Any] | None = None
    """A part of the pod afterwards: maps may have more keys, lists must begin alike."""
    unchanged: bool = False
    node: str | None = None
    """The node that is chosen; "" where none is to be."""


class Case(Settings):
    """One case. Files are named relative to its own."""

    name: str
    object: dict[str, Any] | str
    """A pod or a workload, or a file with one."""
    namespace: str = "default"
    policy: dict[str, Any] | str = "default"
    """A policy, or a file with one, or `default`."""
    cluster: list[dict[str, Any]] | str | None = None
    """Objects, or a file with them."""
    expect: Expected


class Outcome(NamedTuple):
    """`wrong`: lines that say what is not as expected; none where all is."""

    file: str
    name: str
    wrong: list[str]


def test(
    folder: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="Cases: every *.yaml in the folder.")],
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a JUnit report, for CI.")] = None,
    output: options.Output = Format.table,
) -> None:
    """Run cases: a pod, a policy and a cluster, and what is expected of them. Exit status 1 if one is not as expected.

    A case has `name`, `object` (a pod or a workload, or a file), `namespace`, `policy`, `cluster` and `expect`: `result`
    (allowed, refused), `findings`, `message`, `pod` (a part of it afterwards), `unchanged`, `node`. docs/cli.md has one.
    """
    found = list(outcomes(folder))
    if not found:
        raise BadInput(f"{folder}: no case in it: wanted *.yaml files")
    if not document([each._asdict() for each in found], output):
        for each in found:
            show(Text.assemble(("FAIL" if each.wrong else "ok  ", "red" if each.wrong else "green"), f"  {each.name}"))
            for line in each.wrong:
                show(Text(f"      {line}", style={"+": "green", "-": "red"}.get(line[:1], "")))
    if junit is not None:
        _write_junit(found, junit)
    failed = sum(bool(each.wrong) for each in found)
    say(f"{plural(len(found), 'case')}, {failed} failed")
    if failed:
        raise typer.Exit(REFUSED)


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Of every case, in the order of file names. Raises BadInput where there is no such folder."""
    if not folder.exists():
        raise BadInput(f"{folder}: cannot be read: there is no such file or folder")
    files = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES) if folder.is_dir() else [folder]
    for path in files:
        try:
            cases = list(parse_documents(read(str(path))))
        except ValueError as error:
            yield Outcome(str(path), path.name, [f"neither YAML nor JSON: {error}"])
            continue
        for written in cases:
            name = written.get("name") if isinstance(written, dict) else None
            try:
                case = Case.model_validate(written)
                yield Outcome(str(path), case.name, list(_wrong(case, path.parent)))
            except ValidationError as error:
                told = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
                yield Outcome(str(path), str(name or path.name), told)
            except PolicyError as error:
                yield Outcome(str(path), str(name), error.problems)
            except GpuAdmissionError as error:
                yield Outcome(str(path), str(name), [str(error)])


def _wrong(case: Case, folder: Path) -> Iterator[str]:
    text = read(str(folder / case.object)) if isinstance(case.object, str) else orjson.dumps(case.object)
    found = [each for each in offline.documents(text, case.name) if not isinstance(each, BadInput)]
    if len(found) != 1:
        raise BadInput(f"object: wanted one pod or workload, saw {len(found)}")
    (made,) = found
    if not (made.request.object or {}).get("metadata", {}).get("namespace"):
        made = made._replace(request=made.request._replace(namespace=case.namespace))
    policy, snapshot = _policy(case, folder), _cluster(case, folder)
    state = snapshot.state if snapshot is not None else offline.load_state(None)
    judged = offline.run(made, offline.decide_validate, policy, state)
    changed = offline.run(made, offline.decide_mutate, policy, state)
    yield from _compared(case.expect, made.request.object or {}, judged, changed)


def _compared(
    expect: Expected, before: dict[str, Any], judged: offline.Result, changed: offline.Result
) -> Iterator[str]:
    decision, after = judged.decision, changed.pod
    found = [decision.message] if decision.message else [finding.message for _, _, finding in decision.findings]
    told = "; ".join([*found, *decision.warnings])
    result = (
        "refused" if decision.message or any(action == "foretold" for _, action, _ in decision.findings) else "allowed"
    )
    if expect.result not in (None, result):
        yield f"result: expected {expect.result}, it is {result}{f': {told}' if told else ''}"
    units = sorted({unit for unit, _, _ in decision.findings})
    if expect.findings is not None and sorted(expect.findings) != units:
        wanted, seen = (", ".join(names) or "none" for names in (sorted(expect.findings), units))
        yield f"findings: expected {wanted}; found {seen}{f': {told}' if told else ''}"
    if expect.message is not None and expect.message not in told:
        yield f"message: expected {expect.message!r} in {told!r}"
    if expect.unchanged and before != after:
        yield from diff(before, after)
    if expect.pod is not None and (part := _part(expect.pod, after)) != expect.pod:
        yield "pod: - expected, + found"
        yield from diff(expect.pod, part)
    placement = changed.decision.placement
    node = placement.nodes[0].node if placement is not None and placement.nodes else ""
    if expect.node not in (None, node):
        why = f" ({placement.reason})" if placement is not None and placement.reason else ""
        yield f"node: expected {expect.node or 'none'}, it is {node or 'none'}{why}"


def _part(wanted: Any, seen: Any) -> Any:
    """Of what there is, what is spoken of: equal to `wanted` where that is in it."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        return {key: _part(value, seen[key]) for key, value in wanted.items() if key in seen}
    if isinstance(wanted, list) and isinstance(seen, list):
        return [_part(value, seen[at]) for at, value in enumerate(wanted) if at < len(seen)]
    return seen


def _policy(case: Case, folder: Path) -> Policy:
    if isinstance(case.policy, dict):
        return offline.load_policy(to_yaml(case.policy))
    return policy_named(case.policy if case.policy == "default" else str(folder / case.policy))


def _cluster(case: Case, folder: Path) -> Snapshot | None:
    if case.cluster is None:
        return None
    if isinstance(case.cluster, str):
        return read_snapshot(folder / case.cluster)
    found = Snapshot({})
    for obj in case.cluster:
        found.objects.setdefault(str(obj.get("kind")), []).append({"spec": {}, "status": {}, **obj})
    return found


def _write_junit(found: list[Outcome], path: Path) -> None:
    failed = sum(bool(each.wrong) for each in found)
    suite = ElementTree.Element("testsuite", name="gpu-admission", tests=str(len(found)), failures=str(failed))
    for each in found:
        case = ElementTree.SubElement(suite, "testcase", classname=each.file, name=each.name)
        if each.wrong:
            ElementTree.SubElement(case, "failure", message=each.wrong[0]).text = "\n".join(each.wrong)
    try:
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise BadInput(f"{path}: cannot be written: {error.strerror}") from None

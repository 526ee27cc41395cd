"""`gpu-admission test`: checks a policy against cases, each a pod and the expected decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cases import Result, files_in, try_cases
from webhook.cli.options import Format
from webhook.cli.printing import DIFF_COLOURS, document, show, totals
from webhook.cli.terminal import COULD_NOT, REFUSED, policy_named, write
from webhook.text import plural


def test(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="A folder with *.test.yaml, in it or below, or one file.")
    ],
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results as JUnit XML.")] = None,
    output: options.Output = Format.table,
    policy: options.Policy = None,
) -> None:
    """Try cases: each is a pod, a policy, a cluster, and the expected decision. Differences are shown as a diff.

    Example of a case: `{name: one GPU, pod: pod.yaml, expect: {outcome: changed, findings: []}}`; docs/cli.md has all keys.
    --policy tries another policy on the same cases. Exit status 1 if a case fails, 2 if one could not be tried.
    """
    rules = policy_named(policy) if policy is not None else None
    results = [result for file in files_in(folder) for result in try_cases(file, rules)]
    if junit is not None:
        write(junit, _xml(results))
    if not document([_document(result) for result in results], output):
        _print(results)
    if any(result.error for result in results):
        raise typer.Exit(COULD_NOT)
    if not all(result.passed for result in results):
        raise typer.Exit(REFUSED)


def _document(each: Result) -> dict[str, object]:
    return {"file": each.file, "case": each.case, "state": _state(each), "problems": each.problems, "error": each.error}


def _state(result: Result) -> str:
    return "error" if result.error else "passed" if result.passed else "failed"


def _print(results: Sequence[Result]) -> None:
    for result in results:
        style = "green" if result.passed else "red"
        show(
            Text.assemble((f"{_state(result):6}", style), f"  {result.file}{f': {result.case}' if result.case else ''}")
        )
        for problem in [*result.problems, *([result.error] if result.error else [])]:
            for line in problem.splitlines():
                show(Text(f"        {line}", style=DIFF_COLOURS.get(line[:1], "")))
    counts = totals(Counter(map(_state, results)), ("passed", "failed", "error"))
    show(Text(f"{plural(len(results), 'case')}: {counts}", style="bold"))


def _xml(results: Sequence[Result]) -> str:
    """The results as a JUnit report, which CI systems read."""
    root = Element("testsuites")
    for file in dict.fromkeys(result.file for result in results):
        cases = [result for result in results if result.file == file]
        states = [_state(result) for result in cases]
        counts = {"tests": len(cases), "failures": states.count("failed"), "errors": states.count("error")}
        suite = SubElement(root, "testsuite", {"name": file, **{key: str(value) for key, value in counts.items()}})
        for result in cases:
            case = SubElement(suite, "testcase", {"classname": file, "name": result.case or "the file"})
            for tag, text in (("failure", "\n".join(result.problems)), ("error", result.error)):
                if text:
                    plain = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
                    SubElement(case, tag, {"message": plain.partition("\n")[0]}).text = plain
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'

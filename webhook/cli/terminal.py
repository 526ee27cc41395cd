"""What the commands share: they read files, decide for the pods in them, and print what came of it.

Answers go to stdout, everything that is said about them to stderr, so that a pipe sees only documents.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path

import orjson
import typer
from rich.console import Console

from webhook.admission.decision import IGNORED
from webhook.cli import offline
from webhook.errors import BadInput, GpuAdmissionError, PolicyError
from webhook.kube.yaml import to_yaml
from webhook.policy.model import Policy
from webhook.text import listed, quoted

REFUSED, COULD_NOT = 1, 2
"""Exit statuses; 0 is fine."""

console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


class Output(StrEnum):
    """What is printed of a decision: the pod afterwards, the JSON Patch, or the AdmissionReview."""

    yaml = "yaml"
    json = "json"
    patch = "patch"
    review = "review"


def decide_file(
    file: str, cluster: Path | None, policy: str | None, output: Output | None, decide: offline.DecideDocument
) -> None:
    """Decide for every document of a file, print each, and exit with the worst status that was met.

    What cannot be decided does not stop the rest, and what no pods are made from is printed as it was. Nothing is printed of
    a refused pod but the review of it.
    """
    status, ours, foreign = 0, False, set[str]()
    try:
        loaded = policy_named(policy)
        state = offline.load_state(cluster)
        found = list(offline.documents(_read(file), file))
    except PolicyError as error:
        for problem in error.problems:
            console.print(f"{policy}: {problem}", markup=False)
        raise typer.Exit(COULD_NOT) from None
    except GpuAdmissionError as error:
        raise could_not(error) from None
    printed = 0
    for document in found:
        try:
            if isinstance(document, BadInput):
                raise document
            result = offline.run(document, decide, loaded, state)
        except GpuAdmissionError as error:
            console.print(f"error: {error}", markup=False)
            status = COULD_NOT
            continue
        _report(result)
        decision = result.decision
        if document.foreign and decision is IGNORED:
            foreign.add(document.request.kind)
        else:
            ours = True
        if decision.result == "denied" or any(action == "foretold" for _, action, _ in decision.findings):
            status = status or REFUSED
        if decision.result == "denied" and output is not Output.review:
            continue
        if output is not None:
            _print(result, output, printed)
            printed += 1
    if foreign and (ours or status):
        said = "left as they are, being neither pods nor workloads that the policy knows"
        console.print(f"{file}: {said}: {_kinds(foreign)}", markup=False)
    elif foreign:
        status = COULD_NOT
        console.print(f"error: {file}: no pod, workload or AdmissionReview in it: saw {_kinds(foreign)}", markup=False)
    raise typer.Exit(status)


def policy_named(name: str | None) -> Policy:
    """A policy file, `-` for stdin; the shipped one for `default` or None. Raises PolicyError, BadInput."""
    return offline.load_policy(None if name in (None, "default") else _read(str(name)))


def could_not(error: Exception) -> typer.Exit:
    """Says why, and gives the exit to raise."""
    console.print(f"error: {error}", markup=False, style="red")
    return typer.Exit(COULD_NOT)


def _kinds(kinds: set[str]) -> str:
    return listed([quoted(kind) for kind in sorted(kinds)], 10)


def _report(result: offline.Result) -> None:
    decision, where = result.decision, result.document.where
    if decision.message:
        verb = "refused" if decision.result == "denied" else "would be refused (shadow)"
        console.print(f"{where}: {verb}: {decision.message}", markup=False, style="red")
    for unit, action, finding in decision.findings:
        if action == "foretold":
            console.print(f"{where}: its pods will be refused: {finding.message} [{unit}]", markup=False, style="red")
    warned = [f"{finding.message} [{unit}]" for unit, action, finding in decision.findings if action == "warn"]
    for warning in (*decision.warnings, *warned):
        console.print(f"{where}: warning: {warning}", markup=False, style="yellow")


def _print(result: offline.Result, output: Output, printed: int) -> None:
    if output is Output.review:
        print(result.answer.decode())
    elif output is Output.patch:
        print((result.decision.patch or b"[]").decode())
    elif output is Output.json:
        print(orjson.dumps(result.pod).decode())
    else:
        print(("---\n" if printed else "") + to_yaml(result.pod), end="")


def _read(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}. Give a file, or - for stdin") from None

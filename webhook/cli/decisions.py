"""Decides for the pods in a file, and prints what came of it: what `mutate` and `validate` share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import orjson
import typer

from webhook.admission.decision import IGNORED
from webhook.admission.words import finding_line
from webhook.cli import offline
from webhook.cli.terminal import COULD_NOT, REFUSED, out, policy_named, read, say
from webhook.errors import BadInput, GpuAdmissionError
from webhook.kube.yaml import to_yaml
from webhook.text import listed, quoted


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
    loaded = policy_named(policy)
    state = offline.load_state(cluster)
    documents = list(offline.documents(read(file), file))
    printed = 0
    for document in documents:
        try:
            if isinstance(document, BadInput):
                raise document
            result = offline.run(document, decide, loaded, state)
        except GpuAdmissionError as error:
            say(f"error: {error}")
            status = COULD_NOT
            continue
        report(result)
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
        say(f"{file}: {said}: {_kinds(foreign)}")
    elif foreign:
        status = COULD_NOT
        say(f"error: {file}: no pod, workload or AdmissionReview in it: saw {_kinds(foreign)}")
    raise typer.Exit(status)


def report(result: offline.Result) -> None:
    """Refusal, findings and warnings, one line each, with the place of the document."""
    decision, where = result.decision, result.document.where
    if decision.message:
        verb = "refused" if decision.result == "denied" else "would be refused (shadow)"
        say(f"{where}: {verb}: {decision.message}", "red")
    for unit, action, finding in decision.findings:
        if action == "foretold":
            say(f"{where}: its pods will be refused: {finding_line(unit, finding)}", "red")
    warned = [finding_line(unit, finding) for unit, action, finding in decision.findings if action == "warn"]
    for warning in (*decision.warnings, *warned):
        say(f"{where}: warning: {warning}", "yellow")


def _kinds(kinds: set[str]) -> str:
    return listed([quoted(kind) for kind in sorted(kinds)], 10)


def _print(result: offline.Result, output: Output, printed: int) -> None:
    if output is Output.review:
        out(result.answer.decode())
    elif output is Output.patch:
        out((result.decision.patch or b"[]").decode())
    elif output is Output.json:
        out(orjson.dumps(result.pod).decode())
    else:
        out(("---\n" if printed else "") + to_yaml(result.pod), end="")

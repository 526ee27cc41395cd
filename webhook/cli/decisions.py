"""`gpu-admission mutate` and `validate`: decide on every pod in a file, and print pods or findings."""

from pathlib import Path
from typing import Annotated, Literal

import orjson
import typer

from webhook.admission.words import finding_line
from webhook.cli import offline, options
from webhook.cli.cluster.load import read_snapshot
from webhook.cli.manifests import Planned, pods_made_by
from webhook.cli.offline import policy_named
from webhook.cli.reading import policy_of
from webhook.cli.terminal import COULD_NOT, REFUSED, out, read, say
from webhook.errors import BadInput, GpuAdmissionError
from webhook.kube.yaml import to_yaml
from webhook.policy.model import Policy
from webhook.state.state import ClusterState
from webhook.text import listed, quoted

Output = Literal["yaml", "json", "patch", "review"]
"""What is printed for each decision: the patched pod, the JSON Patch, or the AdmissionReview."""


def decide_file(
    file: str, cluster: Path | None, policy: str | None, output: Output | None, decide: offline.DecideDocument
) -> None:
    """Decide on every document of a file, print each result, and exit with the worst status.

    A document that cannot be decided on does not stop the rest. An object that makes no pods is printed unchanged. Of a
    refused pod only the AdmissionReview is printed.
    """
    status, foreign = 0, set[str]()
    snapshot = read_snapshot(cluster) if cluster else None
    loaded = policy_of(policy, snapshot) if snapshot else policy_named(policy)
    state, now = (snapshot.state, snapshot.taken) if snapshot else (offline.load_state(None), 0.0)
    printed = 0
    for document in list(offline.documents(read(file), file)):  # all are parsed before the first one is printed
        try:
            if isinstance(document, BadInput):
                raise document
            result = offline.run(document, decide, loaded, state, now)
            made = [*pods_made_by(document, loaded)] if document.plain and document.request.resource != "pods" else []
        except GpuAdmissionError as error:
            say(f"error: {error}")
            status = COULD_NOT
            continue
        _report(result)
        decision = result.decision
        if document.foreign and not made:
            foreign.add(document.request.kind)
        if decision.result == "denied" or any(action == "foretold" for _, action, _ in decision.findings):
            status = status or REFUSED
        for each in made if decide is offline.decide_mutate and decision.result != "denied" else ():
            _tell_of_pods(each, loaded, state, now)
        if output is not None and (decision.result != "denied" or output == "review"):
            _print(result, output, printed)
            printed += 1
    if foreign:
        kinds = listed([quoted(kind) for kind in sorted(foreign)], 10)
        say(f"{file}: left as they are, being neither pods nor workloads that the policy knows: {kinds}")
    raise typer.Exit(status)


def _tell_of_pods(made: Planned, policy: Policy, state: ClusterState, now: float) -> None:
    """Print to stderr what the pods of a workload will get: the workload itself is hardly changed."""
    decision = offline.run(made.document, offline.decide_mutate, policy, state, now).decision
    paths = [operation["path"].split("/") for operation in orjson.loads(decision.patch or b"[]")]
    fields = dict.fromkeys([path[2] for path in paths if path[1] == "spec"])
    of = f" of {made.template}" if made.template else ""
    say(
        f"{made.document.where}: its pods{of} get {listed(fields, 10) or 'nothing'} when they are created, not the {made.of}"
    )


def _report(result: offline.Result) -> None:
    """Print refusal, findings and warnings to stderr, one line each, with the place of the document."""
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


def _print(result: offline.Result, output: Output, printed: int) -> None:
    if output == "review":
        out(result.answer.decode())
    elif output == "patch":
        out((result.decision.patch or b"[]").decode())
    elif output == "json":
        out(orjson.dumps(result.pod).decode())
    else:
        out(("---\n" if printed else "") + to_yaml(result.pod), end="")


def mutate(
    file: options.File,
    cluster: options.Cluster = None,
    policy: options.Policy = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="What to print.")] = "yaml",
) -> None:
    """Print pods as the webhook would change them.

    Examples: `gpu-admission mutate pod.yaml`, `kubectl create deployment … | gpu-admission mutate - -o patch`.
    Messages go to stderr. A node is chosen only with --cluster; everything else works without it.
    """
    decide_file(file, cluster, policy, output, offline.decide_mutate)


def validate(
    file: options.File,
    cluster: options.Cluster = None,
    policy: options.Policy = None,
    output: Annotated[Output | None, typer.Option("-o", "--output", help="What to print. Default: nothing.")] = None,
) -> None:
    """Check pods against the rules. Findings go to stderr, one line each; exit status 1 if a pod is refused.

    Example: `helm template chart | gpu-admission validate -`. Rules that read nodes need --cluster.
    """
    decide_file(file, cluster, policy, output, offline.decide_validate)

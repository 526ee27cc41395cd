"""`gpu-admission pending`: why pods wait for a node, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.text import Text

from webhook.cli import options
from webhook.cli.cluster.snapshot import ENGINE, FINISHED, Snapshot
from webhook.cli.options import Format
from webhook.cli.reading import namespace_of, policy_of, selector, snapshot_of
from webhook.cli.terminal import document, say, show
from webhook.cli.waiting.diagnosis import Diagnosis, bound
from webhook.cli.waiting.situation import Cause, Situation
from webhook.cli.waiting.workloads import not_created
from webhook.errors import BadInput
from webhook.kube.pod import Pod, labels_of
from webhook.policy.model import Policy
from webhook.text import quoted

KINDS: Final = (
    *ENGINE,
    *("Event", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "ReplicaSet", "StatefulSet"),
    *("DaemonSet", "Job", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "PodGroup", "Lease"),
)
_MAX_MESSAGE: Final = 1024
"""Maximum characters shown of the scheduler's message. The scheduler cuts its Events to the same length."""


def pending(
    pod: Annotated[str | None, typer.Argument(help="A pod. Default: all pods that wait.")] = None,
    namespace: options.Namespace = None,
    everywhere: options.AllNamespaces = False,
    labels: options.Selector = None,
    output: options.Output = Format.table,
    policy: options.Policy = None,
    cluster: options.Snapshot = None,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
) -> None:
    """Say why pods wait: each cause with numbers, and what a person can do about it, in the order in which to try.

    Workloads whose pods could not be created (by a quota or a refusal) are listed too. `!` marks a fix that is enough alone.
    The names of causes do not change; docs/cli.md lists them. Example: `gpu-admission pending -n team-a trainer-0`.
    """
    matches = selector(labels)
    snapshot = snapshot_of(cluster, kubeconfig, context, KINDS, namespace)
    wanted = namespace_of(namespace, everywhere, snapshot)
    found = answers(snapshot, policy_of(policy, snapshot), wanted, pod)
    waiting = [each for each in found if matches(labels_of(each.pod) if each.pod else {})]
    if document([each.document() for each in waiting], output):
        return
    for each in waiting:
        show(Text("\n").join(_lines(each, wide=output is Format.wide)))
    if not waiting:
        say(f"no pod waits{f' in {wanted}' if wanted else ''}")


class Answer(NamedTuple):
    """Why one pod waits, or why the pods of one workload could not be created."""

    namespace: str
    name: str
    """The pod's name. Of a workload whose pods could not be created: kind and name, `replicaset/chat-5d8`."""
    causes: list[Cause]
    says: str
    """The scheduler's message; "" if there is none."""
    pod: Pod | None
    """None for a workload."""

    def document(self) -> dict[str, Any]:
        """The entry that `-o json` prints, described in docs/cli.md."""
        causes = [cause.document() for cause in self.causes]
        return {"namespace": self.namespace, "name": self.name, "causes": causes, "schedulerSays": self.says}


def answers(snapshot: Snapshot, policy: Policy, namespace: str | None, name: str | None = None) -> list[Answer]:
    """An answer for each pod and workload that waits, or only for the one called `name`. Raises BadInput if that one does
    not exist or does not wait."""
    situation = Situation(snapshot, policy)
    diagnosis = Diagnosis(situation)
    missing = [Answer(each.namespace, each.name, each.causes, "", None) for each in not_created(situation, namespace)]
    if name is not None:
        return [each for each in missing if each.name == name] or [_named(diagnosis, snapshot.pod(namespace, name))]
    pods = [pod for pod in situation.waiting if namespace in (None, pod["metadata"]["namespace"])]
    return missing + [_answer(pod, *diagnosis.of(pod)) for pod in pods]


def _named(diagnosis: Diagnosis, pod: Pod) -> Answer:
    """The answer for a pod that was asked for by name. Raises BadInput if it runs or has ended."""
    phase = pod["status"].get("phase")
    if phase in FINISHED or phase == "Running":
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        raise BadInput(f"pod {quoted(name)} in namespace {namespace} does not wait: it is {phase}")
    if pod["spec"].get("nodeName"):
        return _answer(pod, [bound(pod)], "")
    return _answer(pod, *diagnosis.of(pod))


def _answer(pod: Pod, causes: list[Cause], says: str) -> Answer:
    return Answer(pod["metadata"]["namespace"], pod["metadata"]["name"], causes, says, pod)


def _lines(answer: Answer, *, wide: bool) -> Iterator[Text]:
    yield Text(f"{answer.namespace}/{answer.name}", style="bold")
    yield from cause_lines(answer.causes, wide=wide)
    if answer.says:
        more = "… (-o json: all of it)" if len(answer.says) > _MAX_MESSAGE else ""
        yield Text(f"  scheduler: {answer.says[:_MAX_MESSAGE]}{more}", style="dim")


def cause_lines(causes: Iterable[Cause], *, wide: bool) -> Iterator[Text]:
    """Each cause with its fix. `!` marks a fix that is enough alone."""
    for cause in causes:
        yield Text.assemble("! " if cause.helps else "  ", (cause.cause, "yellow"), f": {cause.text}")
        yield Text.assemble("    → ", (cause.fix, "green"))
        if wide and cause.nodes:
            yield Text(f"    nodes: {', '.join(cause.nodes)}", style="dim")

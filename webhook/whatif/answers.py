"""Why pods wait, pod by pod: of a whole cluster, or of what is called by a name; and the rows that stand for pods alike."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from webhook.kube.kinds import GROUPS
from webhook.kube.owners import BETWEEN
from webhook.kube.pod import FINISHED, Pod
from webhook.kube.suspended import FIELDS
from webhook.policy.model import Policy
from webhook.state.gpu_amounts import gpu_number
from webhook.text import plural
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.report import workload_name
from webhook.whatif.cluster.snapshot import CLAIMS, ENGINE, Object, Snapshot, created
from webhook.whatif.names import Names
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.diagnosis import UNLOOKED, UNTRIED, Diagnosis, Findings
from webhook.whatif.waiting.situation import Situation
from webhook.whatif.waiting.started import bound, started_late
from webhook.whatif.waiting.workloads import (
    Lacking,
    idle,
    made_by,
    not_created,
    refused_elsewhere,
    suspension,
)

KINDS: Final = (
    *ENGINE,
    *("Event", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode"),
    *("CSIDriver", "CSIStorageCapacity", "DaemonSet", "ServiceAccount"),
    *(
        *CLAIMS,
        *GROUPS,
        "Lease",
        "KueueWorkload",
        *[kind for kind in dict.fromkeys((*BETWEEN, *FIELDS)) if kind not in ENGINE],
    ),
)
"""What is read for an answer."""
_MAX_WORK: Final = 1_000_000
"""So much work (see `Diagnosis`) an answer about all pods is: ten seconds or twenty, whatever the cluster."""


class Answer(NamedTuple):
    """Why one pod waits, or why the pods of one workload could not be created."""

    namespace: str
    name: str
    """The pod's name. Of a workload whose pods could not be created: kind and name, `replicaset/chat-5d8`."""
    causes: list[Cause]
    notes: list[str] = []
    """What else is known: see `waiting.notes`."""
    says: str = ""
    """The scheduler's message; "" if there is none."""
    pod: Pod | None = None
    """None for a workload."""

    @property
    def workload(self) -> str:
        return workload_name(self.pod) if self.pod else self.name

    def document(self) -> dict[str, Any]:
        """The entry that `why -o json` prints, described in docs/documents.md."""
        causes = [cause.document() for cause in self.causes]
        head = {"namespace": self.namespace, "name": self.name, "workload": self.workload, "causes": causes}
        return {**head, "notes": self.notes, "schedulerSays": self.says}


class Asked(NamedTuple):
    """What a name means."""

    pods: list[Pod]
    """All its pods: those that wait first, those that have ended last."""
    answers: list[Answer]
    """Of those that wait, and of workloads that lack pods."""


def no_progress(done: int, of: int) -> None:
    """Nobody watches."""


def answers(
    snapshot: Snapshot, policy: Policy, namespace: str | None, progress: Callable[[int, int], object] = no_progress
) -> list[Answer]:
    """An answer for each pod and workload that waits. `progress` is called with how many pods have theirs, and how many wait."""
    situation = Situation(snapshot, policy)
    diagnosis = Diagnosis(situation, _MAX_WORK)
    lacking = _topmost(situation, _lacking(diagnosis, namespace))
    found = (*situation.astray, *started_late(situation), *situation.waiting)
    pods = [each for each in found if namespace in (None, each["metadata"]["namespace"])]
    for done, pod in enumerate(pods):
        progress(done, len(pods))
        lacking.append(_answer(diagnosis, pod))
    return lacking


def left_out(found: Iterable[Answer]) -> str:
    """Of how many pods the answers say less than they could; "" if of none."""
    notes = Counter(note for each in found for note in each.notes)
    said = [
        f"of {plural(notes[note], 'pod')} {what}"
        for note, what in ((UNTRIED, "the fixes were not tried"), (UNLOOKED, "the nodes were not looked at"))
        if notes[note]
    ]
    return f"{', and '.join(said)}, as pods of many kinds wait: ask for one by its name" if said else ""


def asked(snapshot: Snapshot, policy: Policy, namespace: str | None, name: str) -> Asked:
    """The pods and the answers that a name means. Raises BadInput with the nearest name if it means nothing."""
    names, situation = Names(snapshot), Situation(snapshot, policy)
    diagnosis, pods = Diagnosis(situation), names.pods(namespace, name)

    def meant(each: Lacking) -> bool:
        obj = names.object(each.namespace, each.name)
        return name in (each.name, each.name.partition("/")[2]) or (obj is not None and names.means(name, obj))

    lacking = _topmost(situation, _lacking(diagnosis, namespace, meant))
    if not pods and not lacking:
        lacking = [*_idle(diagnosis, names.workloads(namespace, name))]
    if not pods and not lacking:
        raise names.unknown(namespace, name)
    pods = sorted(pods, key=lambda pod: (not waits(pod), pod["status"].get("phase") in FINISHED))
    answers = [_answer(diagnosis, pod) for pod in pods if waits(pod)]
    said = {}
    for same in _alike(answers).values():
        causes = diagnosis.for_all([each.pod for each in same if each.pod], same[0].causes)
        said.update({id(each): causes for each in same if each.causes == same[0].causes})
    return Asked(pods, [*lacking, *[each._replace(causes=said.get(id(each), each.causes)) for each in answers]])


def _lacking(
    diagnosis: Diagnosis, namespace: str | None, meant: Callable[[Lacking], bool] = lambda _: True
) -> Iterator[Answer]:
    s = diagnosis.situation
    for each in (*not_created(s, namespace), *refused_elsewhere(s, namespace)):
        if meant(each):
            yield Answer(each.namespace, each.name, *diagnosis.uncreated(each.pods, each.causes))


def _idle(diagnosis: Diagnosis, workloads: Iterable[Object]) -> Iterator[Answer]:
    for each in workloads:
        namespace, of = each["metadata"]["namespace"], f"{each['kind'].lower()}/{each['metadata']['name']}"
        if causes := [*suspension(diagnosis.situation, each)] or [*filter(None, [idle(each)])]:
            yield Answer(namespace, of, *diagnosis.uncreated(made_by(each), causes))


def _topmost(situation: Situation, lacking: Iterable[Answer]) -> list[Answer]:
    """Without what is suspended together with what made it, which has an answer of its own."""
    names, found = situation.names_of, list(lacking)
    known = {(each.namespace, each.name) for each in found}

    def below(each: Answer) -> bool:
        obj = names.object(each.namespace, each.name) if each.causes[0].cause in ("suspended", "queued") else None
        return obj is not None and any((each.namespace, above) in known for above in names.of(obj)[1:])

    return [each for each in found if not below(each)]


def waits(pod: Pod) -> bool:
    """Whether a pod has not started: it has no node, or waits there."""
    leaves = pod["metadata"].get("deletionTimestamp")
    return not leaves and pod["status"].get("phase", "Pending") not in ("Running", *FINISHED)


def _answer(diagnosis: Diagnosis, pod: Pod) -> Answer:
    on = pod["spec"].get("nodeName")
    found = Findings([bound(diagnosis.situation, pod)], []) if on else diagnosis.of(pod)
    return Answer(pod["metadata"]["namespace"], pod["metadata"]["name"], *found, pod)


class Row(NamedTuple):
    """Pods of one workload that wait for the same reason; or a workload without its pods."""

    name: str
    since: float
    """When the first of them was created, in seconds since 1970; 0: it is not known."""
    gpus: int | float
    """GPUs that all of them ask for."""
    cause: Cause
    answers: list[Answer]
    """Those that it stands for."""


def _alike(waiting: Iterable[Answer]) -> dict[tuple[str, str, str, str], list[Answer]]:
    """By namespace and workload, those that wait for the same reason."""
    grouped: dict[tuple[str, str, str, str], list[Answer]] = {}
    for each in waiting:
        first = each.causes[0]
        grouped.setdefault((each.namespace, each.workload, first.cause, first.text), []).append(each)
    return grouped


def rows_of(waiting: Iterable[Answer], devices: PodGpus) -> list[Row]:
    """The rows of the table, the longest wait first: pods of one workload that wait for the same reason are one."""
    rows = []
    for (namespace, of, *_), same in _alike(waiting).items():
        pods = [each.pod for each in same if each.pod]
        name = f"{of} × {len(same)}" if len(same) > 1 else same[0].name
        since = min((created(pod) for pod in pods), default=0.0)
        gpus = gpu_number(sum(sum(devices.asked(pod).values()) for pod in pods))
        rows.append(Row(f"{namespace}/{name}", since, gpus, same[0].causes[0], same))
    return sorted(rows, key=lambda row: (row.since, row.name))

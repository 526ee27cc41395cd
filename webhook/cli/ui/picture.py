"""All that the page shows of a cluster at one moment, as plain data. Made of what the other commands answer."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from webhook.admission.events import MAX_MESSAGE, REFUSED, WOULD
from webhook.cli.alike import alike
from webhook.cli.decided import decision_of, of_record
from webhook.cli.reading import decided_by, not_read
from webhook.cli.ui import answers as asked
from webhook.cli.why import words_of
from webhook.errors import BadInput
from webhook.framework.node_terms import REQUIRED_TERMS
from webhook.kube.json_patch import Edit
from webhook.kube.pod import DECISION, FINISHED, Pod, annotations_of, pod_id
from webhook.kube.record import first_node, record_of
from webhook.nodes.gpu_metrics import GpuMetricsSettings
from webhook.nodes.utilisation import Reading
from webhook.policy.model import Policy
from webhook.text import printable
from webhook.whatif.answers import Answer, Row, answers, left_out, no_progress, rows_of, waits
from webhook.whatif.cluster.devices import PodGpus
from webhook.whatif.cluster.measured import Figures, Gpu
from webhook.whatif.cluster.report import PARTS, gpu_nodes, holders, named, report, report_of_pods, workload_name
from webhook.whatif.cluster.snapshot import Object, Snapshot, created, creation_timestamp
from webhook.whatif.cluster.sums import largest, totals
from webhook.whatif.names import Names
from webhook.whatif.waiting.situation import last_seen

NEEDS: Final = {"Node": "nodes", "Pod": "pods"}
"""Kinds without which it is not known how many GPUs there are, or how many are free."""
MAX_ABOUT: Final = 12_000_000
"""Bytes of what is said about waiting pods in a file. They grow with the waiting pods times the nodes."""
MAX_ANSWERS: Final = 3_000_000
"""Bytes of the answers to questions in a file."""
MAX_DECISIONS: Final = 30
MAX_AUDITED: Final = 1000
"""Of so many pods without a decision a file says what opting in would change."""
BY: Final = ("namespace", "workload", "class")
"""By what the page says who has the GPUs."""


class Picture:
    """One moment. `document` is described in docs/documents.md."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        named: str | None = None,
        progress: Callable[[int, int], object] = no_progress,
    ) -> None:
        """`named`: how the command calls the policy, if it is not the cluster's. `progress`: as of `answers`."""
        self.snapshot, self._policy, self._named = snapshot, policy, named
        refused = [kind for kind in NEEDS if snapshot.access and kind in snapshot.missing]
        self._answers = {(each.namespace, each.name): each for each in answers(snapshot, policy, None, progress)}
        self._names = Names(snapshot)
        blind = "Node" in refused
        reports = report_of_pods(snapshot, policy) if blind else report(snapshot, policy, gpu_nodes(snapshot, policy))
        devices = PodGpus(snapshot, policy)
        promises = _promises(snapshot, policy, devices, [each.pod for each in self._answers.values() if each.pod])
        settings = policy.file.gpu_metrics
        figures = Figures(snapshot.measured, settings) if snapshot.measured else None
        nodes: list[dict[str, Any]] = []
        for each in reports:
            gpus = list(figures.gpus(each["name"])) if figures else []
            more = {"promises": promises.get(each["name"], []), "devices": [_device(gpu, settings) for gpu in gpus]}
            nodes.append({**each, **more})
        self.document: dict[str, Any] = {
            "taken": snapshot.taken,
            "by": decided_by(named, snapshot),
            "missing": _missing(snapshot),
            "untried": left_out(self._answers.values()),
            "withoutRight": [NEEDS[kind] for kind in refused],
            "totals": (sums := totals(nodes, policy.gpus)),
            "resources": [
                name for name in dict.fromkeys([each["resource"] for each in sums]) if policy.gpus.kind(name)
            ],
            "largest": [] if refused else largest(nodes, snapshot, policy),
            "nodes": nodes,
            "waiting": [_row(row, devices) for row in rows_of(self._answers.values(), devices)],
            "holders": {by: holders(reports, by) for by in BY},
            "decisions": _decisions(snapshot),
        }

    def about(self, namespace: str, name: str) -> dict[str, Any]:
        """Why a pod or workload waits, and the decision on it, as `why` says. For the name of a workload: about its first pod,
        and what tells it from the others. Raises BadInput."""
        answer = self._answers.get((namespace, name))
        if answer is not None and answer.pod is None:
            return {"why": answer.document(), "decision": None}
        pods = sorted(self._names.pods(namespace, name), key=lambda pod: not waits(pod))
        if not pods:
            raise self._names.unknown(namespace, name)
        answer = self._answers.get((namespace, pods[0]["metadata"]["name"]))
        decision = decision_of(self.snapshot, self._policy, pods[0]) | alike(pods)
        return {"why": answer and answer.document(), "decision": decision}

    def answer(self, question: str, given: Mapping[str, str], of: Snapshot | None = None) -> dict[str, Any]:
        """The answer to a question, see `ui.answers`. `of`: a snapshot with more, not to be used afterwards. Raises BadInput and
        PolicyError."""
        snapshot = replace(of or self.snapshot, measured=self.snapshot.measured)
        return asked.answer(snapshot, self._named, question, given)

    def for_file(self) -> dict[str, Any]:
        """What a file has in addition: `about` the first pod of each row and the last that were decided, by `namespace/name`, up
        to MAX_ABOUT bytes, the number of rows that are left out, and `answers`. The nodes of a cause are given by their place
        in `lists`: many pods have the same."""
        heads = [(row["namespace"], row["pods"][0]) for row in self.document["waiting"]]
        decided = [
            (each["namespace"], each["name"]) for each in self.document["decisions"] if each["result"] == "admitted"
        ]
        about, lists, size = dict[str, Any](), dict[tuple[str, ...], int](), 0
        for namespace, name in dict.fromkeys([*heads, *decided]):
            found = self.about(namespace, name)
            for cause in (found["why"] or {}).get("causes", ()):
                if (names := tuple(cause["nodes"])) not in lists:
                    size += len(orjson.dumps(names))
                cause["nodes"] = lists.setdefault(names, len(lists))
            if (size := size + len(orjson.dumps(found))) > MAX_ABOUT:
                break
            about[f"{namespace}/{name}"] = found
        left_out = sum(f"{namespace}/{name}" not in about for namespace, name in heads)
        return {"about": about, "lists": list(lists), "leftOut": left_out, "answers": self._answered()}

    def _answered(self) -> dict[str, Any]:
        """The answers to the questions that are likely to be asked, up to MAX_ANSWERS bytes, by their address."""
        likely = [{"question": name} for name in ("drain", "idle", "preempt", "health")]
        likely += [{"question": "start", "gpus": str(most), "resource": name} for name, most in self._most().items()]
        found = {}
        for given in likely:
            with suppress(BadInput):  # such as a right that is missing: the file does not answer it
                found[urlencode(given)] = self.answer(given["question"], given)
        if self.undecided <= MAX_AUDITED:
            for namespace, audit in asked.audits(replace(self.snapshot), self._named).items():
                found[urlencode({"question": "audit", "namespace": namespace})] = audit
        size = 0
        for address, each in [*found.items()]:
            if size + (more := len(orjson.dumps(each))) > MAX_ANSWERS:
                del found[address]
            else:
                size += more
        return found

    @property
    def undecided(self) -> int:
        """The number of pods that the webhook has not decided on."""
        pods = [pod for pod in self.snapshot.of("Pod") if pod["status"].get("phase") not in FINISHED]
        return sum([not record_of(pod) for pod in pods])

    def _most(self) -> dict[str, int]:
        """By resource of a device plugin: how many GPUs the largest node has."""
        most: dict[str, int] = {}
        for node in self.document["nodes"]:
            for resource, counts in node["gpus"].items() if "one" not in node else ():
                if self._policy.gpus.kind(resource) is not None and counts["total"] >= 1:
                    most[resource] = max(most.get(resource, 0), int(counts["total"]))
        return most

    def in_use(self) -> list[float]:
        """The time and the GPUs of each of `PARTS`, of the first kind there is."""
        first = next(iter(self.document["totals"]), dict.fromkeys(PARTS, 0))
        return [self.snapshot.taken, *(first[part] for part in PARTS)]


def _missing(snapshot: Snapshot) -> str:
    """What could not be read; of a file only what the map needs."""
    missing = snapshot.missing
    return not_read(missing if snapshot.access else {kind: missing[kind] for kind in NEEDS if kind in missing})


def _row(row: Row, devices: PodGpus) -> dict[str, Any]:
    first: Answer = row.answers[0]
    return {
        "namespace": first.namespace,
        "name": row.name.partition("/")[2],
        "pods": [each.name for each in row.answers],
        "since": row.since,
        "gpus": row.gpus,
        "cause": row.cause.cause,
        "why": words_of(row.cause.cause),
        "text": row.cause.text,
        "fix": row.cause.fixes[0].line,
        "enough": row.cause.helps > 0,
        "asks": list(_asks(first.pod, devices)) if first.pod else [],
    }


def _asks(pod: Pod, devices: PodGpus) -> Iterator[str]:
    """By which words a person looks for a pod that waits: its workload, its GPU resources, and the nodes that it selects."""
    yield workload_name(pod)
    yield from devices.asked(pod)
    for key, value in (pod["spec"].get("nodeSelector") or {}).items():
        yield f"{key}={value}"
    for term in Edit(pod).get(REQUIRED_TERMS) or ():
        for each in term.get("matchExpressions") or ():
            yield " ".join([str(each.get("key")), *map(str, each.get("values") or ())])


def _promises(
    snapshot: Snapshot, policy: Policy, devices: PodGpus, waiting: list[Pod]
) -> Mapping[str, list[dict[str, Any]]]:
    """By node: the pods that are not bound yet and for which GPUs of it are reserved, in the form of `report`."""
    by_node: dict[str, list[dict[str, Any]]] = {}
    for pod in waiting:
        if snapshot.state.ledger.holds(pod_id(pod["metadata"])) and (first := first_node(pod)):
            by_node.setdefault(first, []).append({**named(pod, policy), "gpus": devices.asked(pod)})
    return by_node


def _decisions(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The last MAX_DECISIONS, newest first: pods with what was done to them and their ranking, and pods that were refused, by the
    Events about them."""
    decided = [pod for pod in snapshot.of("Pod") if DECISION in annotations_of(pod)]
    newest = [pod for pod in nlargest(MAX_DECISIONS, decided, key=creation_timestamp) if record_of(pod)]
    refused = [each for each in snapshot.of("Event") if each.get("reason") in (REFUSED, WOULD[0])]
    found = [_admitted(pod, snapshot) for pod in newest]
    found += [_refused(event) for event in nlargest(MAX_DECISIONS, refused, key=last_seen)]
    return sorted(found, key=lambda each: -float(each["at"]))[:MAX_DECISIONS]


def _admitted(pod: Pod, snapshot: Snapshot) -> dict[str, Any]:
    metadata = pod["metadata"]
    record, bound = record_of(pod), pod["spec"].get("nodeName")
    return {
        "at": created(pod),
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "workload": workload_name(pod),
        "result": "admitted",
        **of_record(record, bound, pod, snapshot),
    }


def _refused(event: Object) -> dict[str, Any]:
    about = event.get("involvedObject") or {}
    kind, name = str(about.get("kind") or "").lower(), str(about.get("name") or "")
    text = printable(str(event.get("message") or ""))[:MAX_MESSAGE]  # anybody may write an Event
    return {
        "at": last_seen(event),
        "namespace": str(about.get("namespace") or ""),
        "name": name,
        "workload": f"{kind}/{name}",
        "result": "refused" if event.get("reason") == REFUSED else "wouldBeRefused",
        "text": text,
    }


def _device(gpu: Gpu, settings: GpuMetricsSettings) -> dict[str, Any]:
    """A GPU with its metrics at this moment; what is not known is None."""
    percent, memory, temperature = gpu.percent, gpu.memory, gpu.readings.get(Reading.TEMPERATURE)
    used = memory[0] * 100 / memory[1] if memory and memory[1] else 0.0
    return {
        "name": gpu.name,
        "percent": None if percent is None else round(percent),
        "memory": None if memory is None else [round(each) for each in memory],
        "temperature": None if temperature is None else round(temperature),
        "idle": percent is not None and percent < settings.idle.utilisation and used < settings.idle.memory,
        "hot": temperature is not None and temperature >= settings.hot.temperature,
        "sick": gpu.readings.get(Reading.XID, 0) > 0,
    }

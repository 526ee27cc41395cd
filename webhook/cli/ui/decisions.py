"""The last decisions: pods with what was done to them and their ranking, and pods that were refused, by the Events about them."""

from heapq import nlargest
from typing import Any, Final

from webhook.admission.events import MAX_MESSAGE, REFUSED, WOULD
from webhook.cli.decided import of_record
from webhook.kube.pod import DECISION, Pod, annotations_of
from webhook.kube.record import record_of
from webhook.text import printable
from webhook.whatif.cluster.report import workload_name
from webhook.whatif.cluster.snapshot import Object, Snapshot, created, creation_timestamp
from webhook.whatif.waiting.situation import last_seen

MAX_DECISIONS: Final = 30


def decisions(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The last MAX_DECISIONS, newest first."""
    decided = [pod for pod in snapshot.of("Pod") if DECISION in annotations_of(pod)]
    newest = [pod for pod in nlargest(MAX_DECISIONS, decided, key=creation_timestamp) if record_of(pod)]
    refused = [each for each in snapshot.of("Event") if each.get("reason") in (REFUSED, WOULD[0])]
    found = [_of_pod(pod, snapshot) for pod in newest]
    found += [_of_event(event) for event in nlargest(MAX_DECISIONS, refused, key=last_seen)]
    return sorted(found, key=lambda each: -float(each["at"]))[:MAX_DECISIONS]


def _of_pod(pod: Pod, snapshot: Snapshot) -> dict[str, Any]:
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


def _of_event(event: Object) -> dict[str, Any]:
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

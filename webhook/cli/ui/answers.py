"""What the page answers when it is asked: the documents that other commands print with `-o json`, by the name of the command.

A question whose objects the page does not follow says in `reads` what is read for it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from webhook.cli import doctor
from webhook.cli.checks.result import opted_in
from webhook.cli.cluster.answers import idle_by_namespace
from webhook.cli.cluster.load import FORBIDDEN, giver
from webhook.cli.drain import drainable
from webhook.cli.policy.diff import live
from webhook.cli.reading import namespace_of, policy_of, use_metrics
from webhook.cli.top import idle_of_nobody, sums_by, why_not_measured, why_not_since
from webhook.cli.trying import document_of
from webhook.errors import BadInput
from webhook.kube.gpus import MODEL_LABELS
from webhook.kube.pod import labels_of
from webhook.kube.taints import toleration
from webhook.policy.model import Policy
from webhook.text import bare, no_such, quoted
from webhook.vendors.catalogue import GPU
from webhook.whatif.cluster.report import gpu_nodes, report
from webhook.whatif.cluster.snapshot import NEEDED, Snapshot
from webhook.whatif.manifests import planned_in
from webhook.whatif.tried import try_pods

MAX_ANSWER: Final = 12_000_000
"""Maximum bytes of an answer."""
_MAX_GPUS: Final = 1024
_TAINT: Final = re.compile(r"([\w./-]+)(?:=([\w.-]*))?(?::(NoSchedule|NoExecute|PreferNoSchedule))?")
_TAINTS: Final = "workload=training:NoSchedule, spot"
_PREEMPTION: Final = ("preemption", "priorityClasses", "guards")
"""The checks of `doctor` that say who may preempt whom, the first of which answers it."""
Given = Mapping[str, str]
"""The words of a question by name, as they stand in its address."""


class Question(NamedTuple):
    """`needs` are the kinds without all of which there is no answer."""

    answer: Callable[[Snapshot, str | None, Given], dict[str, Any]]
    needs: tuple[str, ...] = NEEDED
    reads: tuple[str, ...] = ()


def answer(snapshot: Snapshot, named: str | None, question: str, given: Given) -> dict[str, Any]:
    """The answer to a question. `named`: the policy to use instead of the cluster's. The snapshot cannot be used afterwards.

    Raises BadInput, and PolicyError if the policy does not parse.
    """
    asked = QUESTIONS.get(question)
    if asked is None:
        raise BadInput(f"saw the question {quoted(question)}, wanted one of {', '.join(QUESTIONS)}")
    for kind in asked.needs if snapshot.access else ():
        if (why := snapshot.missing.get(kind, "")).startswith(FORBIDDEN):
            raise BadInput(f"{why}, and nothing can be said without: {giver([kind])} gives it")
    found = asked.answer(snapshot, named, given)
    if (size := len(orjson.dumps(found))) > MAX_ANSWER:
        raise BadInput(f"the answer has {size:,} bytes, more than the page takes. The command shows all of it")
    return found


def drain(snapshot: Snapshot, named: str | None, _: Given) -> dict[str, Any]:
    """Which nodes are free as a whole, and which would be after a few pods have moved: the document of `drain`."""
    return {"drain": drainable(snapshot, policy_of(named, snapshot))}


def idle(snapshot: Snapshot, named: str | None, _: Given) -> dict[str, Any]:
    """Whose GPUs are idle, and since when."""
    policy = policy_of(named, snapshot)
    reports = report(snapshot, policy, gpu_nodes(snapshot, policy))
    known = any("idle" in each for each in reports)
    sums = sums_by("namespace", reports, idle_by_namespace(snapshot), [])
    source = "it" if snapshot.access is None else None
    since = "" if any("idleFor" in each for each in sums) else why_not_since(snapshot)
    unknown, more = "" if known else why_not_measured(source, policy), idle_of_nobody(reports, sums, "namespace")
    return {"nodes": sums, "unknown": unknown, "more": more, "sinceUnknown": since}


def start(snapshot: Snapshot, named: str | None, given: Given) -> dict[str, Any]:
    """Whether a pod with so many GPUs would start, and what would let it."""
    policy = policy_of(named, snapshot)
    manifest = _manifest(snapshot, policy, given)
    use_metrics(snapshot, policy)
    planned = planned_in(orjson.dumps(manifest), "the pod", policy, None)
    outcome = try_pods(snapshot, policy, [each for each in planned if not isinstance(each, BadInput)])
    found = document_of(outcome, snapshot)
    del found["triedOn"]  # the page says it already
    return {"manifest": manifest, "try": found}


def _manifest(snapshot: Snapshot, policy: Policy, given: Given) -> dict[str, Any]:
    """A pod with so many GPUs, of this model if one is given. Raises BadInput."""
    gpus, resource = given.get("gpus", ""), given.get("resource", "")
    if not (gpus.isascii() and gpus.isdigit() and 0 < int(gpus) <= _MAX_GPUS):
        raise BadInput(f"GPUs: saw {quoted(gpus)}, wanted a number from 1 to {_MAX_GPUS}")
    if policy.gpus.kind(resource) is None:
        raise BadInput(f"resource: saw {quoted(resource)}, wanted one that the policy calls GPUs, for example {GPU}")
    opted = sorted(opted_in(snapshot))
    own = snapshot.namespace if snapshot.namespace in opted or not opted else opted[0]
    namespace = namespace_of(given.get("namespace") or own, False, snapshot) or "default"
    selector: dict[str, Any] = {"nodeSelector": _selector(snapshot, model)} if (model := given.get("model", "")) else {}
    if taints := given.get("tolerates", ""):
        selector["tolerations"] = [_toleration(each) for each in taints.split(",")]
    container = {"name": "main", "image": "your-image", "resources": {"limits": {resource: gpus}}}
    metadata = {"name": f"pod-with-{gpus}-gpus", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**selector, "containers": [container]}}


def _toleration(text: str) -> dict[str, Any]:
    """The toleration of a taint as kubectl writes it; without a value or an effect, of all of them. Raises BadInput."""
    if (match := _TAINT.fullmatch(text.strip())) is None:
        raise BadInput(f"tolerations: saw {quoted(text)}, wanted taints with commas between, as {_TAINTS}")
    key, value, effect = match.groups()
    return toleration(key, value, effect or "")


def _selector(snapshot: Snapshot, model: str) -> dict[str, str]:
    """The label by which nodes say that they have GPUs of this model. Raises BadInput."""
    known = {
        labels[key]: key
        for node in snapshot.of("Node")
        for labels in [labels_of(node)]
        for key in MODEL_LABELS
        if key in labels
    }
    if model not in known:
        raise no_such("label of nodes with the model", model, sorted(known))
    return {known[model]: model}


def preempt(snapshot: Snapshot, named: str | None, _: Given) -> dict[str, Any]:
    """Which namespaces may preempt the pods of others."""
    found = [each._asdict() for each in doctor.results(snapshot, named) if each.check in _PREEMPTION]
    return {"doctor": sorted(found, key=lambda each: _PREEMPTION.index(each["check"]))}


def health(snapshot: Snapshot, named: str | None, _: Given) -> dict[str, Any]:
    """All checks of the webhook."""
    page = list(doctor.results(snapshot, named))
    return {"doctor": [each._asdict() for each in page], "summary": doctor.summary(snapshot, page)}


def audit(snapshot: Snapshot, named: str | None, given: Given) -> dict[str, Any]:
    """What would be done with the pods of a namespace if it had opted in."""
    namespace = given.get("namespace", "")
    if not namespace:
        raise BadInput("wanted the name of a namespace")
    if snapshot.access and namespace != snapshot.namespace and (why := snapshot.missing.get("Pod")):
        raise BadInput(f"{why}: nothing is known of the pods of {bare(namespace)}")
    return {"audit": live(snapshot, (None, policy_of(named, snapshot)), namespace_of(namespace, False, snapshot))}


def audits(snapshot: Snapshot, named: str | None) -> dict[str, dict[str, Any]]:
    """What opting in would change: the answer for each namespace with GPU pods that the webhook has not decided on."""
    found: dict[str, dict[str, Any]] = {}
    for entry in live(snapshot, (None, policy_of(named, snapshot)), None, everywhere=True):
        found.setdefault(entry["namespace"], {"audit": []})["audit"].append(entry)
    return found


_ABOUT_PREEMPTION: Final = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
QUESTIONS: Final[Mapping[str, Question]] = {
    "drain": Question(drain),
    "idle": Question(idle, reads=("ReplicaMetrics",)),
    "start": Question(start),
    "preempt": Question(preempt, needs=(), reads=_ABOUT_PREEMPTION),
    "health": Question(health, needs=(), reads=doctor.READ),
    "audit": Question(audit, needs=()),
}

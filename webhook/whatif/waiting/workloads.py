"""Finds workloads without their pods, and why: a quota, a LimitRange, a webhook, a missing object, a field of their own."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from webhook.admission.events import REFUSED
from webhook.kube.less import each_at_most, less
from webhook.kube.owners import controllers, queue_of
from webhook.kube.pod import Pod, controller_reference
from webhook.kube.suspended import FIELDS, finished, suspended, suspended_groups
from webhook.text import amount_number, bare, listed, plural, printable, quoted
from webhook.whatif.cluster.release import NAME
from webhook.whatif.cluster.snapshot import Object, condition, created
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import ROLLOUT, Cause, Fix
from webhook.whatif.waiting.free_devices import again
from webhook.whatif.waiting.quotas import Quota, Quotas, amount_of, over_quota
from webhook.whatif.waiting.situation import Situation, absent, is_about, last_seen, queued, with_spec

_QUOTA: Final = re.compile(r"exceeded quota: (\S+), requested: (.+?), used: (.+?), limited: (.+)")
_UNSTATED: Final = re.compile(r"failed quota: (\S+): must specify (\S+)")
_RULE: Final = re.compile(r"\. \[(\w+)\]")
_WEBHOOK: Final = re.compile(r'admission webhook "([^"]+)" denied the request: (.+)', re.DOTALL)
_NO_ANSWER: Final = re.compile(r'failed calling webhook "([^"]+)": (.+)', re.DOTALL)
_POLICY: Final = re.compile(r"(?:ValidatingAdmissionPolicy '.+? denied request: .+|violates PodSecurity .+)", re.DOTALL)
_ABSENT: Final = (
    ("serviceAccountMissing", "ServiceAccount", re.compile(r'serviceaccount "([^"]+)" not found')),
    ("priorityClassMissing", "PriorityClass", re.compile(r"no PriorityClass with name (\S+) was found")),
    ("runtimeClassMissing", "RuntimeClass", re.compile(r'RuntimeClass "([^"]+)" not found')),
)
_MOST: Final = re.compile(r"maximum (\S+) usage per (Container|Pod) is ([^\s,]+), but")
_LIMITS: Final = re.compile(r"\b(?:maximum|minimum) .* (?:usage|limit)|LimitRange|limit to request ratio")
_CREATION: Final = re.compile(r"^(?:FailedCreate|FailedToCreate|PodCreateError|CreateFailed)")
_CREATED: Final = re.compile(r"^(?:Created|SuccessfulCreate)")
_THERE: Final = re.compile(r'"([^"]+)" already exists')
_OBJECT: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
_MAX_LINE: Final = 500
_MAX_PODS: Final = 100
"""Of so many pods that are not created it is asked whether there is room for them."""
_FRESH: Final = 3600.0
"""Seconds for which an Event of a controller counts: it tries again, and says so again."""
_MAX_MESSAGE: Final = 300
_MADE_ALIKE: Final = ("ReplicaSet", "Deployment", "StatefulSet", "Job", "CronJob")
_KINDS: Final = ("ReplicaSet", "Job", "StatefulSet", "DaemonSet")


class Lacking(NamedTuple):
    """A workload without its pods."""

    namespace: str
    name: str
    """In the form that kubectl takes: `replicaset/chat-5d8`."""
    causes: list[Cause]
    pods: list[Pod] = []
    """Those that it lacks, as its controller would submit them; [] if that is not known."""


def not_created(s: Situation, namespace: str | None) -> Iterator[Lacking]:
    """The workloads of a namespace (None: of all) that lack pods, if they are suspended or their controller says why."""
    serve = Counter([_controller(each) for each in s.snapshot.of("ReplicaSet") if each["status"].get("replicas")])
    for kind in [each for each in dict.fromkeys((*_KINDS, *FIELDS)) if each != "CronJob"]:
        for (here, name), obj in s.snapshot.named(kind).items():
            if namespace not in (None, here):
                continue
            of = f"{kind.lower()}/{name}"
            if causes := [*suspension(s, obj)]:
                yield Lacking(here, of, causes, made_by(obj))
            elif (missing := _missing_pods(kind, obj)) > 0 and (message := _controller_message(s, kind, obj)):
                lacks = f"{plural(missing, 'pod')} could not be created: "
                pods = made_by(obj, missing)
                cause = refusal(s, here, lacks, message, pods)
                others = serve[own] - bool(obj["status"].get("replicas")) if (own := _controller(obj)) else 0
                if cause.cause == "quotaExceeded" and others:  # of an older revision
                    cause = cause._replace(fixes=(*cause.fixes, ROLLOUT))
                yield Lacking(here, of, [cause], pods)


def _controller(obj: Object) -> str | None:
    return (controller_reference(obj) or {}).get("uid")


def refused_elsewhere(s: Situation, namespace: str | None) -> Iterator[Lacking]:
    """The same for workloads of other kinds, such as a PyTorchJob, an MPIJob or a RayCluster, by the Events of their
    controllers or of this webhook, as long as nothing of theirs was created since.

    Times have whole seconds. What was created in the second of a failure counts as later: a controller that still fails says so
    again. One that has not yet seen what it created itself fails too, since that "already exists"; such an Event tells nothing.
    """
    told: list[tuple[tuple[str, str, str], Object]] = []
    made: dict[tuple[str, str], float] = {}  # by workload, when something of it was created last
    there: dict[tuple[str, str, str], set[str]] = {}  # what its controller says that it created
    for event in s.snapshot.of("Event"):
        about, reason = event.get("involvedObject") or {}, str(event.get("reason"))
        key = (str(about.get("namespace") or ""), str(about.get("kind") or ""), str(about.get("name") or ""))
        if key[1] in (*_KINDS, "Pod", "Node", "") or namespace not in (None, key[0]):
            continue
        if _CREATED.search(reason):
            where = key[0], f"{key[1].lower()}/{key[2]}"
            made[where] = max(made.get(where, 0), last_seen(event))
            there.setdefault(key, set()).update(_OBJECT.findall(str(event.get("message"))))
        elif reason == REFUSED or _CREATION.search(reason):
            told.append((key, event))
    newest: dict[tuple[str, str, str], Object] = {}
    for key, event in told:
        its = (match := _THERE.search(str(event.get("message")))) and match[1] in there.get(key, ())
        if not its and (key not in newest or last_seen(newest[key]) < last_seen(event)):
            newest[key] = event
    for pod in s.snapshot.of("Pod") if newest else ():
        for of in s.names_of.of(pod):
            where = pod["metadata"]["namespace"], of
            made[where] = max(made.get(where, 0), created(pod))
    for (here, kind, name), event in newest.items():
        of, since = f"{kind.lower()}/{name}", last_seen(event)
        obj = s.names_of.object(here, of)
        if (s.snapshot.taken and s.snapshot.taken - since > _FRESH) or not (obj is None or is_about(event, obj)):
            continue
        if since > made.get((here, of), -1):
            lacks = "pods could not be created: "
            message = str(event.get("message") or "")
            cause = refusal(s, here, lacks, message)
            if event.get("reason") == REFUSED:
                cause = Cause.of("refused", f"{lacks}{_printable(message)}", _correct(message))
            yield Lacking(here, bare(of), [cause])


def suspension(s: Situation, obj: Object) -> Iterator[Cause]:
    """The causes that a field of a workload keeps all its pods from being made, or those of a worker group."""
    namespace, name = obj["metadata"]["namespace"], f"{obj['kind'].lower()}/{obj['metadata']['name']}"
    if field := suspended(obj):
        yield _suspended(s, namespace, obj, field)
        return
    for at in suspended_groups(obj):
        patch = orjson.dumps(
            [{"op": "replace", "path": f"/spec/workerGroupSpecs/{at}/suspend", "value": False}]
        ).decode()
        resume = Fix("resume it", kubectl("patch", name, "--type", "json", "-p", patch, namespace=namespace))
        group = quoted(obj["spec"]["workerGroupSpecs"][at].get("groupName"))
        yield Cause.of("suspended", f"worker group {group} is suspended: its pods are made when it is resumed", resume)


def _suspended(s: Situation, namespace: str, obj: Object, field: Sequence[str]) -> Cause:
    """Who resumes it: Kueue, if it or what made it is in a queue; what made it; else its author."""
    find, says, own = s.names_of.find(namespace), f"{'.'.join(field)} is true: ", _resume(obj, field)
    if queue_of(obj, find):
        return queued(s, obj, own)
    if above := [*controllers(obj, find)]:
        kind, name, json = above[-1]
        top = f"{kind.lower()}/{name}"
        if json and (its := suspended(json)):
            resume = _resume(json, its)
            return Cause.of("suspended", f"{says}{bare(top)} is suspended too, and resumes it", resume)
        look = Fix("see why it has not", kubectl("describe", top, namespace=namespace))
        return Cause.of("suspended", f"{says}{bare(top)} resumes it", look)
    return Cause.of("suspended", f"{says}its pods are made when it is resumed", own)


def _resume(obj: Mapping[str, Any], field: Sequence[str]) -> Fix:
    patch: Any = False
    for key in reversed(field):
        patch = {key: patch}
    name, namespace = f"{obj['kind'].lower()}/{obj['metadata']['name']}", obj["metadata"]["namespace"]
    arguments = ("patch", name, "--type", "merge", "-p", orjson.dumps(patch).decode())
    pods = made_by(obj) if obj["kind"] != "CronJob" else []  # it is not due then
    return Fix("resume it", kubectl(*arguments, namespace=namespace), pod=next(iter(pods), None))


def idle(obj: Object) -> Cause | None:
    """Why a workload has no pods though nothing refuses them: it has 0 replicas, is paused, has finished, or is not due. None if
    the object does not say."""
    spec, status, namespace = obj["spec"], obj["status"], obj["metadata"]["namespace"]
    name, pod = f"{obj['kind'].lower()}/{obj['metadata']['name']}", next(iter(made_by(obj)), None)
    if obj["kind"] == "CronJob":
        last = f"; the last was at {bare(status['lastScheduleTime'])}" if status.get("lastScheduleTime") else ""
        text = f"its next Job comes by its schedule, {quoted(spec.get('schedule'))}{last}"
        job = f"{obj['metadata']['name']}-now"
        run = kubectl("create", "job", job, f"--from={name}", namespace=namespace)
        return Cause.of("noPods", text, Fix("or run it now", run, pod))
    if finished(obj):
        ends = [each for each in status.get("conditions") or () if each.get("status") == "True" and each.get("reason")]
        why = "".join(
            [f": {bare(each['reason'])}, {printable(str(each.get('message')))[:_MAX_MESSAGE]}" for each in ends[-1:]]
        )
        return Cause.of("noPods", f"it has finished{why}", "create it again")
    if obj["kind"] == "DaemonSet" and not status.get("desiredNumberScheduled"):
        text = "no node is for its pods, by their node selector, node affinity or tolerations"
        look = kubectl("get", "nodes", "-o", "custom-columns=NAME:.metadata.name,TAINTS:.spec.taints")
        return Cause.of("noPods", text, Fix("compare its template with the labels and taints of nodes", look))
    if spec.get("replicas") == 0:
        scale = kubectl("scale", name, "--replicas=1", namespace=namespace)
        return Cause.of("noPods", "it is to have 0 replicas", Fix("scale it, or see what scales it", scale, pod))
    if obj["kind"] == "Deployment" and spec.get("paused") is True:
        resume = kubectl("rollout", "resume", name, namespace=namespace)
        return Cause.of("noPods", "it is paused", Fix("resume it", resume, pod))
    return None


def _missing_pods(kind: str, obj: Object) -> int:
    """How many pods the workload lacks."""
    spec, status = obj["spec"], obj["status"]
    if kind == "Job":
        if finished(obj):
            return 0
        wanted = min(spec.get("parallelism", 1), max(0, spec.get("completions", 1 << 30) - status.get("succeeded", 0)))
        return int(wanted) - int(status.get("active", 0))
    if kind not in _KINDS:
        return 0
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled", 0)) - int(status.get("currentNumberScheduled", 0))
    return int(spec.get("replicas", 1)) - int(status.get("replicas", 0))


def _controller_message(s: Situation, kind: str, obj: Object) -> str:
    """Why the controller could not create a pod: from its condition, else from its newest event; "" if it does not say."""
    failure = condition(obj, "ReplicaFailure")
    if failure.get("status") == "True":
        return str(failure.get("message") or "")
    return next((str(e.get("message") or "") for e in s.events_of(kind, obj) if e.get("reason") == "FailedCreate"), "")


def _correct(message: str) -> str:
    """What to do about our refusal, with the names of the rules that a table has no room to quote."""
    rules = list(dict.fromkeys(_RULE.findall(message)))
    return (
        f"correct the pod template as {listed(rules, 3)} {'says' if len(rules) == 1 else 'say'}"
        if rules
        else "correct the pod template as it says"
    )


def refusal(s: Situation, namespace: str, lacks: str, message: str, pods: Sequence[Pod] = ()) -> Cause:
    """The cause in a message of who could not create an object. `lacks`: how the text begins, which says what is missing. `pods`:
    what is not created, if it is known."""
    pod = next(iter(pods), None)
    if match := _QUOTA.search(message):
        quota, asked, used, limited = match.groups()
        text = f"{lacks}quota {bare(quota)}: {bare(used)} used, {bare(asked)} asked for, {bare(limited)} at most"
        users = "resourceclaims" if "devices=" in limited else "pods"
        known, then, fixes = s.snapshot.named("ResourceQuota").get((namespace, quota)), None, tuple[Fix, ...]()
        if (
            pod
            and known
            and {each.partition("=")[0] for each in limited.split(",")} <= Quota.of(known).lacks(pod).keys()
        ):
            fixes, then = Quota.of(known).fixes(quota, pod, len(pods)), Quotas(s.snapshot, but=quota).take(pod)
        cause = over_quota(text, quota, namespace, () if then else fixes, users, rest=used != limited)
        return cause._replace(then=then.text) if then else cause
    if match := _UNSTATED.search(message):
        quota, names = bare(match[1]), listed([bare(name) for name in match[2].split(",")])
        text = f"{lacks}quota {quota} wants every container to state {names}"
        defaults = f"create a LimitRange in {namespace} with defaults"
        return Cause.of("quotaExceeded", text, f"state {names} in every container", defaults)
    if match := _WEBHOOK.search(message):
        ours = NAME in match[1]
        text = f"{lacks}{'' if ours else f'webhook {bare(match[1])}: '}{_printable(match[2])}"
        if ours:
            return Cause.of("refused", text, _correct(message))
        return Cause.of("refused", text, "correct the pod template", "ask who runs that webhook")
    if match := _NO_ANSWER.search(message):
        text = f"{lacks}webhook {bare(match[1])} does not answer: {_printable(match[2])}"
        where = kubectl("get", "mutatingwebhookconfigurations,validatingwebhookconfigurations")
        return Cause.of("refused", text, Fix("repair what serves it, or remove its configuration", where))
    if match := _POLICY.search(message):
        text = f"{lacks}{_printable(match[0])}"
        return Cause.of("refused", text, "correct the pod template", "ask who keeps that policy")
    for word, kind, pattern in _ABSENT:
        if match := pattern.search(message):
            return absent(
                s, namespace, word, kind, match[1], lacks=lacks, named=partial(_naming, pod, kind) if pod else None
            )
    text = f"{lacks}{_printable(message)}"
    if _LIMITS.search(message):
        look = kubectl("describe", "limits", namespace=namespace)
        return Cause.of("limitRange", text, *_within(pod, message), Fix("ask for what the LimitRange allows", look))
    return Cause.of("notCreated", text, "correct what it says; the controller tries again by itself")


def _naming(pod: Pod, kind: str, name: str) -> Pod:
    """The pod that names this object of a kind."""
    return with_spec(pod, **{f"{kind[0].lower()}{kind[1:]}Name": name})


def _within(pod: Pod | None, message: str) -> list[Fix]:
    """To ask for the most that a LimitRange allows, if the message says how much that is."""
    if pod is None or (match := _MOST.search(message)) is None:
        return []
    resource, of, most = match.groups()
    fewer = (each_at_most if of == "Container" else less)(pod, resource, amount_of(resource, most))
    text = amount_number(resource, fewer.amount) if fewer else ""
    return [Fix(f"ask for {text} {bare(resource)} at most{fewer.where}", pod=fewer.change(text))] if fewer else []


def made_by(obj: Mapping[str, Any], pods: int = 1) -> list[Pod]:
    """So many of the pods that a workload would make; [] if they are not alike, or its kind is none of Kubernetes' own."""
    metadata, of = obj["metadata"], obj["spec"].get("jobTemplate", obj)["spec"].get("template")
    if obj["kind"] not in _MADE_ALIKE or not of or obj["spec"].get("volumeClaimTemplates"):
        return []
    reference = {"kind": obj["kind"], "name": metadata["name"], "uid": metadata.get("uid"), "controller": True}
    own = {**(of.get("metadata") or {}), "namespace": metadata["namespace"], "ownerReferences": [reference]}
    names = [f"{metadata['name']}-{number}" for number in range(min(pods, _MAX_PODS))]
    return [again({"metadata": {**own, "name": name, "uid": name}, "spec": of["spec"]}) for name in names]


def _printable(text: str) -> str:
    """The first lines of a message, on one line: 6 lines of at most _MAX_LINE characters, without what cannot be printed."""
    lines = [printable(" ".join(line.split())) for line in text.splitlines() if line.strip()]
    return listed([f"{line[:_MAX_LINE]}{'…' if len(line) > _MAX_LINE else ''}" for line in lines], 6)

"""Why a pod is not on the node that was chosen for it, by what is stored: the Event of the webhook, or times that are written at
nodes and pods. What no object says is not guessed."""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.admission import words
from webhook.admission.events import BOUND_ELSEWHERE
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import counted_requests
from webhook.placement.constraints import compiled
from webhook.text import amount_words, bare
from webhook.whatif.cluster.snapshot import Snapshot, condition, seconds


def elsewhere(snapshot: Snapshot, pod: Pod, bound: str, ranked: list[str]) -> str:
    """The sentence for a pod that is bound to another node than the first of its ranking."""
    _, head = words.binding(ranked, bound)
    for event in snapshot.of("Event"):
        about, said = event.get("involvedObject") or {}, str(event.get("message") or "")
        ours = event.get("reason") == BOUND_ELSEWHERE and about.get("uid") == pod["metadata"].get("uid")
        if ours and said.startswith(head) and said.isprintable():  # anybody may write an Event
            return said
    if "Node" in snapshot.missing:
        return f"{head}why is not known: {snapshot.missing['Node']}"
    node = snapshot.nodes.get(ranked[0])
    if node is None:
        return f"{head}why is not known: that node is gone"
    if known := next(_reasons(snapshot, pod, node), ""):
        return f"{head}{known}"
    now = words.why_elsewhere(pod, ranked[0], snapshot.state)
    now = "it could take the pod" if now == words.OTHER_SCORES else now.replace("was full by then", "is full")
    return f"{head}why is not known: no Event says it, and no object shows what that node was like then; now {now}"


def _reasons(snapshot: Snapshot, pod: Pod, node: Mapping[str, Any]) -> Iterator[str]:
    """What kept the pod from the node when it was bound."""
    when = condition(pod, "PodScheduled").get("lastTransitionTime")
    if not (then := seconds(when)):
        return
    ready, constraints = condition(dict(node), "Ready"), compiled(pod["spec"])
    if ready and ready.get("status") != "True" and 0 < seconds(ready.get("lastTransitionTime")) <= then:
        yield f"that node is not ready since {bare(str(ready['lastTransitionTime']))}"
    row = snapshot.state.nodes.row_of[node["metadata"]["name"]]
    columns = snapshot.state.nodes.columns
    since = {(each.get("key"), each.get("effect")): each.get("timeAdded") for each in node["spec"].get("taints") or ()}
    for taint in snapshot.state.nodes.statuses[columns.status[row]].taints:
        added = since.get((taint.key, taint.effect))
        if constraints and not constraints.admits(taint) and 0 < seconds(added) <= then:
            yield f"that node has a taint that the pod does not tolerate, {bare(taint.key)}, since {bare(str(added))}"
    others = [
        counted_requests(each)
        for each in snapshot.pods_on.get(node["metadata"]["name"], ())
        if 0 < seconds(condition(each, "PodScheduled").get("lastTransitionTime")) <= then
    ]
    for resource, asked in counted_requests(pod).requests:
        total = int(columns.capacity[resource][row]) if resource in columns.capacity else 0
        left = total - sum([pod_requests.amount(resource) for pod_requests in others])
        if left < asked:
            wanted, had = amount_words(resource, asked), amount_words(resource, max(0, left))
            yield f"that node was full by then ({when}): the pod asks for {wanted}, and it had {had} left"

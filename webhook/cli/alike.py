"""What tells the pods of one workload apart: on which nodes they are, and how the decisions on them differ."""

from collections import Counter
from typing import Any, Final

from webhook.admission import words
from webhook.kube.pod import FINISHED, Pod
from webhook.kube.record import record_of
from webhook.text import bare, listed, plural
from webhook.whatif.cluster.report import workload_name

_BOUND: Final = {
    "first": "on the node that was chosen",
    "ranked": "on another node of its ranking",
    "other": "on a node that is not in its ranking",
    "waits": "not bound yet",
    "": "no node was chosen",
}
Traits = dict[str, tuple[str, str]]
_NONE: Final = ("", "no decision")


def alike(pods: list[Pod]) -> dict[str, Any]:
    """`{"replicas": …}`, described in docs/documents.md, if `pods` of one workload are several."""
    if len(pods) < 2:
        return {}
    of = listed([bare(name) for name in dict.fromkeys(map(workload_name, pods))], 3)
    ended = [each for each in pods if each["status"].get("phase") in FINISHED]
    here = [each for each in pods if each["status"].get("phase") not in FINISHED]
    on = Counter([str(each["spec"]["nodeName"]) for each in here if each["spec"].get("nodeName")])
    chosen = Counter([nodes[0] for each in here if (nodes := _ranked(each))])
    waiting = len(here) - on.total()
    parts = [
        f"on {_counts(on)}" if on else "",
        f"{waiting} without a node" if waiting else "",
        f"{len(ended)} ended" if ended else "",
        f"chosen for them: {_counts(chosen)}" if chosen and chosen != on else "",
    ]
    return {
        "replicas": {
            "pods": len(pods),
            "nodes": dict(on.most_common()),
            "chosen": dict(chosen.most_common()),
            "waiting": waiting,
            "ended": len(ended),
            "text": f"{plural(len(pods), 'pod')} of {of}: {'; '.join(filter(None, parts))}",
            "groups": _groups(pods),
        }
    }


def _groups(pods: list[Pod]) -> list[dict[str, Any]]:
    """Pods whose decisions are alike. The group of the first pod is first; the text of others says what differs from it."""
    groups: dict[tuple[tuple[str, str], ...], tuple[Traits, list[str]]] = {}
    for pod in pods:
        traits = _traits(pod)
        key = tuple([(subject, word) for subject, (word, _) in traits.items()])
        groups.setdefault(key, (traits, []))[1].append(pod["metadata"]["name"])
    (own, names), *others = groups.values()
    others.sort(key=lambda group: -len(group[1]))
    same = "none has a decision" if own["decision"] == _NONE else "all are decided alike"
    first = "this one" if len(names) == 1 else f"{len(names)} alike"
    found = [{"pods": names, "text": first if others else same}]
    for traits, them in others:
        found.append({"pods": them, "text": f"{len(them)} other: {'; '.join(_differs(own, traits))}"})
    return found


def _traits(pod: Pod) -> Traits:
    """What is compared, by subject: a word, and how it is said. Rankings differ with each pod, and are left out."""
    if not (record := record_of(pod)):
        return {"decision": _NONE}
    found: Traits = {"decision": ("some", "a decision")}
    for key in ("class", "profile", "policy", "strategy"):
        found[key] = (value := bare(str(record.get(key)))), f"{key} {value}"
    for name, outcome in (record.get("units") or {}).items():
        word = outcome[0] if isinstance(outcome, list) and outcome else outcome
        found[str(name)] = str(word), f"{bare(str(name))}: {words.sentence(str(name), outcome)}"
    why, (word, _) = words.why_none(record), words.binding(_ranked(pod), pod["spec"].get("nodeName"))
    found["node"] = (why or word), (f"no node chosen: {why}" if why else _BOUND[word])
    return found


def _ranked(pod: Pod) -> list[str]:
    return [node[0] for node in record_of(pod).get("nodes") or ()]


def _differs(own: Traits, other: Traits) -> list[str]:
    if own["decision"] != other["decision"]:
        return [other["decision"][1]]
    missing = [f"{bare(subject)}: nothing" for subject in own if subject not in other]
    return [text for subject, (word, text) in other.items() if own.get(subject, ("",))[0] != word] + missing


def _counts(on: Counter[str]) -> str:
    return listed([f"{bare(node)} ({count})" for node, count in on.most_common()], 8)

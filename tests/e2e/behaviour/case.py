"""A case, what became of it on one side, and the checks that say what was to become of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.installed import decision

Json = dict[str, Any]
HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"


@dataclass
class Side:
    """A case with us, or without us: what there is of it now."""

    tag: str
    """In front of the names of its nodes; its namespace is called so too."""
    labels: dict[str, Mapping[str, str]]
    """Of its nodes, by their names in the case."""
    pods: list[Json] = field(default_factory=list)
    """Those that the case created, by name. What was there before is not among them."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why, by the name of the object."""
    warnings: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def of(self, names: Sequence[str]) -> list[Json]:
        """The pods of these names, or of workloads of these names; without names all."""
        if not names:
            return self.pods
        return [found for found in self.pods if found["metadata"]["name"] in names or _workload(found) in names]

    def node(self, pod: Json) -> str:
        """Where it is, as the case calls that node; "" where it is nowhere."""
        return str(pod["spec"].get("nodeName", "")).removeprefix(f"{self.tag}-")

    @property
    def running(self) -> list[Json]:
        return [found for found in self.pods if self.node(found)]


Check = Callable[[Side], str]
"""What is wrong; "" where all is well."""


class Change(NamedTuple):
    """Something that happens to what is there. `patch`: a merge patch; None: it is deleted."""

    kind: str
    name: str
    patch: Json | None = None
    subresource: str = ""


@dataclass(frozen=True)
class Case:
    id: str
    """A sentence."""
    nodes: Sequence[Json]
    objects: Sequence[Json]
    """Created one after the other: pods, Deployments, Jobs."""
    expect: Sequence[Check]
    """What is to become of it with us."""
    first: Sequence[Change] = ()
    """What changes in the nodes before anything else."""
    there: Sequence[Json] = ()
    """What was there before the namespace opted in: volumes, and pods that run."""
    later: Sequence[Change | Json] = ()
    """What changes once the objects have found their nodes, or wait; a whole object is created."""
    last: Sequence[Change | Json] = ()
    """The same, once what is later has found its node, or waits."""
    without: Sequence[Check] = ()
    """What becomes of it without us, where the case is about the difference."""
    profile: str = "default"
    """Of the policy."""
    fewer: str = ""
    """Why fewer pods run with us than without: a refusal that is meant."""


def _workload(pod: Json) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get("app", ""))


def _where(side: Side, pods: Sequence[Json]) -> str:
    return ", ".join(f"{found['metadata']['name']} {_at(side, found)}" for found in pods) or "no pods"


def _at(side: Side, pod: Json) -> str:
    if node := side.node(pod):
        return f"on {node}"
    conditions = (pod.get("status") or {}).get("conditions") or ()
    why = next((c.get("message", c.get("reason", "")) for c in conditions if c["type"] == "PodScheduled"), "not tried")
    return f"waits ({why})"


def runs(*names: str, count: int | None = None) -> Check:
    """These pods run, or all of them; `count`: so many of them, and no more are there."""

    def check(side: Side) -> str:
        pods = side.of(names)
        fine = bool(pods) and all(map(side.node, pods)) and count in (None, len(pods)) and not side.refused
        return "" if fine else f"wanted to run: {_where(side, pods)} {side.refused or ''}"

    return check


def waits(*names: str, count: int | None = None) -> Check:
    """These pods are there and wait for a node. `count`: so many of them do, and the others run."""

    def check(side: Side) -> str:
        pods = side.of(names)
        waiting = [found for found in pods if not side.node(found)]
        fine = bool(pods) and len(waiting) == (len(pods) if count is None else count)
        return "" if fine else f"wanted to wait: {_where(side, pods)} {side.refused or ''}"

    return check


def on(nodes: str, *names: str) -> Check:
    """They run on this node, or on one of these: "a", "a b"."""

    def check(side: Side) -> str:
        pods = side.of(names)
        fine = bool(pods) and all(side.node(found) in nodes.split() for found in pods)
        return "" if fine else f"wanted on {nodes}: {_where(side, pods)} {side.refused or ''}"

    return check


def counts(*names: str, **by_node: int) -> Check:
    """So many of them run on each node, and none elsewhere."""

    def check(side: Side) -> str:
        pods = side.of(names)
        found = Counter(map(side.node, pods))
        return "" if found == Counter(by_node) else f"wanted {by_node}: {_where(side, pods)} {side.refused or ''}"

    return check


def together(key: str = HOST, *names: str) -> Check:
    """They run in one domain of a node label."""

    def check(side: Side) -> str:
        pods = side.of(names)
        domains = {side.labels[side.node(found)].get(key, "") if side.node(found) else None for found in pods}
        fine = len(domains) == 1 and None not in domains
        return "" if fine else f"wanted in one {key}: {_where(side, pods)} {side.refused or ''}"

    return check


def apart(key: str = HOST, *names: str) -> Check:
    """They run, each in another domain of a node label."""

    def check(side: Side) -> str:
        pods = side.of(names)
        domains = [side.labels[side.node(found)].get(key, "") for found in pods if side.node(found)]
        fine = bool(pods) and len(domains) == len(pods) == len(set(domains))
        return "" if fine else f"wanted each in another {key}: {_where(side, pods)} {side.refused or ''}"

    return check


def refused(name: str, *texts: str) -> Check:
    """It was refused, and the message has these texts."""

    def check(side: Side) -> str:
        message = side.refused.get(name)
        if message is None:
            return f"wanted refused: {name}"
        return "".join(f"wanted {text!r} in: {message}" for text in texts if text not in message)

    return check


def told(name: str, *texts: str) -> Check:
    """Whoever created it was warned, with these texts."""

    def check(side: Side) -> str:
        said = "; ".join(side.warnings.get(name, ()))
        return "".join(f"wanted {text!r} in warnings: {said!r} " for text in texts if text not in said)

    return check


def not_told(name: str, *texts: str) -> Check:
    """None of the warnings has one of these texts; without texts, there are none."""

    def check(side: Side) -> str:
        said = "; ".join(side.warnings.get(name, ()))
        bad = [text for text in texts if text in said] if texts else [said] * bool(said)
        return f"wanted not said: {bad}" if bad else ""

    return check


def recorded(name: str, **wanted: Any) -> Check:
    """What stands in the decision record of a pod: why="…", strategy="…"; node="a": the first choice; unit=(name, result)."""

    def check(side: Side) -> str:
        pods = side.of([name])
        if not pods:
            return f"no pod {name} {side.refused or ''}"
        wrong = []
        for found in map(decision, pods):
            nodes = found.get("nodes") or [[""]]
            seen: dict[str, Any] = {**found, "node": nodes[0][0].removeprefix(f"{side.tag}-")}
            if "unit" in wanted:
                unit = wanted["unit"][0]
                seen["unit"] = (unit, *found.get("units", {}).get(unit, ())[: len(wanted["unit"]) - 1])
            wrong += [f"{key}: {seen.get(key)!r}" for key, value in wanted.items() if seen.get(key) != value]
        return f"wanted {wanted} in the record, saw {'; '.join(wrong)}" if wrong else ""

    return check


def as_chosen(*names: str) -> Check:
    """They run where they were ranked first."""

    def check(side: Side) -> str:
        firsts = [((decision(found).get("nodes") or [[""]])[0][0], found) for found in side.of(names)]
        wrong = [
            f"{first} for {_where(side, [found])}" for first, found in firsts if first != found["spec"].get("nodeName")
        ]
        return f"wanted where it was ranked first: {'; '.join(wrong)}" if wrong or not firsts else ""

    return check

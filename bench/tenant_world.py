"""A cluster in this process in which tenants do what they can do through the API server, for `bench.hostile`.

They create, change and delete objects, which the state sees as events of a watch, and their reviews come to both hooks.
`bench.tenant_cases` says what they do; what another tenant gets is looked at from outside.
"""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson

from bench.bodies.parts import GPU, PREFERRED, Json, review
from bench.recorded import NAMESPACE, Silent, burst, mutated, with_decision
from bench.samples import cluster, state_of
from tests.controlplane.objects import pod
from webhook.kube.pod import DECISION, PROFILE_LABEL
from webhook.kube.record import record_of
from webhook.placement.placer import Placer
from webhook.server.handlers import Handlers
from webhook.server.process import Recorder
from webhook.state.state import ClusterState
from webhook.telemetry import logs
from webhook.telemetry.metrics import Metrics

ATTACKER, ACCOMPLICE, OUTSIDE = "attacker", "accomplice", "outside"
"""Two namespaces of one tenant that have opted in, and one that has not."""
_WARM_UP = 20


def objects(nodes: int, gpus: int) -> Json:
    """Empty nodes and the namespaces."""
    found = cluster(nodes, gpus)
    for name in (NAMESPACE, ATTACKER, ACCOMPLICE, OUTSIDE):
        labels = {} if name == OUTSIDE else {PROFILE_LABEL: ""}
        found["items"].append(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}, "spec": {}}
        )
    return found


def new_pod(name: str, namespace: str, gpus: int = 0, owner: str = "", **spec: Any) -> Json:
    """A pod as the API server sends it to the first hook. `owner`: the uid of its ReplicaSet."""
    amount = {"cpu": "1", "memory": "1Gi"} | ({GPU: str(gpus)} if gpus else {})
    spec = {"schedulerName": "default-scheduler"} | spec
    made = pod(name, gpus, limits=amount, requests=amount, namespace=namespace, **spec)
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        made["metadata"] |= {"generateName": f"{owner}-", "ownerReferences": [reference]}
    return made


def forged(made: Json, node: str) -> Json:
    """The same pod with a decision for a node that its author wrote, and the affinity that makes it look real."""
    made["metadata"]["annotations"] = {DECISION: orjson.dumps({"nodes": [[node, 8, 0, 1.0]]}).decode()}
    assert record_of(made), "it would be told from a real one"
    preference = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    term = {"weight": 100, "preference": preference}
    made["spec"]["affinity"] = {"nodeAffinity": {PREFERRED: [term]}}
    return made


class _Nowhere(io.BytesIO):
    def write(self, text: object) -> int:
        return 0


def _milliseconds() -> float:
    return time.thread_time() * 1e3


class World:
    """The state of a cluster, both hooks, and a watch that sees what is stored at once.

    `scale`: the part of each number of objects that tenants leave, for a short run.
    """

    def __init__(self, state: ClusterState, scale: float = 1.0) -> None:
        self.state = state
        self.metrics = Metrics()
        self.now = 0.0
        self.written: Callable[[bytes], bytes] = lambda body: body
        """Makes of a review of another tenant's pod the one that comes."""
        self._scale = scale
        self._count = 0
        log = logs.configure(_Nowhere())
        self.handlers = Handlers(_policy(), state, Placer(state), Recorder(self.metrics, log), lambda: self.now)

    @property
    def nodes(self) -> list[str]:
        return sorted(self.state.nodes.row_of)

    def many(self, number: int) -> range:
        return range(max(2, round(self._scale * number)))

    # --- what the API server does ---------------------------------------------------------------------------------------

    def asked(self, made: Json) -> Json:
        """The pod with what the mutating hook adds."""
        metadata = made["metadata"]
        body = review(made, namespace=metadata["namespace"], name=metadata["name"])
        return mutated(body, self.handlers.mutate(body)[1])

    def seen(self, made: Json, node: str = "", phase: str = "Pending") -> Json:
        """The pod is stored, on a node if one is given, and comes in the watch."""
        self._count += 1
        made["metadata"].setdefault("uid", f"{self._count:08x}-0000-4000-8000-{self._count:012x}")
        if node:
            made["spec"]["nodeName"], phase = node, "Running"
        made["status"] = {"phase": phase}
        self.state.seen("pods", made, self.now)
        return made

    def gone(self, made: Json) -> None:
        self.state.pod_gone(made)

    def created(self, kind: str, group: str, made: Json) -> None:
        """A workload goes through both hooks. It is not seen in a watch: these kinds are not watched."""
        metadata = made["metadata"]
        where = {"namespace": metadata["namespace"], "name": metadata["name"]}
        body = review(made, kind, group, f"{kind.lower()}s", **where)
        self.handlers.mutate(body)
        self.handlers.validate(body)

    def choice(self, made: Json) -> str:
        """The first node that is chosen for a pod; "" if none is."""
        record = orjson.loads(self.asked(made)["metadata"]["annotations"][DECISION])
        return str(record["nodes"][0][0]) if record.get("nodes") else ""

    # --- what another tenant pays ---------------------------------------------------------------------------------------

    def reviews(
        self, count: int, before_each: Callable[[World, int], None], meter: Callable[[], float] = _milliseconds
    ) -> list[float]:
        """What both reviews of each new pod of another tenant cost, after `before_each` has happened."""
        found = []
        warm_up = len(self.many(_WARM_UP))
        mutate = burst("replicaset", count + warm_up, workload=1)
        validate = burst("replicaset", count + warm_up, workload=1, hook="validate")
        mutate, validate = map(self.written, mutate), map(self.written, validate)
        gc.collect()
        for number, (first, second) in enumerate(zip(mutate, validate, strict=True)):
            before_each(self, number)
            started = meter()
            answer = self.handlers.mutate(first)[1]
            spent = meter() - started
            stored = with_decision(first, second, answer)
            started = meter()
            self.handlers.validate(stored)
            spent += meter() - started
            made = self.seen(orjson.loads(stored)["request"]["object"])
            self.gone(made)
            if number >= warm_up:
                found.append(spent)
        return found


def ordinary(world: World, number: int) -> None:
    """A pod of somebody runs and ends."""
    names = world.nodes
    world.gone(world.seen(new_pod(f"ordinary-{number}", OUTSIDE), node=names[number % len(names)]))


def _nothing(world: World) -> None: ...


class Cost(NamedTuple):
    """What a tenant leaves, and what he does before each review of another tenant."""

    leaves: Callable[[World], None] = _nothing
    before_each: Callable[[World, int], None] = ordinary
    cluster: Callable[[World], None] = _nothing
    """What the cluster is like, also without the tenant."""


class Outcome(NamedTuple):
    """What a tenant leaves, and what another tenant gets."""

    gets: Callable[[World], float]
    what: str
    leaves: Callable[[World], None]
    least: float = 1.0
    """The part of what he gets without the tenant that he must get with him."""
    before: Callable[[World], None] = _nothing
    """What the other tenant has before that."""


@cache
def _policy() -> Silent:
    return Silent()


def cluster_state(nodes: int, gpus: int) -> ClusterState:
    """The state of a server that has seen them. Also loads the policy, so that no child process has to."""
    _policy()
    return state_of(objects(nodes, gpus))

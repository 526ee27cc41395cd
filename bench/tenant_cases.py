"""What one tenant can leave in a cluster, and what another then pays or gets. Each is a row of `bench.hostile`.

In the rows of COSTS another tenant's reviews take CPU time; in those of OUTCOMES he gets something, more of which is better.
"""

from collections.abc import Callable
from typing import Any, Final

from bench import tenant_claims
from bench.bodies.parts import GPU, REQUIRED, Json
from bench.recorded import NAMESPACE
from bench.tenant_world import ACCOMPLICE, ATTACKER, OUTSIDE, Cost, Outcome, World, forged, new_pod

_HOSTNAME: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"


# --- time that reviews of others take -------------------------------------------------------------------------------------


def _pod_terms(world: World) -> None:
    """They match every pod, and no two are alike."""
    for number in world.many(64):
        terms = [_about_everybody(_ZONE, f"{number}-{each}") for each in range(8)]
        world.seen(new_pod(f"waits-{number}", OUTSIDE, gpus=1, affinity={"podAffinity": {REQUIRED: terms}}))
    for number in world.many(32):
        terms = [_about_everybody(_HOSTNAME, f"{number}-{each}") for each in range(8)]
        affinity = {"podAntiAffinity": {REQUIRED: terms}}
        world.seen(new_pod(f"alone-{number}", OUTSIDE, affinity=affinity), node=world.nodes[number % len(world.nodes)])


def _about_everybody(topology_key: str, but: str) -> Json:
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [but]}]}
    return {"topologyKey": topology_key, "namespaceSelector": {}, "labelSelector": selector}


def _confined(world: World) -> None:
    names = world.nodes
    for number in world.many(2_000):
        selector = {_HOSTNAME: names[number % len(names)]}
        world.seen(new_pod(f"waits-{number}", OUTSIDE, gpus=1 + number % 8, nodeSelector=selector))


def _on_unknown_nodes(world: World) -> None:
    for number in world.many(5_000):
        world.seen(new_pod(f"lost-{number}", OUTSIDE), node=f"nowhere-{number}")


def _on_another_unknown_node(world: World, number: int) -> None:
    world.gone(world.seen(new_pod(f"lost-too-{number}", OUTSIDE), node=f"nowhere-else-{number}"))


def _many_labels(world: World) -> None:
    """Node Feature Discovery writes some hundred labels on each node."""
    for name in world.nodes:
        labels = world.state.nodes.labels.get(world.state.nodes.row_of[name])
        more = {f"feature.node.kubernetes.io/cpu-{number}": "true" for number in range(160)}
        node: Json = {"metadata": {"name": name, "labels": {**labels, **more}}, "spec": {}}
        amount = {"cpu": "2048", "memory": "16Ti", "pods": "1000", GPU: "128"}
        node["status"] = {
            "allocatable": amount,
            "capacity": amount,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        world.state.seen("nodes", node, world.now)


def _selects_by_all_labels(world: World, number: int) -> None:
    selector = {f"feature.node.kubernetes.io/cpu-{label}": "true" for label in range(160)}
    world.asked(new_pod(f"picky-{number}", ATTACKER, gpus=1, nodeSelector=selector))


def _another_shape(world: World, number: int) -> None:
    """As many pods, no two alike, as scores are kept for."""
    for each in world.many(512):
        made = new_pod(f"odd-{number}-{each}", ATTACKER, gpus=1)
        for amounts in made["spec"]["containers"][0]["resources"].values():
            amounts["memory"] = f"{1000 * number + each + 1}Mi"
        world.created("Pod", "", made)


def _odd_requests(world: World, number: int) -> None:
    """A pod with a forged decision that asks for what none has asked for yet."""
    made = new_pod(f"odd-{number}", OUTSIDE, gpus=1)
    for amounts in made["spec"]["containers"][0]["resources"].values():
        amounts[f"example.com/kind-{number}"] = "1"
    world.gone(world.seen(forged(made, world.nodes[0])))


def _all_odd_requests(world: World) -> None:
    for number in world.many(1_200):
        _odd_requests(world, -1 - number)


def _odd_amount(world: World, number: int) -> None:
    made = new_pod(f"odd-{number}", OUTSIDE)
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{number + 1}m"
    world.gone(world.seen(made, node=world.nodes[number % len(world.nodes)]))


def _object(name: str, spec: Json, namespace: str = OUTSIDE) -> Json:
    return {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": spec, "status": {}}


def _claims(world: World) -> None:
    for number in world.many(10_000):
        world.state.seen("persistentvolumeclaims", _object(f"claim-{number}", {"storageClassName": "local"}), world.now)
    world.state.complete("persistentvolumes", set(), world.now)


def _another_claim(world: World, number: int) -> None:
    spec = {"storageClassName": "local", "resources": {"requests": {"storage": f"{number + 1}Gi"}}}
    world.state.seen("persistentvolumeclaims", _object("claim-0", spec), world.now)


def _autoscalers(world: World) -> None:
    for number in world.many(5_000):
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "llama-0001"}
        spec = {"maxReplicas": number + 1, "scaleTargetRef": target}
        world.state.seen("horizontalpodautoscalers", _object(f"scaler-{number}", spec), world.now)
    world.state.complete("horizontalpodautoscalers", {*world.state.known("horizontalpodautoscalers")}, world.now)


def _jobs(world: World) -> None:
    for number in world.many(10_000):
        made = _object(f"job-{number}", {"parallelism": 100_000, "completions": 100_000})
        made["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-uid": "one"}
        world.state.seen("jobs", made, world.now)


COSTS: Final[dict[str, Cost]] = {
    "nothing": Cost(),
    "64 waiting pods with 8 terms of affinity, 32 running ones with 8 of anti-affinity, about all pods": Cost(
        _pod_terms
    ),
    "2,000 pods that wait for one node each": Cost(_confined),
    "5,000 pods on nodes that do not exist": Cost(_on_unknown_nodes),
    "another pod on a node that does not exist before each review": Cost(before_each=_on_another_unknown_node),
    "a pod that selects by 160 labels of nodes before each review": Cost(
        before_each=_selects_by_all_labels, cluster=_many_labels
    ),
    "512 shapes of pods before each review": Cost(before_each=_another_shape),
    "1,200 kinds of pods that nobody else has, another before each review": Cost(_all_odd_requests, _odd_requests),
    "another odd amount of CPU on a node before each review": Cost(before_each=_odd_amount),
    "10,000 claims of volumes, of which one changes before each review": Cost(_claims, _another_claim),
    "5,000 HorizontalPodAutoscalers that name another's Deployment": Cost(_autoscalers),
    "10,000 Jobs of one JobSet": Cost(_jobs),
} | tenant_claims.COSTS

# --- what others get --------------------------------------------------------------------------------------------------------


def _popular(world: World) -> float:
    """The weight of the pods of 8 GPUs among the kinds of pods by which `pack` values nodes."""
    popular = world.state.request_counts.popular({}, (GPU,))
    return float(sum([each.weight for each in popular if each.pod_requests.amount(GPU) == 8]))


def _large_jobs(world: World) -> None:
    for number in range(64):
        world.seen(new_pod(f"large-{number}", NAMESPACE, gpus=8, owner="large"), node=world.nodes[number % 40])


def _never_ran(world: World) -> None:
    for number in world.many(8_192):
        world.gone(world.seen(forged(new_pod(f"short-{number}", OUTSIDE, gpus=7), world.nodes[0])))


def _run(world: World) -> None:
    for number in world.many(8_192):
        world.seen(new_pod(f"small-{number}", OUTSIDE, gpus=7), node=world.nodes[number % 40])


def _refused(world: World, number: int, namespace: str, gpus: int, owner: str = "") -> None:
    """A pod that reserves a node and is then refused, so that it is never stored."""
    made = new_pod(f"refused-{number}", namespace, gpus=gpus, owner=owner)
    made["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    stored = world.asked(made)
    world.created("Pod", "", stored)


def _refused_of_two_namespaces(world: World) -> None:
    for number in range(40):
        _refused(world, number, (ATTACKER, ACCOMPLICE)[number % 2], gpus=1)


def _burst(world: World, count: int = 32) -> float:
    """Of replicas that come before the watch shows any, how many have a first choice of their own."""
    names = {world.choice(new_pod(f"replica-{number}", NAMESPACE, gpus=8, owner="burst")) for number in range(count)}
    return float(len(names - {""}))


def _some_run(world: World) -> None:
    for number in range(8):
        world.gone(
            world.seen(world.asked(new_pod(f"ran-{number}", NAMESPACE, gpus=1, owner="burst")), world.nodes[number])
        )
        world.seen(world.asked(new_pod(f"runs-{number}", NAMESPACE, gpus=1, owner="burst")), world.nodes[number % 2])


def _many_owners(world: World) -> None:
    for number in world.many(4_200):
        world.gone(world.seen(forged(new_pod(f"own-{number}", OUTSIDE, gpus=1), world.nodes[0])))


def _forged_then_refused(world: World) -> None:
    for number in range(200):
        world.gone(world.seen(forged(new_pod(f"forged-{number}", ATTACKER, owner="forger"), world.nodes[number % 40])))
    for number in range(120):
        _refused(world, number, ATTACKER, gpus=8, owner="forger")


def _wait_for_ever(gpus: int) -> Callable[[World], None]:
    """The scheduler does not look at a pod whose claim does not exist, so it does not say that it is unschedulable."""
    claims: list[Any] = [{"name": "gpu", "resourceClaimName": "missing"}]

    def leave(world: World) -> None:
        for number, node in enumerate(world.nodes):
            made = new_pod(f"claims-{number}", OUTSIDE, gpus=gpus, resourceClaims=claims)
            for amounts in made["spec"]["containers"][0]["resources"].values():
                amounts["cpu"] = "2048"
            world.seen(forged(made, node))

    return leave


def _free(world: World) -> float:
    """How many pods that need a whole node get one."""
    count = 0
    for number in range(40):
        stored = world.asked(new_pod(f"whole-{number}", NAMESPACE, gpus=8))
        node = world.choice(new_pod(f"whole-too-{number}", NAMESPACE, gpus=8))
        count += bool(node)
        if node:
            world.seen(stored, node=node)
    return float(count)


def _in_anothers_name(world: World) -> None:
    """The pods that run in half of the nodes say that they belong to another tenant's ReplicaSet."""
    for number in range(20):
        world.gone(_RUNNING.pop(f"running-{number}"))
        _RUNNING[f"running-{number}"] = world.seen(
            new_pod(f"running-{number}", OUTSIDE, gpus=1, owner="serving-rs"), node=world.nodes[number]
        )


_RUNNING: dict[str, Json] = {}


def _half_used(world: World) -> None:
    for number in range(20):
        _RUNNING[f"running-{number}"] = world.seen(
            new_pod(f"running-{number}", OUTSIDE, gpus=1), node=world.nodes[number]
        )


def _first_on_used_nodes(world: World) -> float:
    """Of replicas that are kept apart, how many go to a node that is used already, so that whole nodes stay free."""
    used, count = {*world.nodes[:20]}, 0
    for number in range(16):
        made = new_pod(f"serving-{number}", NAMESPACE, gpus=1, owner="serving-rs")
        made["metadata"]["labels"]["workload-type"] = "inference"
        count += world.choice(made) in used
    return float(count)


OUTCOMES: Final[dict[str, Outcome]] = {
    "8,192 pods of 7 GPUs, created and deleted": Outcome(
        _popular, "weight of others' kinds of pods", _never_ran, before=_large_jobs
    ),
    "8,192 pods of 7 GPUs that run": Outcome(_popular, "weight of others' kinds of pods", _run, 0.5, _large_jobs),
    "40 refused pods of two namespaces": Outcome(
        _burst, "first choices of 32 replicas", _refused_of_two_namespaces, 0.5
    ),
    "4,200 pods without an owner, created and deleted": Outcome(
        _burst, "first choices of 32 replicas", _many_owners, before=_some_run
    ),
    "200 forged CPU pods, created and deleted, then 120 refused": Outcome(
        _free, "whole nodes of 40", _forged_then_refused, 0.5
    ),
    "40 forged GPU pods that wait for a claim": Outcome(_free, "whole nodes of 40", _wait_for_ever(8), 0.5),
    "40 forged CPU pods that wait for a claim": Outcome(_free, "whole nodes of 40", _wait_for_ever(0), 0.5),
    "20 pods that name another's ReplicaSet as their owner": Outcome(
        _first_on_used_nodes, "of 16 replicas, on used nodes", _in_anothers_name, before=_half_used
    ),
} | tenant_claims.OUTCOMES

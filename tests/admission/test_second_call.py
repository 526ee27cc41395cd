"""Another webhook changes the pod after us, and the API server calls us again: what the first call wrote is decided anew.

The pods are as the real webhooks leave them: JobSet pkg/webhooks/pod_webhook.go, LeaderWorkerSet pkg/webhooks/pod_webhook.go,
Kueue pkg/controller/jobs/pod/pod_webhook.go; a sidecar as Istio injects it.
Over 500 lines, since each webhook that comes after ours leaves another pod.
Covers admission.earlier.
"""

import copy
import hashlib
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GPU
from tests.controlplane.nodes import node
from tests.controlplane.objects import PREFERRED, REQUIRED
from tests.served import NOW, PROFILES, Server, after, plain_pod
from tests.state.objects import facts, state
from tests.strategies import ZONE, pods
from webhook.kube.pod import DECISION, PROFILE_LABEL, Pod

HOST, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/rack"
SPREAD = "topologySpreadConstraints"
LWS = "leaderworkerset.sigs.k8s.io"
LWS_KEYS = f"{LWS}/group-key", f"{LWS}/subgroup-key"
Hook = Callable[[Pod], None]
"""What another webhook does to a pod."""


def racks(gpus: int = 8, **taken: int) -> Server:
    """Racks r1 with a1 and a2, r2 with b1 and b2."""
    made = state([node(n, gpus, zone="z" + n[1], labels={RACK: f"r{n[0]}"}) for n in ("a1", "a2", "b1", "b2")], now=NOW)
    for name, value in (("gpu-inference", 3), ("gpu-service", 2), ("gpu-training", 2), ("gpu-development", 1)):
        made.priority_classes.seen({"metadata": {"name": name}, "value": value})
    made.priority_classes.seen({"metadata": {"name": "everyday"}, "value": 7, "globalDefault": True})
    for profile in PROFILES:
        made.namespaces.seen({"metadata": {"name": profile, "labels": {PROFILE_LABEL: profile}}})
    return Server(made)


class Twice:
    """A pod after the first call, and after the second one; in between `hook` changed it."""

    def __init__(self, before: Pod, hook: Hook, namespace: str = "default", server: Server | None = None) -> None:
        self.server = server or racks()
        self.first = after(self.server.mutate(before, namespace=namespace), before)
        changed = copy.deepcopy(self.first)
        hook(changed)
        self.changed = copy.deepcopy(changed)
        response = self.server.mutate(changed, namespace=namespace, uid="u-2")
        self.second = after(response, changed)
        third = self.server.mutate(self.second, namespace=namespace, uid="u-3")
        assert after(third, self.second) == self.second, "three times is twice"

    @property
    def nodes(self) -> list[str]:
        """The nodes that it prefers now, by name."""
        terms = affinity(self.second).get("nodeAffinity", {}).get(PREFERRED, [])
        return [name for term in terms if (name := named(term["preference"]))]

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.second["metadata"]["annotations"][DECISION])
        return found


def named(term: dict[str, Any]) -> str:
    fields = [*term.get("matchFields", ()), *term.get("matchExpressions", ())]
    return next((each["values"][0] for each in fields if each["key"] in ("metadata.name", HOST)), "")


def affinity(found: Pod) -> dict[str, Any]:
    return found["spec"].get("affinity") or {}


def labelled(**labels: str) -> Hook:
    return lambda found: found["metadata"]["labels"].update(labels)


# --- what they do -----------------------------------------------------------------------------------------------------


def sidecar(found: Pod) -> None:
    """As Istio: labels that nobody here reads, an annotation, a container without GPUs and volumes."""
    found["metadata"]["labels"] |= {"security.istio.io/tlsMode": "istio", "service.istio.io/canonical-name": "web"}
    found["metadata"]["annotations"]["sidecar.istio.io/status"] = "{}"
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    found["spec"].setdefault("initContainers", []).insert(
        0, {"name": "istio-proxy", "image": "i", "restartPolicy": "Always", "resources": resources}
    )
    found["spec"].setdefault("volumes", []).append({"name": "istio-envoy", "emptyDir": {}})


def jobset_leader(found: Pod) -> None:
    """Exclusive placement, completion index 0: setExclusiveAffinities."""
    job = {"key": "jobset.sigs.k8s.io/job-key", "values": ["k"]}
    near = {"labelSelector": {"matchExpressions": [{**job, "operator": "In"}]}, "topologyKey": RACK}
    far = {"labelSelector": {"matchExpressions": [{**job, "operator": "NotIn"}]}, "topologyKey": RACK}
    found["metadata"]["labels"]["jobset.sigs.k8s.io/priority"] = str(found["spec"].get("priority"))
    of = found["spec"].setdefault("affinity", {})
    of.setdefault("podAffinity", {}).setdefault(REQUIRED, []).append(near)
    of.setdefault("podAntiAffinity", {}).setdefault(REQUIRED, []).append(far)


def jobset_follower(rack: str) -> Hook:
    """The others of a Job follow their leader: setNodeSelector."""

    def hook(found: Pod) -> None:
        found["spec"].setdefault("nodeSelector", {})[RACK] = rack

    return hook


def kueue(found: Pod) -> None:
    """A namespace with a default queue: the pod gets its label, is managed and gated."""
    found["metadata"]["labels"] |= {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/managed": "true"}
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
    found["spec"].setdefault("schedulingGates", []).extend(gates)


def sha1(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def lws_leader(found: Pod) -> None:
    of = found["metadata"]
    of["labels"] |= {f"{LWS}/group-index": "0", LWS_KEYS[0]: sha1(f"default/{of.get('name', '')}")}
    if f"{LWS}/subgroup-size" in of["annotations"]:
        of["labels"][LWS_KEYS[1]] = sha1(f"{of['name']}/0")
    found["spec"]["subdomain"] = of.get("name", "llama-0")


def own_affinity(found: Pod) -> None:
    """A policy of Kyverno that writes the affinity as a whole."""
    term = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["rb"]}]}
    found["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def jobset_pod(**tweaks: Any) -> Pod:
    labels = {"jobset.sigs.k8s.io/jobset-uid": "j", "jobset.sigs.k8s.io/job-key": "k"}
    return plain_pod(**{"labels": labels, "owned_by": "Job", "priority": 7, **tweaks})


def lws_pod(gpus: int = 8, group: int = 0, size: int = 2, subgroup: int = 0) -> Pod:
    """The leader of a group, as the StatefulSet makes it."""
    labels = {f"{LWS}/name": "llama", f"{LWS}/worker-index": "0", "controller-revision-hash": "llama-1"}
    annotations = {f"{LWS}/size": str(size)} | ({f"{LWS}/subgroup-size": str(subgroup)} if subgroup else {})
    return plain_pod(name=f"llama-{group}", gpus=gpus, labels=labels, annotations=annotations, owned_by="StatefulSet")


def lws_worker(leader: Pod, index: int, subgroup: int) -> tuple[Pod, Hook]:
    """A worker of the group of this leader, by its metadata, as its StatefulSet makes it; and what the webhook adds."""
    made, name = lws_pod(), leader["name"]
    made["metadata"]["name"] = f"{name}-{index}"
    made["metadata"]["ownerReferences"][0]["uid"] = name
    made["metadata"]["labels"] = {key: leader["labels"][key] for key in (f"{LWS}/name", LWS_KEYS[0])}
    made["metadata"]["annotations"] = {key: text for key, text in leader["annotations"].items() if key.startswith(LWS)}
    made["metadata"]["annotations"][f"{LWS}/leader-name"] = name
    added = {LWS_KEYS[1]: sha1(f"{name}/{index // subgroup}")} if subgroup else {}
    return made, labelled(**added, **{f"{LWS}/worker-index": str(index)})


def forbids(*racks: str) -> Hook:
    def hook(found: Pod) -> None:
        term = {"matchExpressions": [{"key": RACK, "operator": "NotIn", "values": [*racks]}]}
        of = found["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        of[REQUIRED] = {"nodeSelectorTerms": [term]}

    return hook


def nothing(found: Pod) -> None:
    """It did something and took it back."""


@pytest.mark.parametrize(
    ("before", "hook"),
    [
        pytest.param(plain_pod(), sidecar, id="nothing that is read"),
        pytest.param(
            jobset_pod(),
            labelled(**{"jobset.sigs.k8s.io/priority": "2"}),
            id="the priority label of any pod of a JobSet",
        ),
        pytest.param(jobset_pod(), nothing, id="nothing at all"),
    ],
)
@pytest.mark.parametrize("namespace", ["default", "pinned"])
def test_what_is_not_read_changes_nothing(before: Pod, hook: Hook, namespace: str) -> None:
    found = Twice(before, hook, namespace)
    for one in (found.changed, found.second):  # a new container without a GPU gets its variable
        one["metadata"]["annotations"].pop(DECISION)
        one["spec"].pop("initContainers", None)
    assert found.second == found.changed
    assert len(list(found.server.state.ledger.holders())) == 1


@pytest.mark.parametrize(
    ("before", "hook", "nodes"),
    [
        pytest.param(
            jobset_pod(), jobset_follower("rb"), {"b1", "b2"}, id="a follower of a JobSet goes where its leader is"
        ),
        pytest.param(plain_pod(), forbids("ra"), {"b1", "b2"}, id="a required affinity that another hook adds"),
        pytest.param(plain_pod(), own_affinity, {"b1", "b2"}, id="an affinity that another hook writes as a whole"),
        pytest.param(jobset_pod(), jobset_leader, set(), id="the leader of a JobSet: others say what it is near"),
        pytest.param(jobset_pod(), kueue, set(), id="a queue"),
        pytest.param(
            plain_pod(),
            lambda found: found["spec"].update(schedulerName="kai-scheduler"),
            set(),
            id="another scheduler",
        ),
    ],
)
@pytest.mark.parametrize("namespace", ["default", "pinned"])
def test_nodes_are_chosen_anew(before: Pod, hook: Hook, nodes: set[str], namespace: str) -> None:
    found = Twice(before, hook, namespace)
    if namespace == "default":
        assert set(found.nodes) == nodes
    else:
        terms = affinity(found.second).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
        assert {name for term in terms if (name := named({**term, "matchExpressions": []}))} == set(sorted(nodes)[:1])
    assert {entry[0] for entry in found.record.get("nodes", ())} == nodes


@pytest.mark.parametrize(
    ("before", "hook"),
    [
        pytest.param(jobset_pod(), jobset_leader, id="the leader of a JobSet"),
        pytest.param(jobset_pod(), kueue, id="a queue"),
        pytest.param(plain_pod(), kueue, id="a queue, for a replica"),
        pytest.param(plain_pod(), jobset_leader, id="pod affinity, for a replica"),
    ],
)
@pytest.mark.parametrize("namespace", ["default", "pinned", "apart", "pools"])
def test_nothing_is_left_of_what_no_longer_holds(before: Pod, hook: Hook, namespace: str) -> None:
    """As for a pod that had come so."""
    found, at_once = Twice(before, hook, namespace), copy.deepcopy(before)
    at_once["metadata"].setdefault("annotations", {})
    hook(at_once)
    once = after(racks().mutate(at_once, namespace=namespace), at_once)
    left = {kind: what for kind, what in affinity(found.second).items() if what}
    assert left == {kind: what for kind, what in affinity(once).items() if what}
    assert found.second["spec"].get(SPREAD) == once["spec"].get(SPREAD)


def test_a_leader_of_a_leaderworkerset_is_one_of_a_gang() -> None:
    """Though only its second call has the label of the group: the first decides as if it were there."""
    server = racks()
    found = Twice(lws_pod(), lws_leader, server=server)
    assert found.second["metadata"]["labels"].keys() >= {LWS_KEYS[0]}
    assert found.first["spec"] | {"subdomain": "llama-0"} == found.second["spec"]
    assert found.record["units"]["topologySpread"] == ["gang"]
    assert "left" not in found.record
    assert len(list(server.state.ledger.holders())) == 1
    assert len({name[0] for name in found.nodes[:2]}) == 1, "one rack has room for the group"


@pytest.mark.parametrize(
    ("groups", "size", "subgroup"),
    [pytest.param(3, 2, 0, id="as many groups as racks"), pytest.param(1, 6, 2, id="a group of as many subgroups")],
)
def test_leaders_and_workers_that_come_at_once_have_a_rack_for_each_group(
    groups: int, size: int, subgroup: int
) -> None:
    """None of them is in the watch yet."""
    server = racks()
    for name in ("c1", "c2"):
        server.state.node_seen(node(name, zone="zc", labels={RACK: "rc"}))
    racks_of: dict[str, set[str]] = defaultdict(set)

    def comes(made: Pod, hook: Hook) -> Pod:
        found = Twice(made, hook, server=server)
        racks_of[found.second["metadata"]["labels"][LWS_KEYS[bool(subgroup)]]].add(found.nodes[0][0])
        return found.second["metadata"]

    for leader in [comes(lws_pod(8, group, size, subgroup), lws_leader) for group in range(groups)]:
        for index in range(1, size):
            comes(*lws_worker(leader, index, subgroup))
    assert sorted(map(sorted, racks_of.values())) == [["a"], ["b"], ["c"]]


def test_a_leader_of_a_leaderworkerset_goes_where_its_group_has_room() -> None:
    """The node with most room is in a rack that has none for its worker."""
    server = racks()
    server.state.node_seen(node("a2", 4, labels={RACK: "ra"}))
    server.state.node_seen(node("b3", 8, labels={RACK: "rb"}))
    found = Twice(lws_pod(), lws_leader, server=server)
    assert found.nodes[0].startswith("b")


FORGED = [
    pytest.param({f"{LWS}/name": "x", f"{LWS}/worker-index": "0"}, "StatefulSet", id="a leader"),
    pytest.param(
        {f"{LWS}/name": "x", LWS_KEYS[0]: sha1("other/llama-0")}, "StatefulSet", id="a worker of another group"
    ),
    pytest.param({f"{LWS}/name": "x", LWS_KEYS[1]: "k"}, "StatefulSet", id="a subgroup"),
    pytest.param({"jobset.sigs.k8s.io/jobset-uid": "of another namespace"}, "Job", id="a JobSet"),
    pytest.param({"ray.io/worker-group-replica-name": "r"}, "RayCluster", id="a replica of hosts"),
    pytest.param({"scheduling.x-k8s.io/pod-group": "g", "scheduling.k8s.io/group-name": "g"}, "Job", id="a pod group"),
    pytest.param(
        {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/pod-group-name": "g"}, "Job", id="what Kueue manages"
    ),
]
"""Labels and a controller that anybody can write."""


@pytest.mark.parametrize(("labels", "owner"), FORGED)
@pytest.mark.parametrize("size", ["100000", "999999999", "-1", "x"])
def test_a_forged_group_holds_no_more_than_its_own_demand(labels: dict[str, str], owner: str, size: str) -> None:
    """Not the domain that the group would fill; and it has peers in its own namespace only."""
    server = racks()
    annotations = {f"{LWS}/{key}": size for key in ("size", "subgroup-size")}
    forged = plain_pod(name="llama-0", gpus=1, labels=labels, annotations=annotations, owned_by=owner)
    free = sum(each[GPU] for each in facts(server.state)["free"].values())
    Twice(forged, nothing, server=server)
    after_it = facts(server.state)
    assert free - sum(each[GPU] for each in after_it["free"].values()) == ("kueue.x-k8s.io/managed" not in labels)
    assert all(key.startswith("default/") for key, _ in after_it["peers"])


@pytest.mark.parametrize(
    ("hook", "left"),
    [
        pytest.param(
            kueue,
            {"priorityClassName": "everyday", "priority": 7, "preemptionPolicy": "PreemptLowerPriority"},
            id="a queue",
        ),
        pytest.param(
            lambda found: found["spec"].update(schedulerName="kai-scheduler"),
            {"priorityClassName": "everyday", "priority": 7, "preemptionPolicy": "PreemptLowerPriority"},
            id="KAI",
        ),
        pytest.param(
            labelled(**{"workload-type": "development"}),
            {"priorityClassName": "gpu-development", "priority": 10, "preemptionPolicy": "PreemptLowerPriority"},
            id="a class that a label asks for",
        ),
        pytest.param(
            sidecar,
            {"priorityClassName": "gpu-training", "priority": 20, "preemptionPolicy": "PreemptLowerPriority"},
            id="what is not read",
        ),
    ],
)
def test_a_priority_class_that_we_gave_is_decided_anew(hook: Hook, left: dict[str, Any]) -> None:
    """A guess made it gpu-training, in place of the globalDefault."""
    default = {"priorityClassName": "everyday", "priority": 7, "preemptionPolicy": "PreemptLowerPriority"}
    found = Twice(jobset_pod(**default), hook, server=no_default_loss())
    assert found.first["spec"]["priorityClassName"] == "gpu-training"
    assert {key: found.second["spec"].get(key) for key in left} == left


def no_default_loss() -> Server:
    """Classes above the globalDefault, so that a guess may give them."""
    server = racks()
    for name, value in (("gpu-training", 20), ("gpu-development", 10)):
        server.state.priority_classes.seen({"metadata": {"name": name}, "value": value})
    return server


def test_a_container_that_gets_a_gpu_after_us_may_use_it() -> None:
    """The container's own env outweighs what the device plugin sets. What its author wrote there stays."""
    void = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]

    def hook(found: Pod) -> None:
        sidecar(found)
        found["spec"]["containers"][1]["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}

    own = {**plain_pod()["spec"]["containers"][0], "env": void}
    others = [
        {"name": "side", "image": "i"},
        {"name": "idle", "image": "i"},
        {"name": "mine", "image": "i", "env": void},
    ]
    found = Twice(plain_pod(containers=[own, *others]), hook)
    assert [each["env"] for each in found.first["spec"]["containers"]] == [void] * 4
    assert [each.get("env") for each in found.second["spec"]["containers"]] == [void, None, void, void]
    assert found.record["units"]["voidDevices"] == ["added", ["idle", "istio-proxy"]]


def test_a_pod_that_stays_on_its_node_is_reserved_once() -> None:
    """The selector that is added leaves the node that was chosen, which is full with what is reserved there."""
    server = racks()
    before = jobset_pod(gpus=8)
    free = facts(server.state)["free"]
    found = Twice(before, jobset_follower("ra"), server=server)
    assert found.nodes[0] == named(affinity(found.first)["nodeAffinity"][PREFERRED][0]["preference"]) == "a1"
    taken = [name for name, now in facts(server.state)["free"].items() if now != free[name]]
    assert taken == ["a1"]
    assert len(list(server.state.ledger.holders())) == 1


def test_terms_that_another_hook_adds_stay() -> None:
    term = {"weight": 50, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}

    def hook(found: Pod) -> None:
        kueue(found)
        affinity(found)["nodeAffinity"][PREFERRED].append(term)

    assert affinity(Twice(jobset_pod(), hook).second)["nodeAffinity"][PREFERRED] == [term]


# --- and others -------------------------------------------------------------------------------------------------------

SPOT = {"weight": 50, "preference": {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["rb"]}]}}
"""What a policy of Kyverno or Gatekeeper may prefer."""


def set_resources(**requests: str) -> Hook:
    """As the VerticalPodAutoscaler."""

    def hook(found: Pod) -> None:
        found["metadata"]["annotations"]["vpaUpdates"] = "container 0: cpu request, memory request"
        found["spec"]["containers"][0]["resources"].setdefault("requests", {}).update(requests)

    return hook


def prefers_spot(found: Pod) -> None:
    affinity(found)["nodeAffinity"][PREFERRED].append(SPOT)


def reorders(found: Pod) -> None:
    for kind in ("tolerations", SPREAD):
        found["spec"].get(kind, []).reverse()
    affinity(found)["nodeAffinity"][PREFERRED].reverse()


def gated(found: Pod) -> None:
    """As the Multiarch Tuning Operator: it adds affinity later, and takes its gate away."""
    found["spec"]["schedulingGates"] = [{"name": "multiarch.openshift.io/scheduling-gate"}]


def forgets(*annotations: str) -> Hook:
    def hook(found: Pod) -> None:
        for name in annotations:
            del found["metadata"]["annotations"][name]

    return hook


def lacks_tolerations(found: Pod) -> None:
    """It writes the list as a whole."""
    found["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("hook", "nodes"),
    [
        pytest.param(set_resources(cpu="4", memory="8Gi"), ["a1"], id="more CPU, of which there is enough"),
        pytest.param(reorders, ["a1"], id="another order of the same"),
        pytest.param(prefers_spot, ["b1"], id="a preference of somebody else"),
        pytest.param(gated, [], id="a gate"),
        pytest.param(forgets(DECISION), ["a1"], id="no record any more: what we wrote counts as the author's"),
    ],
)
def test_where_a_packed_pod_goes_after_others(hook: Hook, nodes: list[str]) -> None:
    assert Twice(jobset_pod(), hook).record.get("nodes", [[]])[0][:1] == nodes


def test_what_another_hook_takes_away_is_given_again() -> None:
    found = Twice(plain_pod(), lacks_tolerations)
    keys = [each["key"] for each in found.second["spec"]["tolerations"]]
    assert keys == ["team", GPU]
    assert found.nodes[0] == named(affinity(found.first)["nodeAffinity"][PREFERRED][0]["preference"])


def test_a_class_that_another_hook_asks_for_is_packed() -> None:
    found = Twice(plain_pod(), labelled(**{"workload-type": "training"}))
    assert len(found.first["spec"][SPREAD]) == 2
    (left,) = found.second["spec"][SPREAD]
    assert left["labelSelector"] == {"matchLabels": {"gpu-admission.io/selects": "nothing"}}
    assert found.record["strategy"] == "pack"


def test_a_class_that_another_hook_asks_for_is_spread() -> None:
    found = Twice(
        plain_pod(labels={"workload-type": "training", "pod-template-hash": "5f6d"}),
        labelled(**{"workload-type": "inference"}),
    )
    assert [each["topologyKey"] for each in found.second["spec"][SPREAD]] == [HOST, ZONE]


CHANGES = {
    "leads": jobset_leader,
    "follows": jobset_follower("rb"),
    "queue": kueue,
    "group": lws_leader,
    "class": labelled(**{"workload-type": "training"}),
    "gate": gated,
    "scheduler": lambda found: found["spec"].update(schedulerName="kai-scheduler"),
}


@given(pods(), st.sampled_from(PROFILES), st.sampled_from(sorted(CHANGES)))
def test_a_second_call_decides_as_for_a_pod_that_had_come_so(before: Pod, namespace: str, change: str) -> None:
    """Of what is decided anew: affinity, spread and priority."""
    at_once = copy.deepcopy(before)
    at_once["spec"] |= {"priorityClassName": "everyday", "priority": 7, "preemptionPolicy": "PreemptLowerPriority"}
    for part in ("labels", "annotations"):
        if not isinstance(before["metadata"].get(part, {}), dict):
            return
        at_once["metadata"].setdefault(part, {})
    server = no_default_loss()
    first = server.mutate(at_once, namespace=namespace)
    if not first["allowed"]:
        return
    changed, plain = after(first, at_once), at_once
    try:
        CHANGES[change](changed)
        CHANGES[change](plain)
    except (AttributeError, TypeError):  # a null where the real webhook has a map
        return
    second = after(server.mutate(changed, namespace=namespace, uid="u-2"), changed)
    once = after(no_default_loss().mutate(plain, namespace=namespace), plain)
    assert decided(second) == decided(once)


def decided(found: Pod) -> dict[str, Any]:
    spec = found["spec"]
    own = {
        kind: {part: entries for part, entries in (what or {}).items() if entries}
        for kind, what in affinity(found).items()
    }
    return {
        "affinity": {kind: what for kind, what in own.items() if what},
        "spread": spec.get(SPREAD) or [],
        **{key: spec.get(key) for key in ("priorityClassName", "priority", "preemptionPolicy")},
    }


@pytest.mark.parametrize(
    "hook", [jobset_leader, jobset_follower("rb")], ids=["no node is chosen any more", "another node"]
)
def test_once_the_pod_is_there_its_first_choice_holds_nothing(hook: Hook) -> None:
    """The others of its group find the room that it left."""
    twice = Twice(jobset_pod(), hook)
    left = json.loads(twice.first["metadata"]["annotations"][DECISION])["nodes"][0][0]
    assert (twice.record["left"], left in twice.nodes) == ("a1", False)
    state = twice.server.state
    twice.second["metadata"] |= {"namespace": "default", "name": "p-1", "uid": "u-9"}
    state.pod_seen(twice.second, NOW)
    assert [state.nodes.columns.name[row] for row, _ in state.ledger.holders("default")] == twice.nodes[:1]

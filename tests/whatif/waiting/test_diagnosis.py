"""The causes of waiting that tests/e2e/test_pending.py does not make on a real scheduler. Over 500 lines, since all of them are
causes of one diagnosis.

Covers kube.gangs, kube.suspended, whatif.waiting.claims, whatif.waiting.gangs, whatif.waiting.nodes, whatif.waiting.peers,
whatif.waiting.prerequisites, whatif.waiting.resources, whatif.waiting.situation, whatif.waiting.taints, whatif.waiting.unoffered,
whatif.waiting.volumes, whatif.waiting.workloads.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.objects import CLUSTER, TAKEN, Json, document, placed, snapshot, unschedulable, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import REQUIRED, pod, required
from tests.effort import counted
from tests.whatif.waiting.waits import DEVICE_CLASS, answer, claiming, held, mounting, obj, waiting
from webhook.errors import BadInput
from webhook.kube.pod import KUEUE
from webhook.whatif.answers import answers, asked
from webhook.whatif.offline import load_policy
from webhook.whatif.waiting.causes import Cause, Fix, ordered

GROUP = {"schedulingGroup": {"podGroupName": "ring"}}
GANG = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
BY_LABEL = {"scheduling.x-k8s.io/pod-group": "ring"}
BY_LABELS = {"pod-group.scheduling.sigs.k8s.io": "ring", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
NEVER = {"priority": 10, "preemptionPolicy": "Never", "priorityClassName": "polite"}
LIKE_A_CLASS = "deviceclass.resource.kubernetes.io/dc"
ONLY_A = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}
ON_A = {"allocation": {"devices": {"results": []}, "nodeSelector": ONLY_A}}
STRANGE = unschedulable("0/1 nodes are available: 1 node(s) had strange hats.")
MANY = {"affinity": required(*["x", "In", *[str(number) for number in range(5000)]])}


def by(kind: str, name: str, uid: str, made: Json) -> Json:
    """The object, made by this controller."""
    reference = {"kind": kind, "name": name, "uid": uid, "controller": True}
    return made | {"metadata": made["metadata"] | {"ownerReferences": [reference]}}


def of_kueue(kind: str, name: str) -> Json:
    """What Kueue makes of an object that it is to start."""
    return obj("KueueWorkload", "w", metadata={"ownerReferences": [{"kind": kind, "name": name}]})


def event(kind: str, name: str, message: str) -> Json:
    about = {"kind": kind, "namespace": "team", "name": name}
    return obj("Event", f"e-{name}", involvedObject=about, reason="FailedCreate", message=message)


REFUSAL = 'Error creating: admission webhook "pods.gpu-admission.io" denied the request: pod generateName "chat-": spec.hostPID'
CASES = [
    pytest.param("podGroupMissing", 'PodGroup "ring" does not exist', [node("n"), waiting(**GROUP)], id="no group"),
    pytest.param("gangIncomplete", 'gang "ring" wants 4 pods, and 1 pod of it exist', [node("n"), obj("PodGroup", "ring", **GANG), waiting(**GROUP)], id="a gang that lacks pods"),
    pytest.param("gangIncomplete", 'gang "ring" starts 3 pods at once, and there is room for 2: node n', [node("n"), obj("PodGroup", "ring", **GANG), held(1, "n", **GROUP), *[placed(pod(f"w{n}", 3, **GROUP), None) for n in range(2)], waiting(3, **GROUP)], id="a gang for which there is too little room"),
    pytest.param("gangIncomplete", 'gang "ring" wants 2 pods, and 1 pod of it exist', [node("n"), waiting(labels=BY_LABELS)], id="a gang by labels"),
    pytest.param("gangIncomplete", 'gang "ring" wants 3 pods, and 1 pod of it exist', [node("n"), obj("VolcanoPodGroup", "ring", {"minMember": 3}), waiting(annotations={"scheduling.k8s.io/group-name": "ring"})], id="a gang of Volcano"),
    pytest.param("gangIncomplete", 'gang "ring" wants 3 pods, and 1 pod of it exist', [node("n"), obj("KaiPodGroup", "ring", {"minMember": 3}), waiting(annotations={"pod-group-name": "ring"})], id="a gang of KAI"),
    pytest.param("gangIncomplete", 'gang "ring" starts 2 pods at once, and there is room for 1: node n', [node("n"), obj("KaiPodGroup", "ring", {"minMember": 2}), placed(pod("w", 5, annotations={"pod-group-name": "ring"}), None), waiting(5, annotations={"pod-group-name": "ring"})], id="a gang of KAI for which there is too little room"),
    pytest.param("gangIncomplete", 'gang "ring" starts 2 pods at once, and there is room for 1: node n', [node("n"), obj("PodGroup", "ring", {"minMember": 2}), placed(pod("w", 5, labels=BY_LABEL), None), waiting(5, labels=BY_LABEL)], id="a gang of coscheduling, of a file"),
    pytest.param("preemptionNever", "pods of lower priority hold enough on node n, but priority class polite never preempts", [node("n"), held(8, "n"), waiting(8, **NEVER)], id="a class that never preempts"),
    pytest.param("claimInUse", "ResourceClaim c is used by 256 pods", [node("n"), obj("ResourceClaim", "c", status={"reservedFor": [{}] * 256}), claiming(resourceClaimName="c")], id="a claim of many"),
    pytest.param("refused", '2 pods could not be created: pod generateName "chat-": spec.hostPID', [obj("ReplicaSet", "chat", {"replicas": 2}), event("ReplicaSet", "chat", REFUSAL)], id="a refusal of ours"),
    pytest.param("notCreated", "1 pod could not be created: no ServiceAccount", [obj("Job", "train", {"parallelism": 1}), event("Job", "train", "no ServiceAccount")], id="what else a controller says"),
    pytest.param("noDevice", f"{LIKE_A_CLASS}: 2 devices of dc wanted, and no node has any", [node("n"), DEVICE_CLASS, waiting(2, resource=LIKE_A_CLASS)], id="a device class by the name of its resource"),
    pytest.param("claimMissing", 'spec.resourceClaims "gpu" names no claim and no template', [node("a"), claiming()], id="a claim without a name"),
    pytest.param("claimElsewhere", "the devices of claim c are on node a, not on node n", [node("a", cordoned=True), node("n"), DEVICE_CLASS, obj("ResourceClaim", "c", status=ON_A), claiming(resourceClaimName="c")], id="a claim with devices of another node"),
    pytest.param("noNodes", "the cluster has no node", [waiting()], id="no node"),
    pytest.param("fitsNow", "node n could take it now", [node("n"), waiting()], id="room after all"),
    pytest.param("schedulerOther", "the scheduler also says: node(s) had strange hats", [node("n"), waiting(status=STRANGE)], id="what only a plugin knows"),
    pytest.param("podAffinity", "required pod affinity wants pods with no labelSelector, which selects none, in the same zone: none where node n", [node("n"), waiting(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}})], id="an affinity to no pod"),
    pytest.param("schedulerOther", "it states more about nodes than this program looks at", [node("n"), waiting(**MANY)], id="more than is read"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "text", "objects"), CASES)
def test_the_cause_of_waiting(tmp_path: Path, word: str, text: str, objects: list[Json]) -> None:
    found = answers(snapshot(tmp_path, *objects), load_policy(), None)
    said = {cause.cause: cause for answer in found for cause in answer.causes}
    assert word in said, said
    assert said[word].text.startswith(text)
    assert said[word].fix


@pytest.mark.parametrize(
    ("objects", "word", "fix"),
    [
        pytest.param([node("n", 0), node("m")], "noGpus", "leave these nodes out, by the nodeSelector in the template of daemonset/burn in team", id="without GPUs"),
        pytest.param([node("n"), held(8, "n"), node("m")], "gpusTaken", "wait for pod/on-n in team (8 nvidia.com/gpu on n) to end", id="full"),
    ],
)  # fmt: skip
def test_a_pod_of_a_daemon_set_is_for_one_node(tmp_path: Path, objects: list[Json], word: str, fix: str) -> None:
    """Another node, or a new one, is no help: it has a pod of its own."""
    says = unschedulable(
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    pinned = waiting(status=says, affinity=required("metadata.name", "In", "n", part="matchFields"))
    made = by("DaemonSet", "burn", "d", pinned)
    daemons = obj("DaemonSet", "burn") | {"metadata": {"name": "burn", "namespace": "team", "uid": "d"}}
    (cause,) = answer(tmp_path, *objects, daemons, made).causes
    assert (cause.cause, cause.fix) == (word, fix)


def test_each_pod_that_has_its_answer_is_told(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    waits = [placed(pod(f"w{n}", 3), None) for n in range(3)]
    answers(snapshot(tmp_path, node("n"), *waits), load_policy(), None, lambda done, of: told.append((done, of)))
    assert told == [(0, 3), (1, 3), (2, 3)]


def test_a_refusal_names_its_rules_where_there_is_room_for_no_more(tmp_path: Path) -> None:
    said = (
        f"{REFUSAL}[0]: saw a, wanted b. Do c. [gpuFits]; spec.x[main]: saw a, wanted b. Do d. [deviceEnv] (policy 1)"
    )
    objects = [obj("ReplicaSet", "chat", {"replicas": 2}), event("ReplicaSet", "chat", said)]
    (found,) = answers(snapshot(tmp_path, *objects), load_policy(), None)
    assert found.causes[0].fix == "correct the pod template as gpuFits, deviceEnv say"


def test_the_values_to_choose_from_are_those_of_nodes_with_the_label(tmp_path: Path) -> None:
    found = answer(tmp_path, node("n", labels={"size": "40"}), node("m"), waiting(affinity=required("size", "In", "x")))
    assert found.causes[0].fix.startswith(
        "set spec.affinity.nodeAffinity to 40: node n could take it then (NVIDIA-A100-SXM4-80GB), or label"
    )


@pytest.mark.parametrize(("restarts", "word"), [(None, "fitsNow"), ("Always", "hostPort")])
def test_a_host_port_of_an_init_container_counts_if_that_keeps_running(
    tmp_path: Path, restarts: str | None, word: str
) -> None:
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    first = {"name": "first", "image": "x", "ports": ports, "restartPolicy": restarts}
    other = held(1, "n", container={"ports": ports})
    assert answer(tmp_path, node("n"), other, waiting(initContainers=[first])).causes[0].cause == word


def test_a_selector_is_read_once_and_compared_with_many_pods(tmp_path: Path) -> None:
    """Each tenant writes as many as he likes, and `why -A` looks at all of them."""
    expression = {"key": "app", "operator": "NotIn", "values": [f"v{number}" for number in range(50)]}
    terms = [{"topologyKey": "x", "labelSelector": {"matchExpressions": [expression]}}] * 20

    def calls(pods: int) -> int:
        running = [placed(pod(f"r{number}"), "n") for number in range(pods)]
        waits = waiting(8, affinity={"podAntiAffinity": {REQUIRED: terms}})
        of = snapshot(tmp_path, node("n", 100), *running, waits)
        with counted() as found:
            answers(of, load_policy(), None)
        return found.count

    _, fewer, more = calls(1), calls(20), calls(40)
    assert more - fewer < 20 * len(terms) * 30, "42 where each term was read again for each pod"


def refused_job(number: int) -> Json:
    about = {"kind": "PyTorchJob", "namespace": "team", "name": f"j{number}"}
    now = datetime.fromtimestamp(TAKEN, UTC).isoformat()
    return obj("Event", f"e{number}", involvedObject=about, reason="FailedCreate", message="no", lastTimestamp=now)


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(lambda n: [placed(pod(f"w{n}", 1, labels=BY_LABELS | {"pod-group.scheduling.sigs.k8s.io": f"g{n}"}), None)], id="gangs"),
        pytest.param(lambda n: [refused_job(n), placed(pod(f"r{n}"), "n")], id="workloads that are refused"),
        pytest.param(lambda n: [placed(pod(f"w{n}", 1, labels={"app": f"{n}"}), None)], id="kinds of pods"),
    ],
)  # fmt: skip
def test_what_a_pod_costs_does_not_grow_with_the_number_of_others(
    tmp_path: Path, waits: Callable[[int], list[Json]]
) -> None:
    def calls(number: int) -> int:
        of = snapshot(tmp_path, node("n", 0), *[each for n in range(number) for each in waits(n)])
        _ = of.state  # how it is filled is not counted
        with counted() as found:
            answers(of, load_policy(), None)
        return found.count

    few, more, many = calls(40), calls(80), calls(160)
    assert many - more < 2.5 * (more - few), "4 times as much where each looks at all others"


MADE_OF_A_VOLUME = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}


def test_the_claim_of_an_ephemeral_volume_is_made_by_nobody_else(tmp_path: Path) -> None:
    (cause,) = answer(tmp_path, node("n"), waiting(**MADE_OF_A_VOLUME)).causes
    text = "PersistentVolumeClaim waits-scratch was not made yet of its ephemeral volume"
    assert (*cause[:2], cause.fix) == ("volumeClaimMissing", text, "see why: kubectl describe pod waits -n team")


@pytest.mark.parametrize(("default", "more"), [("true", ""), ("false", ", and no class is the default")])
def test_whether_a_class_is_the_default_is_read(tmp_path: Path, default: str, more: str) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    fast = obj("StorageClass", "fast", metadata={"namespace": "", "annotations": annotations}, provisioner="x")
    claim = obj("PersistentVolumeClaim", "data", status={"phase": "Pending"})
    (cause,) = answer(tmp_path, node("n"), fast, claim, mounting("data")).causes
    assert cause.text == f"PersistentVolumeClaim data is not bound and names no StorageClass{more}"


def test_a_gate_of_kueue_names_no_queue_that_is_not_known(tmp_path: Path) -> None:
    gated = waiting(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    of = of_kueue("Pod", "waits")
    assert answer(tmp_path, node("n"), gated, of).causes[0].text == "Kueue has not admitted it"


def test_the_queue_of_a_gated_pod_is_that_of_what_made_it(tmp_path: Path) -> None:
    train = obj("JobSet", "train", metadata={"uid": "s", "labels": {KUEUE: "gpus"}})
    gated = waiting(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}])
    made, of = by("JobSet", "train", "s", gated), of_kueue("JobSet", "train")
    causes = answer(tmp_path, node("n"), train, made, of).causes
    assert [each.text for each in causes if each.cause in ("queued", "schedulingGate")] == [
        'Kueue has not admitted it from queue "gpus"'
    ]


KUEUES = "see why it has not: kubectl describe workloads.kueue.x-k8s.io -n team"


@pytest.mark.parametrize(
    ("gate", "text", "fix"),
    [
        ("kueue.x-k8s.io/topology", "Kueue takes it away when it has admitted the workload and assigned a topology domain to the pod", KUEUES),
        ("org.instaslice/accelarator", "InstaSlice takes it away when it has a slice of a GPU for the pod", "ask who runs InstaSlice why it has not"),
        ("example.com/stay", "no scheduler looks at it until it is gone", "let the controller that set it remove it, or remove it from spec.schedulingGates"),
    ],
)  # fmt: skip
def test_a_gate_is_left_to_who_takes_it_away(tmp_path: Path, gate: str, text: str, fix: str) -> None:
    (cause,) = answer(tmp_path, node("n"), waiting(schedulingGates=[{"name": gate}])).causes
    assert (*cause[:2], cause.fix) == ("schedulingGate", f"scheduling gate {gate}: {text}", fix)


@pytest.mark.parametrize(
    ("above", "labels", "text", "fix"),
    [
        pytest.param([], {}, "its pods are made when it is resumed", "resume it: kubectl patch job/train-0 --type merge", id="alone"),
        pytest.param([("JobSet", "train")], {}, "jobset/train resumes it", "see why it has not: kubectl describe jobset/train -n team", id="its JobSet"),
        pytest.param([("JobSet", "train"), ("TrainJob", "fit")], {}, "trainjob/fit resumes it", "see why it has not: kubectl describe trainjob/fit -n team", id="the topmost"),
        pytest.param([("JobSet", "train")], {KUEUE: "gpus"}, 'from queue "gpus"', "see what its Workload waits for: kubectl describe workloads.kueue.x-k8s.io -n team", id="in the queue of its JobSet"),
    ],
)  # fmt: skip
def test_a_suspended_job_is_resumed_by_who_made_it(
    tmp_path: Path, above: list[tuple[str, str]], labels: Json, text: str, fix: str
) -> None:
    objects = [obj("Job", "train-0", {"suspend": True})]
    for kind, name in above:
        objects[-1] = by(kind, name, f"{kind}-uid", objects[-1])
        objects.append(obj(kind, name, metadata={"uid": f"{kind}-uid", "labels": labels}))
    (found,) = answers(snapshot(tmp_path, *objects, of_kueue("JobSet", "train")), load_policy(), None)
    assert found.causes[0].text.endswith(text)
    assert found.causes[0].fix.startswith(fix)


SUSPENDED = [
    *[pytest.param(kind, {"suspend": True}, "spec.suspend", '{"spec":{"suspend":false}}', id=kind) for kind in ("Job", "JobSet", "TrainJob", "RayJob", "RayCluster", "SparkApplication", "AppWrapper")],
    *[pytest.param(kind, {"runPolicy": {"suspend": True}}, "spec.runPolicy.suspend", '{"spec":{"runPolicy":{"suspend":false}}}', id=kind) for kind in ("PyTorchJob", "MPIJob", "TFJob", "JAXJob", "XGBoostJob", "PaddleJob")],
    pytest.param("RayService", {"rayClusterConfig": {"suspend": True}}, "spec.rayClusterConfig.suspend", '{"spec":{"rayClusterConfig":{"suspend":false}}}', id="RayService"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spec", "field", "patch"), SUSPENDED)
def test_what_is_suspended_is_found_by_its_name(tmp_path: Path, kind: str, spec: Json, field: str, patch: str) -> None:
    name = f"{kind.lower()}/fit"
    (found,) = asked(snapshot(tmp_path, obj(kind, "fit", spec)), load_policy(), "team", name).answers
    text = f"{field} is true: its pods are made when it is resumed"
    resume = "kubectl", "patch", name, "--type", "merge", "-p", patch, "-n", "team"
    assert found.causes == [Cause.of("suspended", text, Fix("resume it", resume))]
    queued = obj(kind, "fit", spec, metadata={"labels": {KUEUE: "gpus"}})
    (found,) = asked(snapshot(tmp_path, queued, of_kueue(kind, "fit")), load_policy(), "team", name).answers
    assert [each[:2] for each in found.causes] == [("queued", 'Kueue has not admitted it from queue "gpus"')]
    (found,) = asked(snapshot(tmp_path, queued, of_kueue(kind, "other")), load_policy(), "team", name).answers
    nobody = 'nobody starts it: Kueue is to admit it from queue "gpus", and has made no Workload of it'
    assert [each[:2] for each in found.causes] == [("queued", nobody)]
    assert found.causes[0].fixes[0] == Fix("resume it", resume)


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Completed", "status": "True"}]},
        {"conditions": [{"type": "Succeeded", "status": "True"}]},
        {"jobDeploymentStatus": "Complete"},
        {"phase": "Failed"},
    ],
)
def test_what_has_finished_is_not_suspended(tmp_path: Path, status: Json) -> None:
    assert answers(snapshot(tmp_path, obj("RayJob", "fit", {"suspend": True}, status)), load_policy(), None) == []


@pytest.mark.parametrize(
    "spec", [{"suspend": False}, {"suspend": None}, {}, {"runPolicy": "x", "rayClusterConfig": []}]
)
@pytest.mark.parametrize("kind", ["JobSet", "MPIJob", "RayService"])
def test_what_is_not_suspended_and_has_no_pods_is_not_unknown(tmp_path: Path, kind: str, spec: Json) -> None:
    with pytest.raises(
        BadInput, match=rf"^{kind.lower()}/fit has no pods.* kubectl describe {kind.lower()}/fit -n team$"
    ):
        asked(snapshot(tmp_path, obj(kind, "fit", spec)), load_policy(), "team", "fit")


def test_a_device_plugin_that_is_away_on_one_node_hides_no_other_node(tmp_path: Path) -> None:
    away = node("away", resources={"nvidia.com/gpu": "0"})
    causes = answer(tmp_path, away, node("here"), waiting(resource="nvidia.com/mig-1g.10gb")).causes
    assert {each.cause: each.nodes for each in causes} == {
        "devicePluginMissing": ("away",),
        "unknownResource": ("here",),
    }


def test_what_other_nodes_offer_is_said_by_what_one_of_it_is_there(tmp_path: Path) -> None:
    """Nodes with the same names, and one whose plugin, of another vendor, is away."""
    away = node("away", 0, resources={"nvidia.com/gpu": "8"})
    away["status"]["allocatable"]["nvidia.com/gpu"] = "0"
    mixed = node("mixed", 0, resources={"amd.com/cpx_nps4": "32", "amd.com/spx_nps1": "2"})
    nodes = [away, mixed, node("whole"), node("sliced", replicas=4), node("tpu", 0, resources={"google.com/tpu": "4"})]
    taken = placed(pod("holds", 0, limits={"google.com/tpu": "4"}), "tpu")
    found = answer(tmp_path, *nodes, taken, waiting(resource="google.com/tpu")).causes
    assert {each.nodes: (each.cause, each.fix) for each in found} == {
        ("tpu",): ("gpusTaken", next(each.fix for each in found if each.nodes == ("tpu",))),
        ("whole",): ("otherGpuResource", "ask for nvidia.com/gpu, a whole one"),
        ("sliced",): ("otherGpuResource", "ask for nvidia.com/gpu if a part of a GPU is enough"),
        ("mixed",): ("otherGpuResource", "ask for amd.com/spx_nps1, a whole one"),
        ("away",): ("noGpus", "nothing: they are for other pods"),
    }


def test_a_worker_group_that_is_suspended_is_found(tmp_path: Path) -> None:
    groups = [{"groupName": "cpu"}, {"groupName": "gpu", "suspend": True}]
    (found,) = answers(snapshot(tmp_path, obj("RayCluster", "fit", {"workerGroupSpecs": groups})), load_policy(), None)
    text = 'worker group "gpu" is suspended: its pods are made when it is resumed'
    patch = '[{"op":"replace","path":"/spec/workerGroupSpecs/1/suspend","value":false}]'
    resume = "kubectl", "patch", "raycluster/fit", "--type", "json", "-p", patch, "-n", "team"
    assert found.causes == [Cause.of("suspended", text, Fix("resume it", resume))]


@pytest.mark.parametrize(
    ("kind", "spec", "status", "text", "command"),
    [
        pytest.param("CronJob", {"schedule": "0 9 * * 1"}, {"lastScheduleTime": "2026-11-23T09:00:00Z"}, 'its next Job comes by its schedule, "0 9 * * 1"; the last was at 2026-11-23T09:00:00Z', "create job fit-now --from=cronjob/fit", id="not due"),
        pytest.param("CronJob", {"suspend": True}, {}, "spec.suspend is true: its pods are made when it is resumed", "patch cronjob/fit --type merge -p '{\"spec\":{\"suspend\":false}}'", id="a suspended schedule"),
        pytest.param("Deployment", {"replicas": 0}, {}, "it is to have 0 replicas", "scale deployment/fit --replicas=1", id="0 replicas"),
        pytest.param("Deployment", {"replicas": 1, "paused": True}, {}, "it is paused", "rollout resume deployment/fit", id="paused"),
        pytest.param("Job", {}, {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too\nlong"}]}, "it has finished: DeadlineExceeded, too long", "", id="finished"),
        pytest.param("DaemonSet", {}, {}, "no node is for its pods, by their node selector, node affinity or tolerations", "get nodes -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints", id="no node"),
    ],
)  # fmt: skip
def test_why_a_workload_makes_no_pods_is_said_to_who_asks_about_it(
    tmp_path: Path, kind: str, spec: Json, status: Json, text: str, command: str
) -> None:
    cluster = snapshot(tmp_path, obj(kind, "fit", spec, status))
    for name in ("fit", f"{kind.lower()}/fit"):
        (found,) = asked(cluster, load_policy(), "team", name).answers
        assert found.causes[0].text == text
        assert f"kubectl {command}" in found.causes[0].fix if command else not found.causes[0].fixes[0].command
    assert answers(cluster, load_policy(), None) == []


def test_who_may_list_one_namespace_is_told_of_what_is_missing_there(tmp_path: Path) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "dsik"}}]
    cluster = snapshot(tmp_path, waiting(volumes=volumes), obj("PersistentVolumeClaim", "disk", {}, {"phase": "Bound"}))
    cluster.missing.update(
        Node="no right to list nodes", PersistentVolumeClaim="no right to list x of other namespaces than team"
    )
    (found,) = answers(cluster, load_policy(), None)
    assert [each.cause for each in found.causes] == ["volumeClaimMissing"]
    assert "nearest: disk" in found.causes[0].text
    cluster.missing["PersistentVolumeClaim"] = "no right to list x"
    (found,) = answers(cluster, load_policy(), None)
    assert [each.cause for each in found.causes] == ["schedulerOther"]


def test_a_kind_that_may_not_be_listed_is_said_to_be(tmp_path: Path) -> None:
    cluster = snapshot(tmp_path, waiting())
    cluster.missing["RayJob"] = "no right to list rayjobs"
    with pytest.raises(BadInput, match="no right to list rayjobs"):
        asked(cluster, load_policy(), "team", "rayjob/fit")


def test_what_is_suspended_with_what_made_it_is_one_entry(tmp_path: Path) -> None:
    """A TrainJob makes a JobSet, which makes Jobs: all are suspended, and one is resumed."""
    made = obj("Job", "fit-node-0", {"suspend": True}, metadata={"uid": "j"})
    sets = obj("JobSet", "fit", {"suspend": True}, metadata={"uid": "s"})
    tree = [obj("TrainJob", "fit", {"suspend": True}, metadata={"uid": "t"}), by("TrainJob", "fit", "t", sets)]
    cluster = snapshot(tmp_path, *tree, by("JobSet", "fit", "s", made))
    assert [each.name for each in answers(cluster, load_policy(), None)] == ["trainjob/fit"]
    for name in ("trainjob/fit", "jobset/fit", "job/fit-node-0"):
        (found,) = asked(cluster, load_policy(), "team", name).answers
        assert found.name == name
        assert "kubectl patch trainjob/fit --type merge" in found.causes[0].fix


@pytest.mark.parametrize(
    ("name", "more"), [("amd.com/gpu", ", if its image is for these GPUs"), ("nvidia.com/gpus", "")]
)
def test_a_gpu_of_another_vendor_is_for_other_images(tmp_path: Path, name: str, more: str) -> None:
    (cause,) = answer(tmp_path, node("n"), waiting(resource=name)).causes
    assert cause.fix == f"ask for nvidia.com/gpu in place of {name}{more}"


@pytest.mark.parametrize(("name", "more"), [("gone", ""), ("full", ", or free that node")])
def test_a_pin_may_go_or_its_node_be_freed(tmp_path: Path, name: str, more: str) -> None:
    pinned = waiting(affinity=required("kubernetes.io/hostname", "In", name))
    causes = answer(tmp_path, node("n"), node("full"), held(8, "full"), pinned).causes
    (pin,) = [cause for cause in causes if cause.cause == "pinnedNode"]
    assert pin.fix == f"remove the node's name from spec.affinity.nodeAffinity{more}"


def test_the_fix_for_taints_is_their_tolerations(tmp_path: Path) -> None:
    found = snapshot(tmp_path, node("n", taints=["team=x:NoSchedule", "mine:NoExecute"]), waiting())
    assert answers(found, load_policy(), None)[0].causes[0].fix == (
        "if the pod may run there, add to spec.tolerations: {key: mine, operator: Exists, effect: NoExecute}; "
        '{key: team, operator: Equal, value: "x", effect: NoSchedule}'
    )


@pytest.mark.parametrize(
    ("taint", "text", "fix"),
    [
        ("aws-node-termination-handler/spot-itn=1:NoSchedule", "it will soon be removed", "see whether it goes"),
        ("cloud.google.com/impending-node-termination:NoSchedule", "it will soon be removed", "see whether it goes"),
        ("node.cloudprovider.kubernetes.io/shutdown:NoSchedule", "it will soon be removed", "see whether it goes"),
        ("startup-taint.cluster-autoscaler.kubernetes.io/driver:NoSchedule", "driver", "see what is wrong there"),
        ("status-taint.cluster-autoscaler.kubernetes.io/xid:NoSchedule", "xid", "see what is wrong there"),
        ("readiness.k8s.io/gpu:NoSchedule", "gpu", "see what is wrong there"),
        ("karpenter.sh/unregistered:NoExecute", "unregistered", "see what is wrong there"),
    ],
)
def test_no_toleration_is_advised_of_a_taint_that_passes(tmp_path: Path, taint: str, text: str, fix: str) -> None:
    (cause,) = answer(tmp_path, node("n", taints=[taint]), waiting()).causes
    assert (cause.cause, cause.nodes, cause.helps) == ("notReady", ("n",), 0)
    assert cause.text.startswith(f"node n: {text}")
    assert cause.fix.startswith(fix)


def test_three_of_many_workloads_are_named(tmp_path: Path) -> None:
    alone = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    affinity = {"podAntiAffinity": {REQUIRED: [alone]}}
    others = [placed(pod(f"other-{number}", 1), "n") for number in range(5)]
    found = answer(tmp_path, node("n"), *others, waiting(affinity=affinity))
    assert found.causes[0].text.endswith("where pod/other-0, pod/other-1, pod/other-2 and 2 more are")


def test_while_a_pod_preempts_the_message_of_the_scheduler_is_no_cause(tmp_path: Path) -> None:
    status = {"nominatedNodeName": "n", **unschedulable("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")}
    victim = held(8, "n")
    victim["metadata"]["deletionTimestamp"] = "2026-11-18T11:00:00Z"
    assert [cause.cause for cause in answer(tmp_path, node("n"), victim, waiting(8, status)).causes] == ["preempting"]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([node("n"), placed(pod("runs"), "n")], id="a pod that runs"),
        pytest.param([obj("ReplicaSet", "chat", {"replicas": 2}, {"replicas": 2}), event("ReplicaSet", "chat", "once")], id="a workload that has its pods"),
        pytest.param([obj("Job", "train", {"parallelism": 1}, {"conditions": [{"type": "Complete", "status": "True"}]}), event("Job", "train", "once")], id="a Job that is done"),
        pytest.param([obj("StatefulSet", "db", {"replicas": 1})], id="a workload that nothing was said of"),
    ],
)  # fmt: skip
def test_what_does_not_wait_has_no_causes(tmp_path: Path, objects: list[Json]) -> None:
    assert answers(snapshot(tmp_path, *objects), load_policy(), None) == []


def test_an_object_of_a_kind_that_could_not_be_read_is_not_missing(tmp_path: Path) -> None:
    found = snapshot(tmp_path, node("n"), mounting("d"), obj("PersistentVolumeClaim", "other"))
    found.missing["PersistentVolumeClaim"] = "no right"
    assert [cause.cause for cause in answers(found, load_policy(), None)[0].causes] == ["fitsNow"]


def test_a_gang_that_is_complete_and_a_domain_with_fewer_pods_keep_nothing_away(tmp_path: Path) -> None:
    skew = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    apart = [{**skew, "labelSelector": {"matchLabels": {"pod-group.scheduling.sigs.k8s.io": "ring"}}}]
    there, pods = (
        placed(pod("there", 1, labels=BY_LABELS), "a"),
        waiting(labels=BY_LABELS, topologySpreadConstraints=apart),
    )
    causes = answer(tmp_path, node("a"), node("b"), there, pods).causes
    assert [(cause.cause, cause.nodes) for cause in causes] == [("fitsNow", ("b",)), ("topologySpread", ("a",))]


def test_where_a_node_could_take_the_pod_now_that_is_said_first(tmp_path: Path) -> None:
    found = snapshot(tmp_path, node("full"), placed(pod("has", 8), "full"), node("free"), waiting())
    assert [cause.cause for cause in answers(found, load_policy(), None)[0].causes] == ["fitsNow", "gpusTaken"]


def test_a_node_counts_for_the_first_check_that_excludes_it(tmp_path: Path) -> None:
    nodes = [node("a", taints=["x=y:NoSchedule"], cordoned=True), node("b", taints=["x=y:NoSchedule"]), node("c", 4)]
    (found,) = answers(snapshot(tmp_path, *nodes, waiting(8)), load_policy(), None)
    assert {cause.cause: cause.nodes for cause in found.causes} == {
        "cordoned": ("a",),
        "untoleratedTaint": ("b",),
        "nodesTooSmall": ("c",),
    }
    assert {cause.cause: cause.helps for cause in found.causes} == {
        "cordoned": 0,
        "untoleratedTaint": 1,
        "nodesTooSmall": 1,
    }


def test_a_cause_whose_fix_alone_helps_comes_first() -> None:
    causes = [
        Cause.of("noGpus", "", "", nodes=("a",)),
        Cause.of("cordoned", "", Fix("", helps=1), nodes=("b",)),
        Cause.of("nodeSelector", "", "", nodes=("c",)),
        Cause.of("queued", "", ""),
    ]
    assert [cause.cause for cause in ordered(causes)] == ["queued", "cordoned", "nodeSelector", "noGpus"]


def test_a_pod_that_has_its_node_waits_for_the_kubelet(tmp_path: Path) -> None:
    pulling = placed(
        pod("pulls"),
        "gpu-a",
        phase="Pending",
        containerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    )
    (found,) = document("why", "pulls", "-n", "team", "--from", write(tmp_path, *CLUSTER, pulling))
    assert found["causes"][0]["cause"] == "bound"
    assert "ImagePullBackOff" in found["causes"][0]["text"]

"""The causes of waiting that tests/e2e/test_pending.py does not make on a real scheduler.

Covers cli.waiting.claims, cli.waiting.nodes, cli.waiting.peers, cli.waiting.ports,
cli.waiting.prerequisites, cli.waiting.resources, cli.waiting.situation, cli.waiting.taints, cli.waiting.unoffered,
cli.waiting.volumes, cli.waiting.workloads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.objects import CLUSTER, Json, document, placed, snapshot, unschedulable, write
from tests.cli.waiting.waits import DEVICE_CLASS, claiming, mounting, obj, waiting
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli.offline import load_policy
from webhook.cli.pending import answers
from webhook.cli.waiting.causes import Cause, ordered

GROUP = {"schedulingGroup": {"podGroupName": "ring"}}
GANG = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
NEVER = {"priority": 10, "preemptionPolicy": "Never", "priorityClassName": "polite"}
FULL = placed(pod("other", 8), "n")


def leaving(name: str, on: str) -> Json:
    made = placed(pod(name, 8), on)
    made["metadata"]["deletionTimestamp"] = "2026-11-18T11:00:00Z"
    return made


def event(kind: str, name: str, message: str) -> Json:
    about = {"kind": kind, "namespace": "team", "name": name}
    return obj("Event", f"e-{name}", involvedObject=about, reason="FailedCreate", message=message)


ON_A = {
    "allocation": {
        "devices": {"results": [{"driver": "gpu.x", "pool": "a", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
        },
    }
}
REFUSAL = (
    'admission webhook "pods.gpu-admission.io" denied the request: pod generateName "chat-": spec.hostPID: saw true'
)
CASES = [
    pytest.param("schedulingGate", "scheduling gates a.b/c:", [node("n"), waiting(schedulingGates=[{"name": "a.b/c"}])], id="a gate"),
    pytest.param("queued", 'Kueue has not admitted it from queue "q"', [node("n"), waiting(labels={"kueue.x-k8s.io/queue-name": "q"}, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])], id="a queue"),
    pytest.param("podGroupMissing", 'PodGroup "ring" does not exist', [node("n"), waiting(**GROUP)], id="no group"),
    pytest.param("gangIncomplete", 'gang "ring" wants 4 pods, and 1 pod of it exist', [node("n"), obj("PodGroup", "ring", **GANG), waiting(**GROUP)], id="a gang that lacks pods"),
    pytest.param(
        "gangIncomplete",
        'gang "ring" wants 2 pods, and 1 pod of it exist',
        [
            node("n"),
            waiting(
                labels={
                    "pod-group.scheduling.sigs.k8s.io": "ring",
                    "pod-group.scheduling.sigs.k8s.io/min-available": "2",
                }
            ),
        ],
        id="a gang by labels",
    ),
    pytest.param("preempting", "it preempts 1 pod on n (team/victim), which have not ended yet", [node("n"), leaving("victim", "n"), waiting(8, {"nominatedNodeName": "n"})], id="victims that have not ended"),
    pytest.param(
        "nominated",
        "node n has room, which the scheduler keeps for pod team/first: it preempted others there",
        [node("n"), placed(pod("first", 8), None, nominatedNodeName="n"), waiting(8)],
        id="room for a pod that preempted",
    ),
    pytest.param("preemptionNever", "pods of lower priority hold enough on node n, but priority class polite never preempts", [node("n"), FULL, waiting(8, **NEVER)], id="a class that never preempts"),
    pytest.param("claimTemplateMissing", 'ResourceClaimTemplate "t" does', [node("n"), claiming(resourceClaimTemplateName="t")], id="no template"),
    pytest.param("claimMissing", 'ResourceClaim "c" does not exist in team; nearest: cc', [node("n"), obj("ResourceClaim", "cc"), claiming(resourceClaimName="c")], id="no claim"),
    pytest.param("claimInUse", "ResourceClaim c is used by 256 pods", [node("n"), obj("ResourceClaim", "c", status={"reservedFor": [{}] * 256}), claiming(resourceClaimName="c")], id="a claim of many"),
    pytest.param(
        "volumeClaimLost",
        'PersistentVolumeClaim d: its volume pv is gone',
        [node("n"), obj("PersistentVolumeClaim", "d", {"volumeName": "pv"}, {"phase": "Lost"}), mounting("d")],
        id="a volume that is gone",
    ),
    pytest.param(
        "volumeClaimDeleting",
        "PersistentVolumeClaim d is being deleted",
        [node("n"), obj("PersistentVolumeClaim", "d", metadata={"deletionTimestamp": "x"}), mounting("d")],
        id="a claim on its way out",
    ),
    pytest.param(
        "refused",
        '2 pods could not be created: pod generateName "chat-": spec.hostPID: saw true',
        [obj("ReplicaSet", "chat", {"replicas": 2}), event("ReplicaSet", "chat", f"Error creating: {REFUSAL}")],
        id="a refusal of ours",
    ),
    pytest.param("notCreated", "1 pod could not be created: no ServiceAccount", [obj("Job", "train", {"parallelism": 1}), event("Job", "train", "no ServiceAccount")], id="what else a controller says"),
    pytest.param(
        "refused",
        '1 pod could not be created: violates PodSecurity "restricted:latest": hostPID (set to true)',
        [obj("Job", "train", {"parallelism": 1}), event("Job", "train", 'pods "train-x" is forbidden: violates PodSecurity "restricted:latest": hostPID (set to true)')],
        id="Pod Security",
    ),
    pytest.param("queued", 'Kueue has not admitted it from queue "gpus"', [obj("Job", "train", {"suspend": True}, metadata={"labels": {"kueue.x-k8s.io/queue-name": "gpus"}})], id="a Job that Kueue holds"),
    pytest.param("suspended", "spec.suspend is true", [obj("Job", "train", {"suspend": True})], id="a suspended Job"),
    pytest.param(
        "noDevice",
        "deviceclass.resource.kubernetes.io/dc: 2 devices of dc wanted, and no node has any",
        [node("n"), DEVICE_CLASS, waiting(2, resource="deviceclass.resource.kubernetes.io/dc")],
        id="a device class by the name of its resource",
    ),
    pytest.param(
        "claimElsewhere",
        "the devices of claim c are on node a, not on node n",
        [node("a", cordoned=True), node("n"), DEVICE_CLASS, obj("ResourceClaim", "c", status=ON_A), claiming(resourceClaimName="c")],
        id="a claim with devices of another node",
    ),
    pytest.param("noNodes", "the cluster has no node", [waiting()], id="no node"),
    pytest.param("fitsNow", "node n could take it now", [node("n"), waiting()], id="room after all"),
    pytest.param(
        "schedulerOther",
        "the scheduler also says: node(s) had strange hats",
        [node("n"), waiting(status=unschedulable("0/1 nodes are available: 1 node(s) had strange hats."))],
        id="what only a plugin knows",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("word", "text", "objects"), CASES)
def test_the_cause_of_waiting(tmp_path: Path, word: str, text: str, objects: list[Json]) -> None:
    found = answers(snapshot(tmp_path, *objects), load_policy(), None)
    said = {cause.cause: cause for answer in found for cause in answer.causes if answer.name != "first"}
    assert word in said, said
    assert said[word].text.startswith(text)
    assert said[word].fix


def affine(operator: str, *values: str, key: str = "size") -> Json:
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return waiting(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


@pytest.mark.parametrize(
    ("made", "fix"),
    [
        pytest.param(affine("In", "41"), "set spec.affinity.nodeAffinity to 40, or label nodes: kubectl label node NAME size=41", id="In"),
        pytest.param(affine("Gt", "79"), "write another number in spec.affinity.nodeAffinity, or label a node with one that fits: kubectl label node NAME size=…", id="Gt"),
        pytest.param(affine("DoesNotExist"), "remove it from spec.affinity.nodeAffinity: node n could take it then (NVIDIA-A100-SXM4-80GB), or the label from a node: kubectl label node NAME size-", id="DoesNotExist"),
        pytest.param(affine("NotIn", "40"), "remove it from spec.affinity.nodeAffinity: node n could take it then (NVIDIA-A100-SXM4-80GB), or the label from a node: kubectl label node NAME size-", id="NotIn"),
        pytest.param(affine("In", "gone", key="kubernetes.io/hostname"), "remove the node's name from spec.affinity.nodeAffinity", id="a node that is gone"),
        pytest.param(affine("In", "full", key="kubernetes.io/hostname"), "remove the node's name from spec.affinity.nodeAffinity, or free that node", id="a node that is full"),
    ],
)  # fmt: skip
def test_the_fix_for_an_affinity_depends_on_its_operator(tmp_path: Path, made: Json, fix: str) -> None:
    nodes = [node("n", labels={"size": "40"}), node("full", labels={"size": "40"}), placed(pod("other", 8), "full")]
    (found,) = answers(snapshot(tmp_path, *nodes, made), load_policy(), None)
    assert fix in [cause.fix for cause in found.causes]


def test_the_values_to_choose_from_are_those_of_nodes_with_the_label(tmp_path: Path) -> None:
    nodes = [node("n", labels={"size": "40"}), node("m")]
    (found,) = answers(snapshot(tmp_path, *nodes, affine("In", "other")), load_policy(), None)
    assert found.causes[0].fix.startswith("set spec.affinity.nodeAffinity to 40, or label")


def test_the_fix_for_taints_is_their_tolerations(tmp_path: Path) -> None:
    found = snapshot(tmp_path, node("n", taints=["team=x:NoSchedule", "mine:NoExecute"]), waiting())
    assert answers(found, load_policy(), None)[0].causes[0].fix == (
        "if the pod may run there, add to spec.tolerations: {key: mine, operator: Exists, effect: NoExecute}; "
        '{key: team, operator: Equal, value: "x", effect: NoSchedule}'
    )


def test_three_of_many_workloads_are_named(tmp_path: Path) -> None:
    alone = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [alone]}}
    others = [placed(pod(f"other-{number}", 1), "n") for number in range(5)]
    (found,) = answers(snapshot(tmp_path, node("n"), *others, waiting(affinity=affinity)), load_policy(), None)
    assert found.causes[0].text.endswith("where pod/other-0, pod/other-1, pod/other-2 and 2 more are")


def test_while_a_pod_preempts_the_message_of_the_scheduler_is_no_cause(tmp_path: Path) -> None:
    status = {"nominatedNodeName": "n", **unschedulable("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")}
    (found,) = answers(snapshot(tmp_path, node("n"), leaving("victim", "n"), waiting(8, status)), load_policy(), None)
    assert [cause.cause for cause in found.causes] == ["preempting"]


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
        Cause("noGpus", "", "", ("a",)),
        Cause("cordoned", "", "", ("b",), 1),
        Cause("nodeSelector", "", "", ("c",), 0),
        Cause("queued", "", ""),
    ]
    assert [cause.cause for cause in ordered(causes)] == ["queued", "cordoned", "nodeSelector", "noGpus"]


def test_a_pod_that_has_its_node_waits_for_the_kubelet(tmp_path: Path) -> None:
    pulling = placed(
        pod("pulls"),
        "gpu-a",
        phase="Pending",
        containerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff"}}}],
    )
    (found,) = document("pending", "pulls", "-n", "team", "--cluster", write(tmp_path, *CLUSTER, pulling))
    assert found["causes"][0]["cause"] == "bound"
    assert "ImagePullBackOff" in found["causes"][0]["text"]

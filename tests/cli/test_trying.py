"""`gpu-admission try`: what becomes of the pods of manifests. Over 500 lines, since all of it is the output of one command.

Covers cli.reports, whatif.tried, whatif.daemons, whatif.waiting.quotas, whatif.verdict.
"""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.builders import GPU, admission_review
from tests.cli.given import BAD, CONFLICT, GOOD, SERVICE, TRAINING
from tests.cli.given import PLAIN as CPU
from tests.cli.objects import OPTED_IN, call, document, namespace, placed, with_metrics, write
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import deployment, job, pod

PLAIN = namespace("plain")
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"gpu-{name}"}, "value": value}
    for name, value in (("training", 100), ("inference", 1000), ("development", 50))
]
NODES = [node(f"gpu-{letter}", labels={"node-pool": "training"}) for letter in "abc"]
BUSY = {"requests": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
RUNNING = placed(pod("runs", 2, container={"resources": BUSY}), "gpu-a")
CLUSTER = [*NODES, OPTED_IN, PLAIN, *CLASSES, RUNNING]
SHARE = {"requests": {"cpu": "8", "memory": "32Gi"}, "limits": {"nvidia.com/gpu": "1"}}
WHOLE = {"requests": {"cpu": "64", "memory": "256Gi"}, "limits": {"nvidia.com/gpu": "8"}}
CHAT = deployment("chat", 2, container={"resources": SHARE}, labels={"workload-type": "development"})
TRAIN = job("train", 2, container={"resources": WHOLE})

LEFT = """\
LEFT          RESOURCE         BEFORE   AFTER
free GPUs     nvidia.com/gpu       22       4
whole nodes   nvidia.com/gpu        2       0
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path, *CLUSTER)


def manifest(folder: Path, *objects: Any) -> Path:
    path = folder / "pods.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


def found(*arguments: Any) -> Any:
    return document("try", *arguments)


def test_what_is_printed(tmp_path: Path, cluster: Path) -> None:
    result = call("try", "-f", manifest(tmp_path, CHAT, TRAIN), "-n", "team", "--from", cluster)
    heads = [line for line in result.stdout.splitlines() if line[:1] not in (" ", "")][:2]
    assert heads == [
        "team: deployment/chat: 2 pods of 1 nvidia.com/gpu: all start on gpu-a (2)",
        "team: job/train: 2 pods of 8 nvidia.com/gpu: all start on gpu-b (1), gpu-c (1)",
    ]
    assert result.stdout.endswith(f"\n{LEFT}")
    assert (
        result.stderr
        == f"tried on {cluster}, by the shipped policy, since there is no ConfigMap gpu-admission-policy\n"
    )
    assert result.exit_code == 0


def test_slices_of_the_same_name_are_no_free_gpus(tmp_path: Path) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "8"}
    cluster = write(tmp_path, *CLUSTER, node("slices", 56, labels=labels))
    file = manifest(tmp_path, CHAT)
    left = found("-f", file, "-n", "team", "--from", cluster)["gpus"]["nvidia.com/gpu"]
    assert left["free"] == {"before": 22, "after": 20}
    assert left["freeSlices"] == {"before": 56, "after": 56}
    printed = call("try", "-f", file, "-n", "team", "--from", cluster).stdout
    assert "free GPUs     nvidia.com/gpu       22      20\nfree slices   nvidia.com/gpu       56      56\n" in printed


def test_pods_that_wait_have_the_causes_of_pending_and_status_1(tmp_path: Path, cluster: Path) -> None:
    file = manifest(tmp_path, job("train", 4, container={"resources": WHOLE}))
    result = call("try", "-f", file, "-n", "team", "--from", cluster)
    assert result.exit_code == 1
    assert "job/train: 4 pods of 8 nvidia.com/gpu: 2 start on gpu-b (1), gpu-c (1), 2 would wait\n" in result.stdout
    assert (
        "  2 pods would wait, ! marks a fix that is enough for one of them:\n  gpusTaken: all GPUs are taken: 8 nvidia.com/gpu asked for"
        in result.stdout
    )
    assert "    ! ask for 6 in place of 8; room for 1 of the 2 pods\n" in result.stdout
    assert "pod/runs in team (2 nvidia.com/gpu on gpu-a) to end" in result.stdout, "the pod whose end would help"


SICK = [node("gpu-a", ready=False, cordoned=True, taints=["ToBeDeletedByClusterAutoscaler=1:NoSchedule", GPU_TAINT])]


def test_added_nodes_are_up_even_if_the_node_that_they_are_like_is_not(tmp_path: Path) -> None:
    sick = write(tmp_path, *SICK, OPTED_IN)
    twice = ["--add-node", "gpu-a=1"] * 2
    answer = found("-f", manifest(tmp_path, TRAIN), "-n", "team", "--from", sick, *twice)
    assert answer["items"][0]["bound"] == {"gpu-a-new-1": 1, "gpu-a-new-2": 1}
    answer = found(
        "-f", manifest(tmp_path, TRAIN), "-n", "plain", "--from", write(tmp_path, PLAIN, OPTED_IN, *SICK), *twice
    )
    untolerated = {cause["cause"] for cause in answer["items"][0]["causes"]}
    assert "untoleratedTaint" in untolerated, "taints of the pool stay"


def test_refused_pods_have_their_message(tmp_path: Path, cluster: Path) -> None:
    conflict = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
    exposed = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "resources": SHARE}
    file = manifest(tmp_path, pod("unsure", container={"resources": conflict}), pod("greedy", container=exposed))
    result = call("try", "-f", file, "-n", "team", "--from", cluster)
    assert result.exit_code == 1
    assert "team: pod/unsure: 1 pod of 1 nvidia.com/gpu: refused\n" in result.stdout
    assert '  refused: pod "greedy": spec.containers[0].env[0]: saw NVIDIA_VISIBLE_DEVICES="all"' in result.stdout


def test_in_a_namespace_that_has_not_opted_in_pods_are_as_they_come(tmp_path: Path, cluster: Path) -> None:
    (answer,) = found("-f", manifest(tmp_path, CHAT), "-n", "plain", "--from", cluster)["items"]
    assert (answer["outcome"], answer["diff"], answer["bound"]) == ("notAsked", [], {"gpu-b": 1, "gpu-c": 1})
    assert answer["notes"][0].startswith("the webhook is not asked: namespace plain has not opted in (kubectl label")


def test_pods_that_wait_already_go_first_unless_the_new_ones_have_priority(tmp_path: Path) -> None:
    waits = placed(pod("waits", 8, priority=500), None)
    few = write(tmp_path, node("gpu-a"), OPTED_IN, *CLASSES, waits)
    more = ["-n", "team", "--from", few, "--policy", "default"]
    serves = job("chat", 1, container={"resources": WHOLE}, labels={"workload-type": "inference"})
    low, high = (found("-f", manifest(tmp_path, each), *more) for each in (TRAIN, serves))
    assert low["waited"] == {"before": 1, "after": 0}
    assert high["waited"] == {"before": 1, "after": 1}
    assert high["good"]


def test_a_daemonset_has_a_pod_on_each_node_that_is_for_it(tmp_path: Path) -> None:
    full = placed(pod("full", 8), "gpu-b")
    nodes = [*NODES, node("gpu-d", cordoned=True), node("gpu-e", taints=["team=x:NoSchedule"]), full]
    nodes.append(node("gpu-f", taints=[GPU_TAINT]))
    """For which its pods would get a toleration, had its controller made one."""
    daemon = {**CHAT, "kind": "DaemonSet"}
    (answer,) = found("-f", manifest(tmp_path, daemon), "-n", "team", "--from", write(tmp_path, *nodes, OPTED_IN))[
        "items"
    ]
    assert (answer["pods"], answer["bound"], answer["waiting"]) == (4, {"gpu-a": 1, "gpu-c": 1, "gpu-d": 1}, 1)
    assert "gpusTaken" in [cause["cause"] for cause in answer["causes"]]
    assert any(
        note.startswith("no pod is made for 1 node whose taints its pods would tolerate") for note in answer["notes"]
    )


def test_each_template_of_an_object_is_looked_at(tmp_path: Path, cluster: Path) -> None:
    exposed = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "resources": SHARE}
    replicas = {name: {"template": {"spec": pod(name, container=made)["spec"]}} for name, made in (("Master", {"resources": SHARE}), ("Worker", exposed))}  # fmt: skip
    torch = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}, "spec": {"pytorchReplicaSpecs": replicas}}  # fmt: skip
    given = ["-f", manifest(tmp_path, torch), "-n", "team", "--from", cluster]
    (master, worker), printed = found(*given)["items"], call("try", *given).stdout
    assert [master["template"], worker["template"]] == [f"spec.pytorchReplicaSpecs.{of}" for of in ("Master", "Worker")]
    assert (master["good"], worker["good"], worker["outcome"]) == (True, False, "refused")
    assert (
        "\nteam: pytorchjob/t spec.pytorchReplicaSpecs.Worker: 1 pod of 1 nvidia.com/gpu: refused\n  refused: pod generateName"
        in printed
    )


def test_the_number_of_pods_that_something_else_decides_is_not_claimed(tmp_path: Path, cluster: Path) -> None:
    ray = {"headGroupSpec": {}, "workerGroupSpecs": [{"template": pod("one", container={"resources": SHARE})}]}
    made = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": ray}
    (answer,) = found("-f", manifest(tmp_path, made), "-n", "team", "--from", cluster)["items"]
    assert (answer["pods"], answer["notes"][-1]) == (1, "how many pods it makes is not known: this is one")


def test_of_a_pod_that_its_controller_completes_only_what_is_written_is_judged(tmp_path: Path, cluster: Path) -> None:
    """KServe adds a volume at /dev/shm (config/llmisvc/config-llm-template.yaml), which is in no manifest."""
    container = {"name": "main", "image": "i", "resources": WHOLE}
    serving: dict[str, Any] = {"kind": "LLMInferenceService", "metadata": {"name": "llm"}}
    serving |= {"apiVersion": "serving.kserve.io/v1alpha1", "spec": {"template": {"containers": [container]}}}
    answers = found("-f", manifest(tmp_path, serving, TRAIN), "-n", "team", "--from", cluster)["items"]
    by = {each["workload"]: [of["unit"] for of in each["findings"]] for each in answers}
    whole = {name: "sharedMemory" in units for name, units in by.items()}
    assert whole == {"llminferenceservice/llm": False, "job/train": True}
    assert "its controller completes its pods: only what is written here is judged" in answers[0]["notes"]


def test_the_claim_of_an_ephemeral_volume_will_be_made(tmp_path: Path, cluster: Path) -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    (answer,) = found("-f", manifest(tmp_path, job("train", volumes=[volume])), "-n", "team", "--from", cluster)["items"]  # fmt: skip
    assert answer["good"]


def test_a_node_that_is_unhealthy_is_named_where_a_pod_would_start_on_it(tmp_path: Path) -> None:
    sick = write(tmp_path, node("gpu-a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), OPTED_IN)
    [answer] = found("-f", manifest(tmp_path, job("train")), "-n", "team", "--from", sick)["items"]
    assert answer["bound"] == {"gpu-a": 1}
    assert answer["notes"][-1] == "gpu-a is unhealthy, so the webhook never chooses it; the scheduler may"


def test_a_workload_may_have_more_replicas_than_one_owner_may_have_reservations(tmp_path: Path) -> None:
    many = write(tmp_path, *[node(f"gpu-{number}") for number in range(8)], OPTED_IN)
    answer = found("-f", manifest(tmp_path, deployment("chat", 60)), "-n", "team", "--from", many)["items"][0]
    assert sum(answer["bound"].values()) == 60
    assert max(answer["bound"].values()) <= 8


def test_nodes_are_ranked_by_the_gpu_metrics_of_the_snapshot(tmp_path: Path) -> None:
    """All GPUs of two nodes are busy although no pod requests them: they do not count as free."""
    numbers = [(name, 90.0 if name != "gpu-b" else 0.0) for name in ("gpu-a", "gpu-b", "gpu-c")]
    samples = [[name, str(gpu), "utilisation", value, ""] for name, value in numbers for gpu in range(8)]
    file = with_metrics(write(tmp_path, *NODES, OPTED_IN, PLAIN, *CLASSES), samples)
    policy = tmp_path / "policy.yaml"
    policy.write_text("gpuMetrics: {source: prometheus, url: http://prometheus.monitoring:9090}")
    one = job("train", 1, container={"resources": WHOLE})
    given = ["-f", manifest(tmp_path, one), "-n", "team", "--from", file]
    for more, node_of in (([], "gpu-b"), (["--metrics", "off"], "gpu-a")):
        answer = found(*given, "--policy", policy, *more)["items"][0]
        assert answer["bound"] == {node_of: 1}
    assert found(*given)["items"][0]["bound"] == {"gpu-a": 1}, "a policy without metrics"


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "wanted -f FILE: the pods to try, for example gpu-admission try -f job.yaml", id="nothing"),
        pytest.param(["-f", "/no"], "/no: cannot be read: No such file or directory.", id="no such file"),
        pytest.param(["-f", "{file}", "--add-node", "gpu-z=1"], 'no node "gpu-z" for --add-node; did you mean gpu-', id="no such node"),
        pytest.param(["-f", "{file}", "--add-node", "gpu-a"], '--add-node: saw "gpu-a", wanted NODE=COUNT, as gpu-a=2', id="no count"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_with_status_2(tmp_path: Path, cluster: Path, arguments: list[str], said: str) -> None:
    file = manifest(tmp_path, CHAT)
    result = call("try", *[a.format(file=file) for a in arguments], "--from", cluster)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {said}")


def test_a_file_without_pods_is_an_error(tmp_path: Path, cluster: Path) -> None:
    result = call("try", "-f", manifest(tmp_path, PLAIN), "--from", cluster)
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "no pod and no workload in it that makes some (templates.custom of the policy names other kinds)\n"
    )


def test_an_empty_cluster_has_no_table_of_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(deployment("chat", 1)))
    result = call("try", "-f", tmp_path / "job.yaml", "--from", write(tmp_path))
    assert "noNodes: the cluster has no node" in result.stdout
    assert "LEFT" not in result.stdout


def test_the_diff_has_only_what_is_changed(tmp_path: Path, file: Any) -> None:
    made = pod("noted", 1)
    made["metadata"] = {"annotations": {"note": "x"}, "name": "noted"}
    (each,) = found("-f", file(made), "-n", "team", "--from", write(tmp_path, *NODES, OPTED_IN))["items"]
    assert not [line for line in each["diff"] if "namespace" in line]


def test_a_file_with_several_templates_says_which_is_which(tmp_path: Path, file: Any) -> None:
    jobs = [{"template": {"spec": {"parallelism": 3, "template": pod("one", gpus)}}} for gpus in (1, 2)]
    made = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"}, "spec": {"replicatedJobs": jobs}}  # fmt: skip
    given = ["try", "-f", file(made), "-n", "team", "--from", write(tmp_path, *NODES, OPTED_IN)]
    heads = [line for line in call(*given).stdout.splitlines() if line.startswith("team: ")]
    assert [head.rpartition(": 3 pods of ")[0] for head in heads] == [
        f"team: jobset/train spec.replicatedJobs[{number}]" for number in (0, 1)
    ]
    assert [each["template"] for each in document(*given)["items"]] == [
        "spec.replicatedJobs[0]",
        "spec.replicatedJobs[1]",
    ]


def test_the_pods_of_make_demo_are_changed_or_refused() -> None:
    sample = Path(__file__).parents[2] / "webhook" / "defaults"
    items = found("-f", sample / "pods.yaml", "--from", sample / "cluster.yaml")["items"]
    assert [each["outcome"] == "refused" for each in items] == [False, False, False, True, True, True, False]
    assert all("+  tolerations:" in each["diff"] and each["decision"]["nodes"] for each in items[:3])


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE"])
def test_a_review_that_creates_no_pod_is_an_error(tmp_path: Path, file: Any, operation: str) -> None:
    review = admission_review(pod("old"), operation=operation)
    result = call("try", "-f", given := file(review), "--from", write(tmp_path, *NODES, OPTED_IN))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f"error: {given}: document 1: saw a review of {operation}, wanted one of the CREATE of a pod\n"
    )


NOT_TOUCHED = "it asks for no GPU that the policy names, or no injector for it is enabled"
INJECTORS = ("gpuResources", "tolerations", "priorityClass", "voidDevices", "topologySpread", "nodeAffinity")
OFF = {name: {"enabled": False} for name in INJECTORS}


@pytest.mark.parametrize(
    ("policy", "made", "said"),
    [
        pytest.param({}, pod("none", 0), f"nothing is changed: {NOT_TOUCHED}", id="no GPU"),
        pytest.param({"profiles": {"default": {"injectors": OFF}}}, pod("one"), f"nothing is changed: {NOT_TOUCHED}", id="no injector"),
        pytest.param({"profiles": {"default": {"dryRun": True}}}, pod("one"), "nothing is changed: profile default is in dry run", id="dryRun"),
    ],
)  # fmt: skip
def test_pods_that_are_left_alone_say_so(
    tmp_path: Path, file: Any, cluster: Path, policy: Any, made: Any, said: str
) -> None:
    given = ["-f", file(made), "--policy", file(policy, name="policy.yaml"), "-n", "team"]
    result = call("try", *given, "--from", cluster)
    assert result.exit_code == 0
    assert f"\n  {said}\n" in result.stdout


# --- without a cluster ------------------------------------------------------------------------------------------------


def offline(*arguments: Any, stdin: str = "") -> Any:
    return call("try", "--offline", *arguments, stdin=stdin)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        pytest.param([GOOD], 0, id="a good pod"),
        pytest.param([CPU], 0, id="a pod without a GPU"),
        pytest.param([GOOD, CONFLICT, GOOD], 1, id="one conflict among good ones"),
        pytest.param([SERVICE, GOOD], 0, id="a Service beside a pod"),
        pytest.param([BAD], 1, id="a bad pod"),
        pytest.param([BAD, {"kind": "Pod"}], 2, id="a bad pod and then a malformed one"),
        pytest.param([SERVICE, CONFLICT, {"kind": "Service"}], 2, id="an object without apiVersion"),
        pytest.param([admission_review(BAD)], 1, id="a review"),
        pytest.param([TRAINING], 1, id="a workload that the policy names"),
    ],
)
@pytest.mark.parametrize("form", ["yaml", "json"])
def test_exit_status(file: Any, values: list[Any], status: int, form: str) -> None:
    assert offline("-f", file(*values, form=form)).exit_code == status


def test_without_a_kubeconfig_and_a_snapshot_it_says_that_there_is_neither(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = call("try", "-f", file(GOOD))
    assert result.exit_code == 0
    assert "where they would start is not known\n" in result.stdout
    assert "stale" not in result.stdout
    assert result.stderr.startswith("tried without a cluster or a snapshot: nodes, quotas and priorities are not known")


def test_what_makes_no_pods_is_left_out_and_named_once(file: Any) -> None:
    result = offline("-f", file(SERVICE, GOOD, SERVICE))
    assert result.stderr.startswith('left out, since they make no pods: "Service"\n')


def test_a_kind_of_somebody_else_may_make_pods_that_nobody_knows_here(file: Any) -> None:
    others = [{"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {}} for group, kind in (("apps.nvidia.com", "NIMService"), ("networking.k8s.io", "Ingress"))]  # fmt: skip
    result = offline("-f", file(*others, GOOD))
    assert result.stderr.startswith(
        'left out, since they make no pods: "Ingress"\n'
        'left out, since no pod template is known in them: "NIMService". If they make pods, these were not tried: '
        "templates.custom of the policy can name where their templates are\n"
    )


def test_yaml_is_the_pods_as_they_would_be_stored(file: Any) -> None:
    result = offline("-f", file(GOOD, CPU, CONFLICT, TRAINING | {"spec": {}}, GOOD), "-o", "yaml")
    printed = list(yaml.safe_load_all(result.stdout))
    assert [each["metadata"]["name"] for each in printed] == ["trainer", "plain", "trainer"], "no refused pod"
    assert printed[0]["spec"]["containers"][0]["resources"] == {"limits": {GPU: 1}, "requests": {GPU: 1}}
    again = offline("-f", "-", "-o", "yaml", stdin=result.stdout)
    assert again.stdout == result.stdout, "a pod that was changed is not changed again"


def test_patches_are_one_a_line(file: Any) -> None:
    first, second = map(json.loads, offline("-f", file(GOOD, CPU), "-o", "patch").stdout.splitlines())
    assert first[0]["path"] == "/spec/tolerations", "the API server fills in the request by itself"
    assert second == []


def test_of_a_workload_the_pods_are_what_is_printed(file: Any) -> None:
    (made,) = yaml.safe_load_all(offline("-f", file(deployment("chat")), "-o", "yaml").stdout)
    assert (made["kind"], made["metadata"]["generateName"]) == ("Pod", "chat-")


def test_a_malformed_template_hides_no_other_document(file: Any) -> None:
    result = offline("-f", file(deployment("bad", container={"resources": []}), GOOD), "-o", "yaml")
    assert (result.exit_code, yaml.safe_load(result.stdout)["metadata"]["name"]) == (2, "trainer")
    assert "document 1: spec.containers[0].resources: wanted a map, saw a list" in result.stderr


def test_markup_in_text_is_printed_unchanged(file: Any) -> None:
    odd = pod("[red]x[/red]:smile:", 64)
    assert 'pod "[red]x[/red]:smile:"' in offline("-f", file(odd)).stdout


def test_in_shadow_mode_a_message_says_what_would_be_refused(file: Any) -> None:
    dry_run = file({"profiles": {"default": {"dryRun": True}}}, name="policy.yaml")
    result = offline("-f", file(BAD), "--policy", dry_run)
    assert result.exit_code == 0
    assert "  would be refused (dry run): " in result.stdout


def test_a_bad_policy_is_status_2_with_every_problem_on_its_line(file: Any) -> None:
    bad = file({"gpu": [], "profiles": {"default": {"dryRun": "maybe"}}}, name="policy.yaml")
    result = offline("-f", file(GOOD), "--policy", bad)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sorted(result.stderr.splitlines()) == [
        f'{bad}: line 1: gpu: unknown key; did you mean "gpus"?',
        f'{bad}: line 4: profiles.default.dryRun: saw "maybe"; wanted true or false',
    ]


# --- who decides, and where -------------------------------------------------------------------------------------------


def with_policy(folder: Path, text: str, *objects: Any) -> Path:
    metadata = {"name": "gpu-admission-policy", "namespace": "gpu-admission"}
    return write(folder, *objects, {"kind": "ConfigMap", "metadata": metadata, "data": {"policy.yaml": text}})


def test_a_policy_in_the_snapshot_decides(tmp_path: Path, file: Any) -> None:
    known = with_policy(tmp_path, "profiles: {default: {rules: {gpuLimit: {perContainer: 1}}}}", *NODES, OPTED_IN)
    given = ["-f", file(pod("two", 2)), "-n", "team", "--from", known]
    result = call("try", *given)
    assert (result.exit_code, "[gpuLimit]" in result.stdout) == (1, True)
    assert ", by the policy of the cluster, " in result.stderr
    other = call("try", *given, "--policy", "default")
    assert (other.exit_code, other.stderr) == (0, f"tried on {known}, by the shipped policy\n")


def test_what_the_hook_does_not_say_of_templates_is_said(tmp_path: Path, file: Any) -> None:
    text = "profiles: {default: {templates: {mode: 'off'}}}"
    known = with_policy(tmp_path, text, *NODES, OPTED_IN)
    result = call("try", "-f", file(deployment("greedy", 2, 64)), "-n", "team", "--from", known)
    assert (result.exit_code, "[gpuFits]" in result.stdout) == (1, True), result.stdout
    assert "deployment/greedy: 2 pods of 64 nvidia.com/gpu: refused" in result.stdout


def test_a_manifest_without_a_namespace_is_not_taken_for_one_that_was_not_asked_about(
    tmp_path: Path, file: Any
) -> None:
    known, one = write(tmp_path, *NODES, namespace("default"), OPTED_IN), file(pod("one", 1))
    result = call("try", "-f", one, "--from", known)
    assert (result.exit_code, result.stderr) == (
        2,
        f'error: {one}: document 1: names no namespace, and "default" has not opted in: give -n\n',
    )
    assert call("try", "-f", one, "-n", "team", "--from", known).exit_code == 0


def test_the_pods_that_daemonsets_run_on_each_node_are_on_added_ones_too(tmp_path: Path, file: Any) -> None:
    agent = placed(pod("agent", 0, container={"resources": {"requests": {"cpu": "120"}}}), "gpu-a")
    agent["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "agent", "uid": "d", "controller": True}]
    known = write(tmp_path, node("gpu-a"), OPTED_IN, agent)
    given = ["-f", file(job("train", 2, container={"resources": WHOLE})), "-n", "team", "--from", known]
    (answer,) = found(*given, "--add-node", "gpu-a=2")["items"]
    assert (answer["bound"], answer["waiting"]) == ({}, 2)


def test_a_file_of_the_cluster_with_kinds_that_nobody_reads_is_read(tmp_path: Path, file: Any) -> None:
    """Such as `kubectl get all` gives."""
    known = write(tmp_path, *NODES, OPTED_IN, {**SERVICE, "kind": "Odd"})
    assert call("try", "-f", file(pod("one", 1)), "-n", "team", "--from", known).exit_code == 0


# --- for CI -----------------------------------------------------------------------------------------------------------


def test_junit_and_sarif(file: Any) -> None:
    path = file(GOOD, pod("host\n\x1b", 1, hostPID=True), {"kind": "Pod"})
    junit = ElementTree.fromstring(offline("-f", path, "-o", "junit").stdout)
    (suite,) = junit
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        str(path),
        "3",
        "1",
        "1",
    )
    run = json.loads(offline("-f", path, "-o", "sarif").stdout)["runs"][0]
    assert [(each["ruleId"], each["level"]) for each in run["results"]] == [("hostNamespaces", "error")]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == str(path)


# --- what keeps pods from being created -------------------------------------------------------------------------------


def quota(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    metadata = {"name": "gpus", "namespace": "team"}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}, "status": {"used": used}}


@pytest.mark.parametrize(
    ("made", "starts", "text"),
    [
        pytest.param(quota({"requests.nvidia.com/gpu": "4"}, {"requests.nvidia.com/gpu": "1"}), 3, "quota gpus: 1 requests.nvidia.com/gpu asked for, 0 left", id="GPUs"),
        pytest.param(quota({"pods": "2", "requests.cpu": "1k"}, {"pods": "1"}), 1, "quota gpus: 1 pods asked for, 0 left", id="pods"),
        pytest.param(quota({"cpu": "9", "memory": "1Gi"}, {}), 0, "quota gpus: 32Gi memory asked for, 1Gi left", id="memory"),
        pytest.param(quota({"pods": "0"}, {}, scopes=["BestEffort"]), 5, None, id="one with scopes is left to the API server"),
    ],
)  # fmt: skip
def test_pods_that_a_quota_does_not_let_be_created(
    tmp_path: Path, made: dict[str, Any], starts: int, text: str | None
) -> None:
    file = manifest(tmp_path, job("train", 5, container={"resources": SHARE}))
    (answer,) = found("-f", file, "-n", "team", "--from", write(tmp_path, *CLUSTER, made))["items"]
    assert (sum(answer["bound"].values()), answer["waiting"]) == (starts, 5 - starts)
    assert [(each["cause"], each["text"]) for each in answer["causes"]] == (
        [("quotaExceeded", f"it could not be created: {text}")] if text else []
    )


def test_pods_in_a_queue_are_not_said_to_start_at_once(tmp_path: Path) -> None:
    made = manifest(tmp_path, job("train", labels={"kueue.x-k8s.io/queue-name": "q"}))
    admitted = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "KueueWorkload", "metadata": {"name": "w"}}
    for known, begins in (
        ([admitted], 'Kueue holds it back first, in queue "q"'),
        ([], "its label kueue.x-k8s.io/queue-name=q does nothing unless Kueue runs here"),
    ):
        (answer,) = found("-f", made, "-n", "team", "--from", write(tmp_path, *CLUSTER, *known))["items"]
        assert [note for note in answer["notes"] if "ueue" in note and note.startswith(begins)], answer["notes"]


_OF_SET = {"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-key": "k"}
_SET = {"size": 4, "workerTemplate": {"spec": pod("w", container={"resources": WHOLE})["spec"]}}


@pytest.mark.parametrize(
    ("labels", "controller", "made", "of"),
    [
        pytest.param(_OF_SET, ("StatefulSet", "vllm"), {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "vllm"}, "spec": {"replicas": 1, "leaderWorkerTemplate": _SET}}, "leaderworkerset/vllm", id="a LeaderWorkerSet"),
        pytest.param({"jobset.sigs.k8s.io/jobset-name": "fit"}, ("Job", "fit-w-0"), {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "fit"}, "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": {**TRAIN["spec"], "parallelism": 4}}}]}}, "jobset/fit", id="a JobSet"),
    ],
)  # fmt: skip
def test_nobody_is_told_to_wait_for_the_workload_that_he_tries(
    tmp_path: Path, labels: dict[str, str], controller: tuple[str, str], made: dict[str, Any], of: str
) -> None:
    kind, name = controller
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    there = [placed(pod(f"it-{x}", labels=labels, container={"resources": WHOLE}), f"gpu-{x}") for x in "abc"]
    for each in there:
        each["metadata"]["ownerReferences"] = [owner]
    (answer,) = found(
        "-f", manifest(tmp_path, made), "-n", "team", "--from", write(tmp_path, *NODES, OPTED_IN, *there)
    )["items"]
    (taken,) = [each for each in answer["causes"] if each["cause"] == "gpusTaken"]
    assert taken["text"].endswith(f"its own workload, {of} in team, has 24 of them")
    assert [each["text"] for each in taken["fixes"]] == ["add a node"]

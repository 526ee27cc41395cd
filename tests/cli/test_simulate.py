"""`gpu-admission simulate`: which pods would start, without and with the webhook.

Covers cli.page, cli.simulating.picture, cli.simulating.run, cli.simulating.trace.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.objects import OPTED_IN, Page, call, document, namespace, placed, terminal, with_metrics, write
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

TABLE = """\
NAMESPACE   WORKLOAD          PODS   GPUS EACH          WITHOUT           WITH
team        deployment/chat      2   1 nvidia.com/gpu   all start         all start
team        job/train            2   8 nvidia.com/gpu   0 start, 2 wait   all start

team/deployment/chat
  without the webhook: gpu-b (1), gpu-c (1)
  with the webhook: gpu-a (2)

team/job/train
  without the webhook: on no node; waits: GPUs fragmented
  with the webhook: gpu-b (1), gpu-c (1)

LEFT          RESOURCE         BEFORE   WITHOUT   WITH
free GPUs     nvidia.com/gpu       22        20      4
whole nodes   nvidia.com/gpu        2         0      0
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path, *CLUSTER)


def manifest(folder: Path, *objects: Any) -> Path:
    path = folder / "pods.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return path


def found(*arguments: Any) -> Any:
    return document("simulate", *arguments)


def test_the_table(tmp_path: Path, cluster: Path) -> None:
    result = call("simulate", "-f", manifest(tmp_path, CHAT, TRAIN), "-n", "team", "--cluster", cluster)
    assert (result.stdout, result.stderr) == (TABLE, "")
    assert result.exit_code == 0


def test_pods_that_wait_have_the_causes_of_pending_and_status_1(tmp_path: Path, cluster: Path) -> None:
    file = manifest(tmp_path, job("train", 4, container={"resources": WHOLE}))
    result = call("simulate", "-f", file, "-n", "team", "--cluster", cluster)
    assert result.exit_code == 1
    assert "2 start, 2 wait   2 start, 2 wait" in result.stdout
    assert "  2 pods would wait:\n! gpusTaken: all GPUs are taken: 8 nvidia.com/gpu asked for" in result.stdout
    assert "pod/runs in team (2 nvidia.com/gpu on gpu-a) to end" in result.stdout, "the pod whose end would help"


def test_added_nodes_are_up_even_if_the_node_that_they_are_like_is_not(tmp_path: Path) -> None:
    going = ["ToBeDeletedByClusterAutoscaler=1:NoSchedule", GPU_TAINT]
    sick = write(tmp_path, node("gpu-a", ready=False, cordoned=True, taints=going), OPTED_IN)
    twice = ["--add-node", "gpu-a=1"] * 2
    answer = found("-f", manifest(tmp_path, TRAIN), "-n", "team", "--cluster", sick, *twice)
    assert answer["workloads"][0]["with"]["bound"] == {"gpu-a-new-1": 1, "gpu-a-new-2": 1}
    untolerated = {cause["cause"] for cause in answer["workloads"][0]["without"]["causes"]}
    assert "untoleratedTaint" in untolerated, "taints of the pool stay"


def test_refused_pods_have_their_message(tmp_path: Path, cluster: Path) -> None:
    conflict = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
    exposed = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "resources": SHARE}
    file = manifest(tmp_path, pod("unsure", container={"resources": conflict}), pod("greedy", container=exposed))
    result = call("simulate", "-f", file, "-n", "team", "--cluster", cluster)
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines()[1:3]]
    assert rows[0][-2:] == ["refused", "refused"], "the API server refuses it too"
    assert rows[1][-3:] == ["all", "start", "refused"]
    assert '  refused: pod "greedy": spec.containers[0].env[0]: saw NVIDIA_VISIBLE_DEVICES="all"' in result.stdout


def test_in_a_namespace_that_has_not_opted_in_both_runs_are_equal(tmp_path: Path, cluster: Path) -> None:
    answer = found("-f", manifest(tmp_path, CHAT), "-n", "plain", "--cluster", cluster)["workloads"][0]
    assert answer["with"] == answer["without"]
    assert answer["notes"][0].startswith("namespace plain has not opted in, so the webhook is not asked (kubectl label")


def test_pods_that_wait_already_go_first_unless_the_new_ones_have_priority(tmp_path: Path) -> None:
    waits = placed(pod("waits", 8, priority=500), None)
    few = write(tmp_path, node("gpu-a"), OPTED_IN, *CLASSES, waits)
    more = ["-n", "team", "--cluster", few, "--policy", "default"]
    serves = job("chat", 1, container={"resources": WHOLE}, labels={"workload-type": "inference"})
    low, high = (found("-f", manifest(tmp_path, each), *more) for each in (TRAIN, serves))
    assert low["waited"] == {"before": 1, "without": 1, "with": 1}
    assert high["waited"] == {"before": 1, "without": 1, "with": 0}
    assert high["starts"]


def test_a_daemonset_is_not_simulated(tmp_path: Path, cluster: Path) -> None:
    daemon = {**CHAT, "kind": "DaemonSet"}
    answer = found("-f", manifest(tmp_path, daemon), "-n", "team", "--cluster", cluster)["workloads"][0]
    assert (answer["pods"], answer["notes"]) == (
        0,
        ["a DaemonSet: its controller puts one on each node, so there is nothing to choose"],
    )


def test_each_template_of_an_object_is_looked_at(tmp_path: Path, cluster: Path) -> None:
    exposed = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "resources": SHARE}
    replicas = {name: {"template": {"spec": pod(name, container=made)["spec"]}} for name, made in (("Master", {"resources": SHARE}), ("Worker", exposed))}  # fmt: skip
    torch = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}, "spec": {"pytorchReplicaSpecs": replicas}}  # fmt: skip
    given = ["-f", manifest(tmp_path, torch), "-n", "team", "--cluster", cluster]
    (master, worker), printed = found(*given)["workloads"], call("simulate", *given).stdout
    assert [master["template"], worker["template"]] == [f"spec.pytorchReplicaSpecs.{of}" for of in ("Master", "Worker")]
    assert (master["starts"], worker["starts"], worker["with"]["refused"]) == (True, False, True)
    assert "\nteam/pytorchjob/t spec.pytorchReplicaSpecs.Worker\n  refused: pod generateName" in printed


def test_the_number_of_pods_that_something_else_decides_is_not_claimed(tmp_path: Path, cluster: Path) -> None:
    ray = {"headGroupSpec": {}, "workerGroupSpecs": [{"template": pod("one", container={"resources": SHARE})}]}
    made = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": ray}
    (answer,) = found("-f", manifest(tmp_path, made), "-n", "team", "--cluster", cluster)["workloads"]
    assert (answer["pods"], answer["notes"][-1]) == (1, "how many pods it makes is not known: this is one")


def test_the_claim_of_an_ephemeral_volume_will_be_made(tmp_path: Path, cluster: Path) -> None:
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    (answer,) = found("-f", manifest(tmp_path, job("train", volumes=[volume])), "-n", "team", "--cluster", cluster)["workloads"]  # fmt: skip
    assert answer["starts"]


def test_a_node_that_is_unhealthy_is_named_where_a_pod_would_start_on_it(tmp_path: Path) -> None:
    sick = write(tmp_path, node("gpu-a", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), OPTED_IN)
    [answer] = found("-f", manifest(tmp_path, job("train")), "-n", "team", "--cluster", sick)["workloads"]
    assert answer["with"]["bound"] == {"gpu-a": 1}
    assert answer["notes"][-1] == "gpu-a is unhealthy, so the webhook never chooses it; the scheduler may"


def test_a_workload_may_have_more_replicas_than_one_owner_may_have_reservations(tmp_path: Path) -> None:
    many = write(tmp_path, *[node(f"gpu-{number}") for number in range(8)], OPTED_IN)
    answer = found("-f", manifest(tmp_path, deployment("chat", 60)), "-n", "team", "--cluster", many)["workloads"][0]
    assert sum(answer["with"]["bound"].values()) == 60
    assert max(answer["with"]["bound"].values()) <= 8


# --- traces -----------------------------------------------------------------------------------------------------------


def test_a_trace_is_placed_line_by_line(tmp_path: Path, cluster: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("gpus,cpu,memory,count,model\n1,4,16Gi,6,\n8,64,256Gi,2,NVIDIA-A100-SXM4-80GB\n")
    one, eight = found("--trace", trace, "-n", "team", "--cluster", cluster)["workloads"]
    assert (one["of"], one["pods"], eight["of"], eight["pods"]) == ("trace of 1 GPU", 6, "trace of 8 GPUs", 2)
    assert (sum(one["with"]["bound"].values()), eight["with"]["bound"]) == (6, {"gpu-c": 1})
    assert eight["without"]["waiting"] == 2


def test_a_line_of_a_trace_that_is_refused_does_not_hide_behind_others(tmp_path: Path, cluster: Path) -> None:
    trace, policy = tmp_path / "t.csv", tmp_path / "policy.yaml"
    trace.write_text("gpus,cpu,memory,count,model\n1,8,32Gi,2,\n1,8,32Gi,3,none\n1,8,32Gi,1,\n")
    policy.write_text(json.dumps({"profiles": {"default": {"rules": {"gpuFits": {"whenItMayChange": "deny"}}}}}))
    good, bad = found("--trace", trace, "-n", "team", "--cluster", cluster, "--policy", policy)["workloads"]
    assert (good["pods"], good["starts"], good["message"]) == (3, True, "")
    assert (bad["pods"], bad["starts"], bad["with"]["refused"]) == (3, False, True)


@pytest.mark.parametrize(
    ("on_terminal", "lines", "shown"),
    [
        pytest.param(True, 200, True, id="a long trace"),
        pytest.param(True, 5, False, id="a short trace"),
        pytest.param(False, 200, False, id="a long trace, no terminal"),
    ],
)
def test_a_long_trace_shows_how_far_it_is(
    tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch, on_terminal: bool, lines: int, shown: bool
) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("gpus\n" + "1\n" * lines)
    if on_terminal:
        terminal(monkeypatch, 100)
    result = call("simulate", "--trace", trace, "-n", "team", "--cluster", cluster)
    assert ("%" in result.stderr, "%" in result.stdout) == (shown, False)
    assert on_terminal or not result.stderr


def test_pods_of_a_trace_tolerate_the_taints_of_gpu_nodes(tmp_path: Path) -> None:
    tainted = write(tmp_path, node("gpu-a", taints=[GPU_TAINT]), node("gpu-b", cordoned=True), OPTED_IN)
    trace = tmp_path / "t.csv"
    trace.write_text("gpus\n1\n")
    assert found("--trace", trace, "-n", "team", "--cluster", tainted)["workloads"][0]["without"]["bound"] == {
        "gpu-a": 1
    }


# --- the picture ------------------------------------------------------------------------------------------------------


def test_the_picture_loads_nothing_and_escapes_names(tmp_path: Path) -> None:
    evil = write(tmp_path, *CLUSTER, node("<script>alert(1)</script>", labels={"node-pool": "<b>"}))
    html = tmp_path / "p.html"
    call("simulate", "-f", manifest(tmp_path, CHAT, TRAIN), "-n", "team", "--cluster", evil, "--html", html)
    text = html.read_text()
    page = Page(text)
    assert page.links == []
    assert {"script", "b", "link", "img"}.isdisjoint(page.tags)
    assert "&lt;script&gt;alert(1)" in text
    assert 'class="new"' in text


def test_nodes_are_ranked_by_the_gpu_metrics_of_the_snapshot(tmp_path: Path) -> None:
    """All GPUs of two nodes are busy although no pod requests them: they do not count as free."""
    numbers = [(name, 90.0 if name != "gpu-b" else 0.0) for name in ("gpu-a", "gpu-b", "gpu-c")]
    samples = [[name, str(gpu), "utilisation", value, ""] for name, value in numbers for gpu in range(8)]
    file = with_metrics(write(tmp_path, *NODES, OPTED_IN, PLAIN, *CLASSES), samples)
    policy = tmp_path / "policy.yaml"
    policy.write_text("gpuMetrics: {source: prometheus, url: http://prometheus.monitoring:9090}")
    one = job("train", 1, container={"resources": WHOLE})
    given = ["-f", manifest(tmp_path, one), "-n", "team", "--cluster", file]
    for more, node_of in (([], "gpu-b"), (["--metrics", "off"], "gpu-a")):
        answer = found(*given, "--policy", policy, *more)["workloads"][0]
        assert answer["with"]["bound"] == {node_of: 1}
    assert found(*given)["workloads"][0]["with"]["bound"] == {"gpu-a": 1}, "a policy without metrics"


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param([], "wanted -f FILE or --trace FILE: the pods to try", id="nothing"),
        pytest.param(["-f", "/no"], "/no: cannot be read: No such file or directory.", id="no such file"),
        pytest.param(["-f", "{file}", "--add-node", "gpu-z=1"], 'no node "gpu-z" for --add-node; did you mean gpu-', id="no such node"),
        pytest.param(["-f", "{file}", "--add-node", "gpu-a"], '--add-node: saw "gpu-a", wanted NODE=COUNT, as gpu-a=2', id="no count"),
        pytest.param(["-f", "{file}", "--html", "/no/p.html"], "/no/p.html: cannot be written: No such file", id="no such folder"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_with_status_2(tmp_path: Path, cluster: Path, arguments: list[str], said: str) -> None:
    file = manifest(tmp_path, CHAT)
    result = call("simulate", *[a.format(file=file) for a in arguments], "--cluster", cluster)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {said}")


def test_a_file_without_pods_is_an_error(tmp_path: Path, cluster: Path) -> None:
    result = call("simulate", "-f", manifest(tmp_path, PLAIN), "--cluster", cluster)
    assert result.exit_code == 2
    assert result.stderr.endswith(
        "no pod and no workload in it that makes some (templates.custom of the policy names other kinds)\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "line 1: saw no column gpus, wanted one: gpus, cpu,", id="nothing"),
        pytest.param("gpus\n", "no pod in it: wanted CSV", id="only a header"),
        pytest.param("gpu\n1\n", 'line 1: no column is called "gpu"; did you mean gpus?', id="a misspelt column"),
        pytest.param("gpus\nfour\n", 'line 2: gpus: saw "four", wanted a whole number', id="gpus that are not a number"),
        pytest.param("gpus,cpu\n1,a lot\n", 'line 2: cpu: saw "a lot", wanted a quantity', id="cpu that is not a quantity"),
        pytest.param("gpus,cpu\n1,-1\n", 'line 2: cpu: saw "-1", wanted a quantity', id="less than nothing"),
        pytest.param("gpus,cpu\n1,8\n1,8,64Gi\n", "line 3: saw more values than line 1 has columns", id="a value without a column"),
        pytest.param('gpus\n"1', "not CSV: ", id="not CSV"),
    ],
)  # fmt: skip
def test_an_error_in_a_trace_has_its_line(tmp_path: Path, cluster: Path, text: str, said: str) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(text)
    result = call("simulate", "--trace", trace, "--cluster", cluster)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_empty_cluster_has_no_table_of_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(deployment("chat", 1)))
    result = call("simulate", "-f", tmp_path / "job.yaml", "--cluster", write(tmp_path))
    assert "noNodes: the cluster has no node" in result.stdout
    assert "LEFT" not in result.stdout

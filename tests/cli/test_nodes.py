"""`gpu-admission nodes`: the table and the document.

Covers cli.cluster.report, cli.cluster.devices.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.objects import CLUSTER, call, placed, write
from tests.controlplane.nodes import node
from tests.controlplane.objects import pod
from webhook.cli import nodes as command
from webhook.cli.cluster.report import pools

TABLE = """\
NODE    POOL        MODEL                   HEALTH     RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   UNUSABLE   USED
gpu-a   training    NVIDIA-A100-SXM4-80GB   healthy    nvidia.com/gpu       8           6          0      2          0   ██████░░
gpu-b   inference   NVIDIA-L4               healthy    nvidia.com/gpu       4           0          0      4          0   ░░░░░░░░
gpu-c   training    NVIDIA-A100-SXM4-80GB   notReady   nvidia.com/gpu       8           0          0      0          8   ░░░░░░░░

POOL        NODES   RESOURCE         TOTAL   ALLOCATED   PROMISED   FREE   UNUSABLE   USED
inference       1   nvidia.com/gpu       4           0          0      4          0   ░░░░░░░░
training        2   nvidia.com/gpu      16           6          0      2          8   ███░░░░░
all GPUs        3   nvidia.com/gpu      20           6          0      6          8   ██░░░░░░

largest job that could start now: 1 node × 4 GPUs of NVIDIA-L4, with no tolerations but the webhook's
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path, *CLUSTER)


ALONE = ", with no tolerations but the webhook's"


def test_the_table(cluster: Path) -> None:
    result = call("nodes", "--cluster", cluster)
    left_out = "unusable: free on nodes that take no pods, or sick\n"
    said = f"{left_out}which GPUs are idle is not known: {cluster} has no GPU metrics\n"
    assert (result.exit_code, result.stderr) == (0, said)
    assert result.stdout == TABLE


def test_pods_that_a_node_rejected_are_counted_with_its_health(tmp_path: Path) -> None:
    rejected = [
        placed(pod(f"r{number}"), "gpu-a", phase="Failed", reason=reason)
        for number, reason in enumerate(["UnexpectedAdmissionError", "OutOfnvidia.com/gpu", "Evicted"])
    ]
    cluster = write(tmp_path, *CLUSTER, *rejected)
    assert "healthy, 2 rejected" in call("nodes", "gpu-a", "--cluster", cluster).stdout
    (found,) = json.loads(call("nodes", "gpu-a", "--cluster", cluster, "-o", "json").stdout)
    assert (found["rejected"], found["gpus"]["nvidia.com/gpu"]["allocated"]) == (2, 6)


def test_gpus_that_are_not_allocatable_are_counted_with_the_health(tmp_path: Path) -> None:
    sick = node("a", 7)
    sick["status"]["capacity"] = {**sick["status"]["allocatable"], "nvidia.com/gpu": "8"}
    cluster = write(tmp_path, sick)
    assert "healthy, 1 withdrawn" in call("nodes", "--cluster", cluster).stdout
    (found,) = json.loads(call("nodes", "--cluster", cluster, "-o", "json").stdout)
    assert (found["withdrawn"], found["gpus"]["nvidia.com/gpu"]["total"]) == (1, 7)


def test_wide_shows_cpu_and_memory_beside_the_gpus(tmp_path: Path) -> None:
    busy = placed(pod("p", 2, container={"resources": {"requests": {"cpu": "28", "memory": "256Gi"}}}), "a")
    cluster = write(tmp_path, node("a"), busy)
    (title, row, *_) = call("nodes", "--cluster", cluster, "-o", "wide").stdout.splitlines()
    assert title.index("FREE CPU") == row.index("100 of 128")
    assert title.index("FREE MEMORY") == row.index("768Gi of 1Ti")


def test_the_document(cluster: Path) -> None:
    found = json.loads(call("nodes", "-l", "node-pool in (training)", "--cluster", cluster, "-o", "json").stdout)
    assert [each["name"] for each in found] == ["gpu-a", "gpu-c"]
    assert found[0] == {
        "name": "gpu-a",
        "pool": "training",
        "model": "NVIDIA-A100-SXM4-80GB",
        "ready": True,
        "health": "healthy",
        "taints": [],
        "gpus": {"nvidia.com/gpu": {"total": 8, "allocated": 6, "promised": 0, "free": 2}},
        "pods": [
            {
                "namespace": "team",
                "name": "trainer",
                "owner": "pod/trainer",
                "class": "development",
                "since": 0,
                "gpus": {"nvidia.com/gpu": 6},
            }
        ],
        "host": {"cpu": {"total": 128000, "free": 128000}, "memory": {"total": 1 << 40, "free": 1 << 40}},
    }
    assert yaml.safe_load(call("nodes", "-l", "node-pool=training", "--cluster", cluster, "-o", "yaml").stdout) == found


def test_why_nobody_knows_since_when_gpus_are_idle_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS, kinds=["Node", "Pod"])
    metered(file, {"a": 7})
    wanted = f"as the running webhook counts it: {file} has no metrics of the replicas"
    assert wanted in call("nodes", "--by", "namespace", "--cluster", file).stderr
    assert wanted not in call("nodes", "--by", "owner", "--cluster", file).stderr


@pytest.mark.parametrize(("by", "first"), [([], "POOL"), (["--by", "model"], "MODEL")])
def test_sums_keep_their_name_on_a_narrow_terminal(
    cluster: Path, monkeypatch: pytest.MonkeyPatch, by: list[str], first: str
) -> None:
    for key, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "44", "TERM": "xterm"}.items():
        monkeypatch.setenv(key, value)
    lines = call("nodes", *by, "--cluster", cluster).stdout.splitlines()
    assert [line for line in lines if line.split()[:2] == [first, "NODES"]]
    assert max(map(len, lines)) <= 44


@pytest.mark.parametrize(
    ("objects", "line", "steps"),
    [
        pytest.param(
            [node("a"), node("b"), node("c"), placed(pod("p", 4), "c")],
            "2 nodes × 8 GPUs of NVIDIA-A100-SXM4-80GB, or 3 nodes × 4",
            [{"nodes": 2, "gpus": 8}, {"nodes": 3, "gpus": 4}],
            id="each size",
        ),
        pytest.param(
            [node("a", 1, "NVIDIA-L4"), node("b", cordoned=True)],
            "1 node × 1 GPU of NVIDIA-L4",
            [{"nodes": 1, "gpus": 1}],
            id="a cordoned node",
        ),
        pytest.param(
            [node("a", 4, "Tesla-T4", replicas=4), node("b", 2, "NVIDIA-L4")],
            "1 node × 2 GPUs of NVIDIA-L4",
            [{"nodes": 1, "gpus": 2}],
            id="shares are no GPUs",
        ),
        pytest.param([node("a", cpu="0")], "none, as no healthy node has a free GPU and CPU", None, id="no CPU"),
    ],
)
def test_the_largest_job_that_could_start_now(
    tmp_path: Path, objects: list[dict[str, Any]], line: str, steps: list[dict[str, int]] | None
) -> None:
    cluster = write(tmp_path, *objects)
    for by in ((), ("--by", "model")):
        said = f"\nlargest job that could start now: {line}{'' if steps is None else ALONE}\n"
        assert call("nodes", *by, "--cluster", cluster).stdout.endswith(said)
    found = json.loads(call("nodes", "--by", "model", "--cluster", cluster, "-o", "json").stdout)
    first = [each["largest"] for each in found if each["largest"] and each["model"] != "Tesla-T4-SHARED"]
    assert first == ([{"nvidia.com/gpu": steps}] if steps else [])


def of_job(name: str, gpus: int, on: str, namespace: str = "team", **labels: str) -> dict[str, Any]:
    made = placed(pod(name, gpus, labels=labels), on)
    owner = {"kind": "Job", "name": "train", "uid": "1", "controller": True}
    return made | {"metadata": made["metadata"] | {"namespace": namespace, "ownerReferences": [owner]}}


HOLDERS = (
    *(node("a"), node("b", 4, "NVIDIA-L4"), node("cpu", 0)),
    *(of_job("one", 2, "a"), of_job("two", 2, "b"), of_job("three", 1, "b", "other")),
    placed(pod("chat", 3, labels={"workload-type": "inference"}), "a", startTime="2026-11-18T08:00:00Z"),
    placed(pod("waits", 8), None),
)
"""It is not known since when pods run, but for one."""


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("namespace", [["team", "3", "2", "nvidia.com/gpu", "7"], ["other", "1", "1", "nvidia.com/gpu", "1"]]),
        (
            "owner",
            [
                ["team/job/train", "2", "2", "nvidia.com/gpu", "4"],
                ["team/pod/chat", "1", "1", "3h", "nvidia.com/gpu", "3"],
                ["other/job/train", "1", "1", "nvidia.com/gpu", "1"],
            ],
        ),
        (
            "class",
            [["training", "3", "2", "nvidia.com/gpu", "5"], ["inference", "1", "1", "3h", "nvidia.com/gpu", "3"]],
        ),
    ],
)
def test_who_has_the_gpus(tmp_path: Path, by: str, rows: list[list[str]]) -> None:
    file = write(tmp_path, *HOLDERS)
    lines = call("nodes", "--by", by, "--cluster", file).stdout.splitlines()
    assert lines[0].split() == [by.upper(), "PODS", "NODES", "SINCE", "RESOURCE", "GPUS"]
    assert [line.split() for line in lines[1:]] == rows
    documents = json.loads(call("nodes", "--by", by, "--cluster", file, "-o", "json").stdout)
    assert [[each[by], each["pods"], each["nodes"], *each["gpus"].values()] for each in documents] == [
        [name, int(pods), int(nodes), int(gpus)] for name, pods, nodes, *_, gpus in rows
    ]
    started = {each[by]: each["since"] for each in documents if each["since"]}
    assert set(started.values()) <= {1_794_988_800}
    assert [*started] == [row[0] for row in rows if "3h" in row]


NOBODYS = "of several on one node (its metrics do not say which pod has which GPU)"


def metered(file: Path, idle: dict[str, int], pods: Mapping[str, list[str]] | None = None) -> None:
    """GPU metrics for a snapshot: so many GPUs of each node are idle, the others are not. `pods`: by node, of each GPU the pod."""
    found = json.loads(file.read_text())
    samples = [
        [name, str(gpu), "utilisation", 0.0 if gpu < number else 90.0, *more]
        for name, number in idle.items()
        for gpu, more in enumerate([("", pod) for pod in (pods or {}).get(name, ())] or [("",)] * 8)
    ]
    found["snapshot"]["gpuMetrics"] = {"source": "dcgm", "samples": samples}
    file.write_text(json.dumps(found))


def replica(name: str, **idle: dict[str, int]) -> dict[str, Any]:
    """What a replica of the webhook counts: idle GPUs of each namespace by how long they have been."""
    samples = [
        ["gpu_admission_idle_gpus", {"namespace": namespace, "idle_for": word}, float(number)]
        for namespace, numbers in idle.items()
        for word, number in numbers.items()
    ]
    metadata = {"name": name, "namespace": "gpu-admission"}
    return {"kind": "ReplicaMetrics", "metadata": metadata, "spec": {}, "status": {"samples": samples}}


def test_whose_the_idle_gpus_are_and_for_how_long(tmp_path: Path) -> None:
    seen = [
        replica("young", team={"window": 4, "1h": 0, "6h": 0, "1d": 0}),
        replica("old", team={"window": 4, "1h": 4, "6h": 2, "1d": 2}, other={"window": 1, "1h": 0}),
    ]
    file = write(tmp_path, *HOLDERS, *seen)
    metered(file, {"a": 7, "b": 3})
    result = call("nodes", "--by", "namespace", "--cluster", file)
    assert [line.split(maxsplit=6) for line in result.stdout.splitlines()] == [
        ["NAMESPACE", "PODS", "NODES", "SINCE", "RESOURCE", "GPUS", "IDLE NOW   IDLE FOR"],
        ["team", "3", "2", "nvidia.com/gpu", "7", "5", "2 for 1d, 4 for 1h"],
        ["other", "1", "1", "nvidia.com/gpu", "1", "0", "less than 1h"],
    ]
    assert result.stderr == f"at least 1 more idle, {NOBODYS}: b\n"
    documents = json.loads(call("nodes", "--by", "namespace", "--cluster", file, "-o", "json").stdout)
    assert [each["idle"] for each in documents] == [5, 0]
    assert documents[0]["idleFor"] == {"window": 4, "1h": 4, "6h": 2, "1d": 2}


def test_an_idle_gpu_that_may_be_that_of_several_is_nobodys(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    metered(file, {"a": 6, "b": 3})
    result = call("nodes", "--by", "owner", "--cluster", file)
    assert [line.split()[-1] for line in result.stdout.splitlines()[1:]] == ["1", "1", "0"], (
        "of train, chat, other's train"
    )
    assert result.stderr == f"at least 3 more idle, {NOBODYS}: a, b\n"


LABELLED = {"b": ["other/three", "", "team/two", "team/two"]}
"""The pod of each GPU of a node, as labels of metrics say."""


@pytest.mark.parametrize(
    ("by", "idle", "more"),
    [
        ("namespace", {"team": 3, "other": 1}, ""),
        ("owner", {"team/job/train": 0, "team/pod/chat": 1, "other/job/train": 1}, f"at least 2 more idle, {NOBODYS}: a\n"),
        ("class", {"training": 1, "inference": 1}, f"at least 2 more idle, {NOBODYS}: a\n"),
    ],
)  # fmt: skip
def test_an_idle_gpu_is_that_of_the_pod_that_the_labels_of_metrics_name(
    tmp_path: Path, by: str, idle: dict[str, int], more: str
) -> None:
    """Of b's four GPUs two are idle, one of them is free. Of a's eight six are, three of them free."""
    file = write(tmp_path, *HOLDERS)
    metered(file, {"a": 6, "b": 2}, LABELLED)
    result = call("nodes", "--by", by, "--cluster", file)
    assert result.stderr.partition("since when")[0] == more
    documents = json.loads(call("nodes", "--by", by, "--cluster", file, "-o", "json").stdout)
    assert {each[by]: each["idle"] for each in documents} == idle
    (b,) = json.loads(call("nodes", "b", "--cluster", file, "-o", "json").stdout)
    assert (b["idle"], {pod["name"]: (pod["measured"], pod["idle"]) for pod in b["pods"]}) == (
        1,
        {"two": (2, 0), "three": (1, 1)},
    )


def test_where_nothing_measures_it_is_said_once(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    for by in ([], ["--by", "owner"], ["--by", "model"]):
        assert call("nodes", *by, "--cluster", file).stderr.count("which GPUs are idle is not known") == 1
        assert call("nodes", *by, "--cluster", file, "-o", "json").stderr == ""


def test_the_gpus_of_each_model(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    text = call("nodes", "--by", "model", "--cluster", file).stdout.replace("all GPUs", "all-GPUs")
    lines = [line.split()[:6] for line in text.splitlines()[:-2]]
    assert lines == [
        ["MODEL", "NODES", "RESOURCE", "TOTAL", "ALLOCATED", "PROMISED"],
        ["NVIDIA-A100-SXM4-80GB", "1", "nvidia.com/gpu", "8", "5", "0"],
        ["NVIDIA-L4", "1", "nvidia.com/gpu", "4", "3", "0"],
        ["all-GPUs", "2", "nvidia.com/gpu", "12", "8", "0"],
    ]
    documents = json.loads(call("nodes", "--by", "model", "--cluster", file, "-o", "json").stdout)
    assert [each["model"] for each in documents] == ["NVIDIA-A100-SXM4-80GB", "NVIDIA-L4", None]


def test_only_the_nodes_of_a_model(tmp_path: Path) -> None:
    file = write(tmp_path, *HOLDERS)
    lines = call("nodes", "--model", "a100", "--by", "owner", "--cluster", file).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["OWNER", "team/pod/chat", "team/job/train"]
    wrong = call("nodes", "--model", "h100", "--cluster", file)
    assert wrong.exit_code == 2
    assert (
        'saw "h100", wanted a part of the name of a model; nodes have NVIDIA-A100-SXM4-80GB, NVIDIA-L4' in wrong.stderr
    )


def test_several_nodes_are_as_hot_as_the_hottest() -> None:
    nodes = [{"pool": "p", "gpus": {}, "temperature": degrees} for degrees in (50, 70, 60)]
    assert [found["temperature"] for found in pools(nodes)] == [70]


def test_nobody_has_gpus(tmp_path: Path) -> None:
    assert call("nodes", "--by", "owner", "--cluster", write(tmp_path, node("a"))).stderr == "no pod has GPUs there\n"


@pytest.mark.parametrize(
    ("made", "health"),
    [
        pytest.param(node("n"), "healthy", id="healthy"),
        pytest.param(node("n", cordoned=True), "cordoned", id="cordoned"),
        pytest.param(node("n", ready=False), "notReady", id="not ready"),
        pytest.param(node("n", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}), "unhealthy", id="a failed driver"),
        pytest.param(node("n", resources={"nvidia.com/gpu": "0"}), "offersNoGpus", id="a device plugin that offers nothing"),
        pytest.param(node("n", mig={"1g.10gb": 7}), "healthy", id="MIG instances"),
    ],
)  # fmt: skip
def test_health(tmp_path: Path, made: dict[str, object], health: str) -> None:
    found = json.loads(call("nodes", "--cluster", write(tmp_path, made), "-o", "json").stdout)
    assert [each["health"] for each in found] == [health]


def test_a_node_whose_gpus_come_by_dra_is_healthy(tmp_path: Path) -> None:
    spec = {"nodeName": "n", "driver": "gpu.nvidia.com", "pool": {"name": "n"}, "devices": []}
    slices = {"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}
    made = node("n", resources={"nvidia.com/gpu": "0"})
    found = json.loads(call("nodes", "--cluster", write(tmp_path, made, slices), "-o", "json").stdout)
    assert [each["health"] for each in found] == ["healthy"]


def slices(name: str, devices: list[dict[str, Any]], *, generation: int = 1, **spec: Any) -> dict[str, Any]:
    pool = {"name": "n", "generation": generation, "resourceSliceCount": 1}
    head = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": pool, "devices": devices}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": head | spec}


def claim(name: str, *devices: str, users: Iterable[str] = (), **result: Any) -> dict[str, Any]:
    results = [{"driver": "gpu.nvidia.com", "pool": "n", "device": device, **result} for device in devices]
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    field = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    on = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    status = {"allocation": {"devices": {"results": results}, "nodeSelector": on}, "reservedFor": reserved}
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": "team"}, "status": status}


def test_without_a_label_the_model_is_what_the_driver_tells(tmp_path: Path) -> None:
    gpu = {"name": "gpu-0", "attributes": {"productName": {"string": "NVIDIA H100 PCIe"}}}
    made = node("n", 0)
    file = write(tmp_path, made, slices("s", [gpu]), kinds=["Node", "Pod", "ResourceSlice", "ResourceClaim"])
    assert [each["model"] for each in json.loads(call("nodes", "--cluster", file, "-o", "json").stdout)] == [
        "NVIDIA-H100-PCIe"
    ]
    assert call("nodes", "--model", "h100", "--cluster", file).exit_code == 0


PLAIN = node("n", resources={"nvidia.com/gpu": "0"})
WHOLE = [{"name": f"gpu-{number}"} for number in range(4)]
COUNTERS = [{"name": name, "counters": {"slices": {"value": "8"}}} for name in ("gpu-0", "gpu-1")]
SPLIT = [
    {
        "name": name,
        "consumesCounters": [
            {"counterSet": name[:5], "counters": {"slices": {"value": "1" if "mig" in name else "8"}}}
        ],
    }
    for name in ("gpu-0", "gpu-0-mig-1g-0", "gpu-0-mig-1g-1", "gpu-1", "gpu-1-mig-1g-0")
]


@pytest.mark.parametrize(
    ("objects", "wanted"),
    [
        pytest.param([slices("s", WHOLE)], (4, 0, 4), id="none claimed"),
        pytest.param([slices("s", WHOLE), claim("c", "gpu-0", "gpu-2")], (4, 2, 2), id="two in one claim"),
        pytest.param([slices("s", WHOLE), claim("c", "gpu-9")], (4, 0, 4), id="a claim of a device that does not exist any more"),
        pytest.param([slices("s", WHOLE), claim("c", "gpu-0", adminAccess=True)], (4, 0, 4), id="admin access allocates nothing"),
        pytest.param([slices("s", WHOLE), slices("t", WHOLE[:3], generation=2)], (3, 0, 3), id="only the newest generation of a pool"),
        pytest.param([slices("s", SPLIT, sharedCounters=COUNTERS)], (2, 0, 2), id="GPUs with their MIG instances"),
        pytest.param([slices("s", SPLIT, sharedCounters=COUNTERS), claim("c", "gpu-0-mig-1g-0"), claim("d", "gpu-0-mig-1g-1")], (2, 0.25, 1.75), id="two instances of one GPU"),
    ],
)  # fmt: skip
def test_gpus_that_come_by_dra_are_counted(
    tmp_path: Path, objects: list[dict[str, Any]], wanted: tuple[int, int, int]
) -> None:
    (found,) = json.loads(call("nodes", "--cluster", write(tmp_path, PLAIN, *objects), "-o", "json").stdout)
    total, allocated, free = wanted
    numbers = {"total": total, "allocated": allocated, "promised": 0, "free": free}
    assert found["gpus"] == {"gpu.nvidia.com": numbers}


def test_a_pod_has_the_gpus_of_its_claims(tmp_path: Path) -> None:
    """One pod names the claim. For the other, which requests an extended resource, the scheduler made it. Here both share one."""
    by_claim, by_name = placed(pod("by-claim", 0), "n"), placed(pod("by-name", 1), "n")
    objects = [PLAIN, by_claim, by_name, slices("s", WHOLE), claim("c", "gpu-0", users=["by-claim", "by-name"])]
    (found,) = json.loads(call("nodes", "--cluster", write(tmp_path, *objects), "-o", "json").stdout)
    assert found["gpus"] == {"gpu.nvidia.com": {"total": 4, "allocated": 1, "promised": 0, "free": 3}}
    has = {"gpu.nvidia.com": 1}
    assert [(each["name"], each["gpus"]) for each in found["pods"]] == [("by-claim", has), ("by-name", has)]
    assert [each["shared"] for each in found["pods"]] == [{"team/c": has}] * 2
    (of,) = json.loads(call("nodes", "--cluster", write(tmp_path, *objects), "--by", "namespace", "-o", "json").stdout)
    assert of == {"namespace": "team", "pods": 2, "nodes": 1, "since": 0, "gpus": has}


def test_without_claims_gpus_that_come_by_dra_are_not_counted(tmp_path: Path) -> None:
    file = write(tmp_path, PLAIN, slices("s", WHOLE), kinds=["Node", "Pod", "ResourceSlice"])
    result = call("nodes", "--cluster", file, "-o", "json")
    assert json.loads(result.stdout)[0]["gpus"] == {}
    assert result.stderr == f"warning: {file} has no resourceclaims: GPUs that come by DRA are not counted\n"


def test_wide_has_taints_and_pods(cluster: Path) -> None:
    lines = call("nodes", "-o", "wide", "--cluster", cluster).stdout.splitlines()
    assert lines[1].endswith("   team/trainer (6)")
    assert lines[2].endswith("   nvidia.com/gpu=present:NoSchedule")


def test_gpus_of_finished_pods_are_free(tmp_path: Path) -> None:
    done = placed(pod("done", 8), "n", phase="Succeeded")
    found = json.loads(call("nodes", "--cluster", write(tmp_path, node("n"), done), "-o", "json").stdout)
    assert found[0]["gpus"]["nvidia.com/gpu"]["free"] == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["gpu-d"], 'error: no node "gpu-d"; did you mean gpu-c?\n', id="a node that is not there"),
        pytest.param(["-w"], "error: saw -w with --cluster, wanted one of them: a file does not change\n", id="a file watched"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_error_with_status_2(cluster: Path, arguments: list[str], said: str) -> None:
    result = call("nodes", *arguments, "--cluster", cluster)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", said)


@pytest.mark.parametrize(("output", "times"), [("table", 1), ("wide", 1), ("json", 0)])
def test_before_each_table_that_is_watched_the_screen_is_cleared(
    cluster: Path, output: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[None] = []
    monkeypatch.setattr(command, "repeated", lambda refresh, **_: refresh())
    monkeypatch.setattr(command, "clear", lambda: cleared.append(None))
    assert call("nodes", "--watch", "--cluster", cluster, "-o", output).exit_code == 0
    assert len(cleared) == times


def test_a_selector_that_no_node_matches_is_named(cluster: Path) -> None:
    assert (
        call("nodes", "-l", "node-pool=spot", "--cluster", cluster).stderr == "no node with node-pool=spot has GPUs\n"
    )


def test_a_cluster_without_gpus_says_so(tmp_path: Path) -> None:
    assert call("nodes", "--cluster", write(tmp_path, node("cpu-a", 0))).stderr == "no node has GPUs\n"

"""How long each command takes: `python -m bench.commands`.

The cluster has 5,000 nodes with 24,000 GPUs of device plugins and 8,000 of DRA, and 50,000 pods of which 1,000 wait, 100 of
them for claims. Measured is the time to compute and print the answer, without the time to read the cluster; of several runs the
fastest.
"""

import argparse
import gc
import io
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.output import stdout
from tests.controlplane.nodes import GPU_TAINT, node
from tests.controlplane.objects import Json, pod
from tests.devices import dra
from webhook.cli import checks, decided, drain, top
from webhook.cli.policy import diff
from webhook.cli.policy.recorded import recorded as recorded_in
from webhook.kube.yaml import to_yaml
from webhook.whatif import answers, manifests, tried
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.offline import load_policy

_TAKEN = 1_795_000_000.0
_NAMESPACES, _APPS = 50, 300
_WAITING = 50
"""One pod of so many waits."""
_GPUS = 8
_CLAIMING = 10
"""One waiting pod of so many asks for a claim."""
_RECORDED = 1_000
"""Creations of pods in the log that is replayed."""


def nodes_of(count: int) -> list[Json]:
    """Three of five nodes have eight GPUs, the others none."""
    return [
        node(
            f"node-{number:05}",
            _GPUS if number % 5 < 3 else 0,
            "NVIDIA-H100-80GB-HBM3",
            labels={"node-pool": f"pool-{number % 7}"},
            taints=[GPU_TAINT] if number % 5 < 3 else (),
        )
        for number in range(count)
    ]


def pod_of_job(number: int, gpus: int, on: str | None) -> Json:
    """A running pod on the node `on`, or with None a pod that waits."""
    job, asked = f"job-{number // 10}", {"cpu": "2", "memory": "8Gi"}
    spec = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]} | ({"nodeName": on} if on else {})
    found = pod(f"pod-{number}", gpus, limits=asked, requests=asked, labels={"app": f"app-{number % _APPS}"}, **spec)
    found["metadata"] |= {
        "namespace": f"team-{number % _NAMESPACES}",
        "uid": f"00000000-0000-0000-0000-{number:012}",
        "creationTimestamp": "2026-11-18T10:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": job, "uid": job, "controller": True}],
    }
    message = "0/5000 nodes are available: 5000 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return found | {"status": {"phase": "Running"} if on else {"phase": "Pending", "conditions": [condition]}}


def cluster(node_count: int, pod_count: int) -> dict[str, list[Json]]:
    """The objects by kind. One pod of four has a GPU, as long as its node has one free; pods that wait want eight."""
    drawn, free = random.Random(1), {n: _GPUS for n in range(node_count) if n % 5 < 3}
    gpu_nodes, pods = list(free), []
    for number in range(pod_count):
        gpus, at = drawn.choice([0, 0, 0, 1]), drawn.randrange(node_count)
        if gpus:
            at = gpu_nodes[number % len(gpu_nodes)]
            gpus = min(gpus, free[at])
            free[at] -= gpus
        on = None if number % _WAITING == 0 else f"node-{at:05}"
        pods.append(pod_of_job(number, gpus if on else _GPUS, on))
    profile = {"gpu-admission.io/profile": "default"}
    names = [f"team-{number}" for number in range(_NAMESPACES)]
    namespaces = [{"kind": "Namespace", "metadata": {"name": name, "labels": profile}} for name in names]
    found = {"Node": nodes_of(node_count), "Pod": pods, "Namespace": namespaces}
    return found | devices(found)


def devices(of: dict[str, list[Json]]) -> dict[str, list[Json]]:
    """Eight devices on each node of five, and claims: of pods that have one there, and of pods that wait for eight."""
    slices = [dra.gpus_of(each["metadata"]["name"], _GPUS) for each in of["Node"][3::5]]
    used: dict[str, int] = {each["spec"]["nodeName"]: 0 for each in slices}
    claims, waiting = [], 0
    for each in of["Pod"]:
        on, name = each["spec"].get("nodeName"), each["metadata"]["name"]
        waiting += not on
        if on is None and waiting % _CLAIMING == 0:
            each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
            claims.append(dra.claim(name, dra.exactly(_GPUS)))
        elif used.get(on, _GPUS) < 4:
            device, used[on] = f"gpu-{used[on]}", used[on] + 1
            claims.append(dra.claim(name, dra.exactly(), on=on, has=[device], users=[name]))
        else:
            continue
        claims[-1]["metadata"]["namespace"] = each["metadata"]["namespace"]
        each["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    return {"ResourceSlice": slices, "ResourceClaim": claims, "DeviceClass": [dra.device_class()]}


def recorded(file: Path) -> None:
    """An audit log: pods of 100 workloads that ask for one to eight GPUs."""
    lines = []
    for number in range(_RECORDED):
        made = pod_of_job(number % 100 * 10, 1 + number % 100 % _GPUS, None)
        made["metadata"] |= {"name": f"new-{number}", "uid": f"{number}"}
        del made["status"]
        about = {"resource": "pods", "namespace": made["metadata"]["namespace"]}
        lines.append(
            {
                "apiVersion": "audit.k8s.io/v1",
                "stage": "ResponseComplete",
                "verb": "create",
                "objectRef": about,
                "requestObject": made,
            }
        )
    file.write_text("\n".join(map(json.dumps, lines)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=1)
    given = parser.parse_args()
    objects, policy = cluster(given.nodes, given.pods), load_policy()
    gc.disable()  # as the commands do
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "new", "namespace": "team-1"}}
    job["spec"] = {
        "parallelism": 100,
        "template": {"spec": pod_of_job(0, _GPUS, None)["spec"] | {"restartPolicy": "Never"}},
    }
    text = to_yaml(job).encode()

    def simulated(snapshot: Snapshot) -> Any:
        planned = manifests.planned_in(text, "job.yaml", policy, None)
        pods = [each for each in planned if isinstance(each, manifests.Planned)]
        return tried.try_pods(snapshot, policy, pods)

    other = load_policy(b"profiles: {default: {placement: {strategies: {development: spread}}}}")
    log = Path(tempfile.mkdtemp()) / "audit.log"
    recorded(log)

    def replayed(snapshot: Snapshot) -> Any:
        diff._print(diff.compared(recorded_in([str(log)], other), (policy, other), snapshot)[0], "", wide=False)

    commands: dict[str, Callable[[Snapshot], Any]] = {
        "top": lambda s: top._print(
            top.report(s, policy, top.gpu_nodes(s, policy)), None, None, [], policy.gpus, some="", wide=True
        ),
        "why -A": lambda s: [answer.document() for answer in answers.answers(s, policy, None)],
        "why POD": lambda s: decided.decision_of(s, policy, s.named("Pod")["team-0", "pod-0"]),
        "doctor": lambda s: [list(check(s, policy)) for *_, check in checks.CHECKS],
        "policy diff -A": lambda s: diff._print(diff.live(s, (None, policy), None, everywhere=True), "", wide=True),
        "drain": lambda s: drain._print(drain.drainable(s, policy)),
        "try, 100 pods": simulated,
        f"policy diff, {_RECORDED:,} pods": replayed,
    }
    table = Table("command", "s", "CPU s", title=f"{given.nodes:,} nodes, {given.pods:,} pods")
    for name, run in commands.items():
        times = []
        for _ in range(given.runs):
            wall, cpu = time.perf_counter(), time.process_time()
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                run(Snapshot(objects, {}, _TAKEN))
            times.append((time.perf_counter() - wall, time.process_time() - cpu))
            gc.collect()
        table.add_row(name, *[f"{min(each):.1f}" for each in zip(*times, strict=True)])
    stdout().print(table)


if __name__ == "__main__":
    main()

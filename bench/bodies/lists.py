"""Pods one of whose lists is long."""

from bench.bodies.parts import (
    GPU,
    LONG,
    PREFERRED,
    Json,
    add_pod,
    affinity,
    container,
    everything,
    expression,
    mounts,
    named,
    of_one_kind,
    pod,
    resources,
)

add_pod("2,500,000 empty containers", lambda: pod([{}] * 2_500_000))
add_pod("70,000 containers with GPUs", lambda: pod([container()] * 70_000))
add_pod("250 containers with GPUs", lambda: pod([container(name=f"c{n}") for n in range(250)]))
add_pod("50,000 sidecars", lambda: pod(initContainers=[container(restartPolicy="Always")] * 50_000))
add_pod(
    "120 sidecars with 15 resources each",
    lambda: pod(
        initContainers=[
            container(
                name=f"s{n}",
                restartPolicy="Always" if n % 2 else None,
                resources={"limits": {f"a.b/{n}-{m}": "1" for m in range(15)}},
            )
            for n in range(120)
        ]
    ),
)
add_pod("1,000 volumes with long names, 20 unknown mounts", lambda: mounts(1_000, 20))
add_pod("1,000 volumes, 2,000 unknown mounts", lambda: mounts(1_000, 2_000))
add_pod("20,000 volumes, 20,000 unknown mounts", lambda: mounts(20_000, 20_000))
add_pod("80,000 variables", lambda: pod([container(env=named(80_000, value="v"))]))
add_pod(
    "100,000 times NVIDIA_VISIBLE_DEVICES",
    lambda: pod([container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 100_000)]),
)
add_pod(
    "4,000 times NVIDIA_VISIBLE_DEVICES",
    lambda: pod([container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}] * 4_000)]),
)
add_pod("100,000 sources of variables", lambda: pod([container(envFrom=[{"prefix": "NVIDIA_VISIBLE"}] * 100_000)]))
add_pod("30,000 names of GPUs", lambda: pod([container(resources=resources([f"{GPU}{n}" for n in range(30_000)]))]))
add_pod(
    "30,000 names of slices",
    lambda: pod([container(resources=resources([f"nvidia.com/mig-{n}" for n in range(30_000)]))]),
)
add_pod(
    "30,000 names of other resources",
    lambda: pod([container(resources=resources([f"tenant.example/{n}" for n in range(30_000)]))]),
)
add_pod(
    "1,000 names of slices",
    lambda: pod([container(resources=resources([f"nvidia.com/mig-{n}" for n in range(1_000)]))]),
)
add_pod(
    "60 names of slices that no node has",
    lambda: pod([container(resources=resources([f"nvidia.com/mig-{n}{LONG}" for n in range(60)]))]),
)
add_pod("100,000 tolerations", lambda: pod(tolerations=[{"key": "a", "operator": "Is", "effect": "No"}] * 100_000))
add_pod(
    "250 tolerations", lambda: pod(tolerations=[{"key": f"a{n}", "operator": "Is", "effect": "No"} for n in range(250)])
)
add_pod("100,000 values in one expression", lambda: pod(affinity=affinity([expression(*map(str, range(100_000)))])))
add_pod("2,000 values in one expression", lambda: pod(affinity=affinity([expression(*map(str, range(2_000)))])))
add_pod("80,000 terms of node affinity", lambda: pod(affinity=affinity([expression("x")] * 80_000)))
add_pod("20,000 empty terms of node affinity", lambda: pod(affinity=affinity([{}] * 20_000)))
add_pod("20,000 empty preferences of nodes", lambda: pod(affinity=affinity([{}] * 20_000, when=PREFERRED)))
add_pod("20,000 empty terms of pod affinity", lambda: pod(affinity=affinity([{}] * 20_000, kind="podAffinity")))
add_pod("13,000 values in one expression", lambda: pod(affinity=affinity([expression(*["x"] * 13_000)])))
add_pod("600 terms of node affinity", lambda: pod(affinity=affinity([expression(f"x{n}") for n in range(600)])))
add_pod(
    "60,000 preferred terms",
    lambda: pod(affinity=affinity([{"weight": 1, "preference": expression("x")}] * 60_000, when=PREFERRED)),
)
add_pod(
    "Gt with 100,000 digits",
    lambda: pod(affinity=affinity([expression("9" * 100_000, key="a", operator="Gt")])),
)
add_pod(
    "100,000 terms of pod affinity",
    lambda: pod(affinity=affinity([{"labelSelector": {}}] * 100_000, kind="podAffinity")),
)
add_pod(
    "1,000 terms of pod affinity with large selectors",
    lambda: pod(
        affinity=affinity([{"labelSelector": expression(*map(str, range(100)))}] * 1_000, kind="podAntiAffinity")
    ),
)
add_pod(
    "60,000 spread constraints",
    lambda: pod(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1}] * 60_000),
)
add_pod(
    "a spread constraint with 60,000 expressions",
    lambda: pod(
        topologySpreadConstraints=[
            {"topologyKey": "a", "labelSelector": {"matchExpressions": expression("a")["matchExpressions"] * 60_000}}
        ]
    ),
)
add_pod("100,000 entries in the node selector", lambda: pod(nodeSelector={f"a{n}": "b" for n in range(100_000)}))
add_pod("100,000 labels", lambda: pod(metadata={"labels": {f"a{n}": "?" for n in range(100_000)}}))
add_pod("a label of 3 MB", lambda: pod(metadata={"labels": {"workload-type": "?" * 3_000_000}}))
add_pod("100,000 annotations", lambda: pod(metadata={"annotations": {f"cdi.k8s.io/{n}": "x" for n in range(100_000)}}))
add_pod(
    "1,000 annotations for devices",
    lambda: pod(metadata={"annotations": {f"cdi.k8s.io/{n}": "x" for n in range(1_000)}}),
)
add_pod(
    "60,000 owners",
    lambda: pod(metadata={"ownerReferences": [{"kind": "Job", "name": "a", "uid": "b"}] * 60_000}),
)
add_pod(
    "50,000 claims",
    lambda: pod([container(resources={"claims": named(50_000)})], resourceClaims=named(50_000)),
)
add_pod(
    "250 claims, 250 others asked for",
    lambda: pod([container(resources={"claims": named(250)})], resourceClaims=[{"name": f"y{n}"} for n in range(250)]),
)
add_pod("100,000 ports", lambda: pod([container(ports=[{"hostPort": 1, "containerPort": 1}] * 100_000)]))
add_pod(
    "100,000 capabilities",
    lambda: pod([container(securityContext={"capabilities": {"add": ["SYS_ADMIN"] * 100_000}})]),
)
add_pod("100,000 scheduling gates", lambda: pod(schedulingGates=[{"name": "a"}] * 100_000))
add_pod(
    "2 MB of arguments about parallelism",
    lambda: pod([container(args=["--tp " * 2_000])] * 200),
)
add_pod(
    "900 names of resources that are almost a GPU's",
    lambda: pod([container(resources={"limits": {f"nvidia.com/gp{number}": "1" for number in range(900)}})]),
)
add_pod("50,000 host paths", lambda: pod(volumes=named(50_000, hostPath={"path": "/dev"})))
add_pod("everything at its bound", everything)
add_pod("everything at its bound, and the GPUs of one kind", lambda: of_one_kind(everything()))


def _parts(containers: int, annotations: int) -> Json:
    """Parts of GPUs for containers by their names, most of which there are not."""
    words = ("gpu-memory.request", "gpu-memory.limit", "gpu-compute.mode", "gpus.devices")
    keys = [f"nvidia.com/container.c{n}.{words[n % 4]}" for n in range(annotations)]
    made = [container(name=f"c{n}", resources={}) for n in range(containers)]
    return pod(made, {"annotations": dict.fromkeys(keys, "1e99Gi")}, schedulerName="kai-scheduler")


add_pod("64 containers, 1,000 annotations about parts of GPUs", lambda: _parts(64, 1_000))
add_pod("250 containers, 1,000 annotations about parts of GPUs", lambda: _parts(250, 1_000))
add_pod("64 containers, 40,000 annotations about parts of GPUs", lambda: _parts(64, 40_000))
add_pod(
    "250 containers that need another CUDA each",
    lambda: pod(
        [
            container(
                name=f"c{n}",
                image=f"pytorch/pytorch:2-cuda13.{n}-" + "cuda1-" * 50,
                env=[{"name": "NVIDIA_REQUIRE_CUDA", "value": f"cuda>=13.{n} driver>=9" + ",cuda>1" * 100}],
            )
            for n in range(250)
        ]
    ),
)
add_pod(
    "1,000 volumes of a folder for some namespaces",
    lambda: pod(volumes=[{"name": f"v{n}", "hostPath": {"path": "/run/./nvsentinel"}} for n in range(1_000)]),
)

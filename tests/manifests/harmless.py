"""Pods without GPUs as common charts make them: no rule that denies finds anything in one, so the API server asks about none."""

from typing import Any

from tests.controlplane.objects import Json, pod

RESTRICTED: Json = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
OF_POD: Json = {"runAsNonRoot": True, "runAsUser": 1001, "fsGroup": 1001, "seccompProfile": {"type": "RuntimeDefault"}}
"""Pod Security, level restricted."""
CONTAINER = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}


def chart(
    name: str,
    container: Json | None = None,
    annotations: dict[str, str] | None = None,
    restricted: bool = True,
    **spec: Any,
) -> Json:
    """A pod of a chart; `container`: more of its main container."""
    level = {"securityContext": OF_POD} if restricted else {}
    main = {"resources": CONTAINER, **(RESTRICTED if restricted else {}), **(container or {})}
    return pod(name, 0, annotations=annotations, container=main, **{**level, **spec})


def env(**values: str) -> Json:
    return {"env": [{"name": name, "value": value} for name, value in values.items()]}


def second(name: str, **more: Any) -> Json:
    return {"name": name, "image": "registry.example/second:1", **more}


def adds(*names: str, **more: Any) -> Json:
    return {"securityContext": {"capabilities": {"add": list(names), "drop": ["ALL"]}, "privileged": False, **more}}


def key(name: str, **more: str) -> Json:
    return {"key": name, "operator": "Exists", **more}


PODS: list[Json] = [
    chart("postgresql", {"envFrom": [{"secretRef": {"name": "credentials", "optional": True}}]}),
    chart("redis", {"args": ["--maxmemory", "100mb"]}, {"checksum/config": "1f", "helm.sh/chart": "redis"}),
    chart(
        "istio-injected",
        annotations={
            "sidecar.istio.io/inject": "true",
            "sidecar.istio.io/status": '{"containers":["istio-proxy"]}',
            "istio.io/rev": "default",
            "traffic.sidecar.istio.io/excludeOutboundPorts": "5432",
        },
        restricted=False,
        initContainers=[
            second("istio-init", **adds("NET_ADMIN", "NET_RAW", runAsUser=0)),
            second("istio-proxy", restartPolicy="Always", **RESTRICTED, **env(ISTIO_META_APP_CONTAINERS="main")),
        ],
    ),
    chart(
        "istio-gateway",
        {"securityContext": {"privileged": False, "runAsGroup": 1337}},
        {"inject.istio.io/templates": "gateway", "prometheus.io/path": "/stats/prometheus"},
        securityContext={"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]},
    ),
    chart(
        "linkerd-injected",
        annotations={
            "linkerd.io/inject": "enabled",
            "linkerd.io/proxy-version": "edge",
            "config.linkerd.io/skip-inbound-ports": "1",
        },
        initContainers=[
            second("linkerd-init", **adds("NET_ADMIN", "NET_RAW", seccompProfile={"type": "RuntimeDefault"}))
        ],
    ),
    chart(
        "ingress-nginx", adds("NET_BIND_SERVICE", runAsUser=101), hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"
    ),
    chart("cert-manager", annotations={"cert-manager.io/inject-ca-from": "a/b", "prometheus.io/scrape": "true"}),
    chart(
        "prometheus", {"args": ["--storage.tsdb.path=/prometheus"]}, {"kubectl.kubernetes.io/default-container": "main"}
    ),
    chart("vault-agent", annotations={"vault.hashicorp.com/agent-inject": "true", "vault.hashicorp.com/role": "app"}),
    chart(
        "datadog", env(DD_ENV="prod"), {"ad.datadoghq.com/main.checks": "{}", "admission.datadoghq.com/enabled": "true"}
    ),
    chart(
        "argo-step", annotations={"workflows.argoproj.io/node-name": "a", "multus.cni/x": "y"}, restartPolicy="Never"
    ),
    chart("spark-executor", env(SPARK_EXECUTOR_CORES="4"), tolerations=[key("spot"), key("team", effect="NoSchedule")]),
    chart("airflow-worker", priorityClassName="harmless", tolerations=[key("dedicated", effect="NoExecute")]),
    chart("of-a-daemon-set", restricted=False, tolerations=[{"operator": "Exists"}], hostNetwork=True),
    chart(
        "beside-gpus",
        tolerations=[key("nvidia.com/gpu", effect="NoSchedule")],
        nodeSelector={"nvidia.com/gpu.present": "true"},
    ),
    chart("kafka", {"envFrom": [{"prefix": "KAFKA_", "configMapRef": {"name": "settings", "optional": True}}]}),
    chart(
        "ray-head",
        env(RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="", NVIDIA_DRIVER_CAPABILITIES="all"),
        volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    ),
    chart("torch-on-cpus", env(NVIDIA_VISIBLE_DEVICES="void", CUDA_HOME="/usr/local/cuda", NCCL_DEBUG="INFO")),
    chart(
        "data-loader",
        volumes=[
            {"name": "data", "hostPath": {"path": "/data/sets", "type": "Directory"}},
            {"name": "time", "hostPath": {"path": "/etc/localtime"}},
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
    ),
    chart("selinux", {"securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}, "procMount": "Default"}}),
    chart(
        "windows",
        securityContext={"windowsOptions": {"runAsUserName": "ContainerUser"}},
        nodeSelector={"kubernetes.io/os": "windows"},
    ),
    chart(
        "localhost-profile",
        securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/a.json"}},
    ),
    chart(
        "app-armor",
        securityContext={"appArmorProfile": {"type": "RuntimeDefault"}, "fsGroupChangePolicy": "OnRootMismatch"},
    ),
    chart("unconfined", restricted=False, container={"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
    chart("crio-tuned", annotations={"cpu-quota.crio.io": "disable", "io.kubernetes.cri-o.userns-mode": "auto"}),
    chart(
        "hugepages", {"resources": {"limits": {"hugepages-2Mi": "2Mi", "memory": "1Gi", "cpu": "1"}}}, hostUsers=False
    ),
]
"""Each is of one kind: Pod Security restricted, a service mesh, a toleration, a PriorityClass, annotations of operators, …"""
THIEVES: dict[str, Json] = {
    "a variable": chart("thief", env(NVIDIA_VISIBLE_DEVICES="all")),
    "a device of the node": chart("thief", volumes=[{"name": "d", "hostPath": {"path": "/dev/nvidia0"}}]),
    "privileged": chart("thief", {"securityContext": {"privileged": True}}),
    "hostPID": chart("thief", hostPID=True),
    "an annotation": chart("thief", annotations={"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}),
}
"""Pods without GPUs that take some."""

"""The ways to a GPU that nobody asked for: each with the rule that refuses it. `make manifests` writes them into docs/ways.md."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
IN_PODS = ("container", "init container", "sidecar")
KINDS = (*IN_PODS, "ephemeral container")
CREATE, DEBUG, APPLY, ANNOTATE = "create pod", "debug pod", "apply template", "annotate pod"


@dataclass(frozen=True)
class Vector:
    """One way to a GPU. `rule` refuses it (a key of the policy), or `out` says why admission cannot (a key of docs/ways.md)."""

    what: str
    rule: str = ""
    out: str = ""
    container: Json = field(default_factory=dict)
    pod: Json = field(default_factory=dict)
    annotations: Json = field(default_factory=dict)
    gpus: str | None = None
    """What the limits of the container say; None: nothing."""
    kinds: tuple[str, ...] = KINDS
    claims: bool = False
    """Whether the pod claims a device by DRA, of whatever kind."""
    verbs: tuple[str, ...] = (CREATE, DEBUG, APPLY, ANNOTATE)
    group: str = ""
    """What docs/ways.md calls it, with others of its like; `what` if empty."""
    guarded: bool = False
    """Whether the API server refuses it by itself where nobody opted in (manifests/70-guards.yaml)."""

    @property
    def of_pod(self) -> bool:
        return bool(self.pod or self.annotations)


def env(name: str, value: str = "all") -> Json:
    return {"env": [{"name": name, "value": value}]}


def reference(**source: Any) -> Json:
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]}


def mount(path: str) -> Json:
    return {"volumeMounts": [{"name": "scratch", "mountPath": path}]}


def volumes(source: Json) -> Json:
    return {"volumes": [{"name": "other", **source}]}


def host_path(path: str, kind: str = "") -> Json:
    return volumes({"hostPath": {"path": path, "type": kind}})


def security(**context: Any) -> Json:
    return {"securityContext": context}


HOST_PROCESS = security(windowsOptions={"hostProcess": True})
FROM_MAP, FROM_SECRET = {"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "settings"}}
NAMES = (
    *("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "DOCKER_RESOURCE_GPU"),
    "NOBODY_KNOWS_IT_VISIBLE_DEVICES",
)
BESIDE_GPUS = ("NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY")
# Of what a rule refuses by long lists, some of each kind; all of them are in tests/rules.
HOST_PATHS = (*("/", "/dev/nvidia0", "/proc/self/root", "/var/run/docker.sock", "/etc/cdi", "/mnt2"),)
ANNOTATIONS = (*("cdi.k8s.io/a", "Devices.NRI.io/pod", "io.kubernetes.cri-o.Devices", "dev.gvisor.flag.nvproxy"),)
CLAIM = {"resourceClaims": [{"name": "any", "resourceClaimName": "any"}]}
ASKS: tuple[tuple[str, str | None, Json], ...] = (
    ("nothing", None, {}),
    ("0 GPUs", "0", {}),
    ("0 of a GPU that nobody knows", None, {"resources": {"limits": {"x.io/gpu": "0"}}}),
    ("a claim", None, {"resources": {"claims": [{"name": "any"}]}}),
)
"""What a container may ask for that is no GPU: what is said of it, its limit of nvidia.com/gpu, and the rest."""
PATHS = "A host path that is no folder of data, or is a device or a socket"
MOUNTS = (
    *("/run/nvidia-container-devices/GPU-1", "/tmp/../var/run//nvidia-container-devices/all"),
    "/var/run/hcu-container-devices/0",
)

GAUDI = "A value that stands for no device elsewhere, and for all of them under Gaudi's runtime"
BESIDE = "A variable that names devices for storage, RDMA or copies, in a container without a GPU"
ANNOTATION = "An annotation by which a container runtime, or a plugin of it, injects devices"
WINDOWS = "A hostProcess of Windows, the pod or a container"
RUNTIME = "The GPU runtime in a pod without a GPU, by name or by handler"
BY_VALUE, BY_REFERENCE = "A variable that names devices, by value", "A variable that names devices, by reference"
VISIBLE = NAMES[0]
VECTORS = [
    # The environment
    *[Vector(name, "deviceEnv", container=env(name), group=BY_VALUE) for name in NAMES],
    *[
        Vector(f"{name} in a container without a GPU", "deviceEnv", container=env(name, "enabled"), group=BESIDE)
        for name in BESIDE_GPUS
    ],
    *[
        Vector(f"{name} beside a GPU", out="beside-gpu", container=env(name, "enabled"), gpus="1", kinds=IN_PODS)
        for name in BESIDE_GPUS
    ],
    Vector(f"{VISIBLE} beside a GPU", "deviceEnv", container=env(VISIBLE), gpus="1", kinds=IN_PODS, group=BY_VALUE),
    Vector(f"{VISIBLE} of one GPU", "deviceEnv", container=env(VISIBLE, "GPU-8f6d"), group=BY_VALUE),
    Vector(f"{VISIBLE} made of other variables", "deviceEnv", container=env(VISIBLE, "$(A)"), group=BY_VALUE),
    Vector(
        f"{VISIBLE} after a harmless one",
        "deviceEnv",
        container={"env": [*env(VISIBLE, "void")["env"], *env(VISIBLE)["env"]]},
        group=BY_VALUE,
    ),
    *[
        Vector(f"{VISIBLE} from a {next(iter(source))}", "deviceEnv", container=reference(**source), group=BY_REFERENCE)
        for source in (
            {"configMapKeyRef": {"name": "settings", "key": "a"}},
            {"secretKeyRef": {"name": "settings", "key": "a"}},
            {"fieldRef": {"fieldPath": "metadata.labels['a']"}},
        )
    ],
    *[
        Vector(f"{name}={value}", "deviceEnv", container=env(name, value), group=GAUDI)
        for name, value in (
            ("HABANA_VISIBLE_DEVICES", "void"),
            ("HABANA_VISIBLE_DEVICES", ""),
            ("HABANA_VISIBLE_DEVICES_2", "none"),
        )
    ],
    Vector(
        "MOUNT_BY_RUNTIME_FOR_DP",
        "deviceEnv",
        container=env("MOUNT_BY_RUNTIME_FOR_DP", ""),
        group="A variable by which Ascend's runtime mounts the sockets of the node's container runtimes",
    ),
    *[
        Vector(
            f"{name} in a container with {asks}",
            "deviceEnv",
            container=env(name, "12.4") | container,
            gpus=gpus,
            kinds=KINDS if asks == "nothing" else IN_PODS,
            group="CUDA_VERSION, or ROCM_VERSION under Hygon's runtime, in a container without a GPU",
        )
        for name in ("CUDA_VERSION", "ROCM_VERSION")
        for asks, gpus, container in (ASKS[0], ASKS[2])  # beside a claim and beside 0 GPUs it gets `void`
    ],
    *[
        Vector(
            f"prefix {prefix}",
            out="unknown-env-from",
            container={"envFrom": [{"prefix": prefix, **FROM_MAP}]},
            group="a prefix of envFrom that completes the name of such a variable",
        )
        for prefix in ("NVIDIA_", "NVIDIA_GD", "NOBODY_KNOWS_IT_VISIBLE_")
    ],
    Vector("a ConfigMap of variables", out="unknown-env-from", container={"envFrom": [FROM_MAP]}),
    Vector(
        "a Secret of variables beside a GPU",
        "",
        "unknown-env-from",
        {"envFrom": [FROM_SECRET]},
        gpus="1",
        kinds=IN_PODS,
    ),
    Vector("the environment of the image", out="image-environment"),
    Vector("LD_PRELOAD", out="toolkit", container=env("LD_PRELOAD", "/tmp/a.so"), gpus="1", kinds=IN_PODS),
    # Mounts
    *[
        Vector(f"a mount at {path}", "deviceMounts", container=mount(path), group="A mount that names devices")
        for path in MOUNTS
    ],
    # The security context
    Vector("A privileged container", "privileged", container=security(privileged=True)),
    *[
        Vector(
            f"capability {name}",
            "capabilities",
            container=security(capabilities={"add": [name]}),
            group="A capability that opens devices",
        )
        for name in ("ALL", "SYS_ADMIN", "CAP_DAC_READ_SEARCH", "sys_module")
    ],
    *[
        Vector(f"{what} that is a hostProcess", "privileged", container=container, pod=pod, group=WINDOWS)
        for what, container, pod in (
            ("a pod", {}, HOST_PROCESS | {"hostNetwork": True}),
            ("a container", HOST_PROCESS, {"hostNetwork": True}),  # the API server wants all containers to be
        )
    ],
    *[
        Vector(f"{next(iter(context))} that confines nothing", out="unconfined", container=security(**context))
        for context in (
            {"seccompProfile": {"type": "Unconfined"}},
            {"appArmorProfile": {"type": "Unconfined"}},
            {"seLinuxOptions": {"type": "spc_t"}},
        )
    ],
    # Limits
    Vector("the environment of the image beside a limit of 0 GPUs", out="image-environment", gpus="0", kinds=IN_PODS),
    # The pod
    *[Vector(f"host path {path}", "hostDevices", pod=host_path(path), group=PATHS) for path in HOST_PATHS],
    *[
        Vector(f"{kind} in a folder of data", "hostDevices", pod=host_path("/mnt/x", kind), group=PATHS)
        for kind in ("CharDevice", "BlockDevice", "Socket")
    ],
    Vector("host path /mnt/link", out="other-host-paths", pod=host_path("/mnt/link")),
    Vector("host path /mnt", out="other-host-paths", pod=host_path("/mnt")),
    Vector(
        "A repository that git clones on the node, as root (gitRepo)",
        "hostDevices",
        pod=volumes({"gitRepo": {"repository": "https://example.com/x"}}),
    ),
    *[
        Vector(f"a volume of another kind: {next(iter(volume))}", out="other-volumes", pod=volumes(volume))
        for volume in (
            {"persistentVolumeClaim": {"claimName": "a"}},
            {"csi": {"driver": "any.example"}},
            {"flexVolume": {"driver": "any.example/any"}},
            {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
            {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:disk", "lun": 0}},
        )
    ],
    Vector("hostPID", "hostNamespaces", pod={"hostPID": True}),
    Vector("hostNetwork", out="host-network", pod={"hostNetwork": True}),
    Vector("hostIPC in a pod with a GPU", out="host-ipc", pod={"hostIPC": True}, gpus="1"),
    *[
        Vector(
            f"{what} and {asks}",
            rule,
            pod=pod,
            gpus=gpus,
            container=container,
            claims="claims" in container.get("resources", {}),
            group=group,
        )
        for what, rule, pod, group in (
            ("hostIPC", "hostNamespaces", {"hostIPC": True}, "hostIPC in a pod without a GPU"),
            ("The GPU runtime", "runtimeClass", {"runtimeClassName": "nvidia"}, RUNTIME),
            ("The GPU runtime under another name", "runtimeClass", {"runtimeClassName": "fast"}, RUNTIME),
        )
        for asks, gpus, container in ASKS
    ],
    Vector("A node's name, past scheduler and taints", "nodeName", pod={"nodeName": "sides-a"}),
    Vector(
        "A system priority class, which preempts everybody",
        "priorityClass",
        pod={"priorityClassName": "system-node-critical"},
    ),
    Vector(
        "The priority class of a class of workload that the namespace is not entitled to",
        "priorityClass",
        pod={"priorityClassName": "gpu-inference"},
        guarded=True,
    ),
    *[
        Vector(f"annotation {key}", "deviceAnnotations", annotations={key: "nvidia.com/gpu=all"}, group=ANNOTATION)
        for key in ANNOTATIONS
    ],
    *[
        Vector(
            f"annotation by which {whose} scheduler gives devices",
            "deviceAnnotations",
            annotations={key: value},
            verbs=(CREATE, APPLY),
            group=ANNOTATION,
        )
        for whose, key, value in (
            ("Koordinator's", "scheduling.koordinator.sh/device-allocated", '{"gpu": [{"minor": 0}]}'),
            ("KAI's", "nvidia.com/container.thief.gpus.devices", "0"),
        )
    ],
    *[
        Vector(
            f"One of {name}",
            "nodeWideResources",
            container={"resources": {"limits": {name: "1"}}},
            kinds=IN_PODS,
            group="A resource that hands out every device of the node",
        )
        for name in ("gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring")
    ],
    *[
        Vector(
            f"{what} {where}",
            "" if gpus else "deviceAnnotations",
            "beside-gpu" if gpus else "",
            annotations={key: value},
            gpus=gpus,
            verbs=(CREATE, APPLY),
            group="" if gpus else ANNOTATION,
        )
        for what, key, value in (
            ("the annotation of GKE's fast networking", "devices.gke.io/container.thief", "- path: /dev/nvidia0"),
            ("the annotation of GPUs in gVisor", "dev.gvisor.internal.nvproxy", "true"),
        )
        for where, gpus in (("without a GPU", None), ("beside a GPU", "1"))
    ],
    Vector(
        "annotations of a scheduler", out="scheduler-annotations", annotations={"hami.io/vgpu-devices-to-allocate": "a"}
    ),
    Vector("a claim", out="claims", container={"resources": {"claims": [{"name": "any"}]}}, claims=True, kinds=IN_PODS),
    Vector(
        "a PriorityClass that the policy does not name",
        out="other-priority-classes",
        pod={"priorityClassName": "urgent"},
    ),
]


def lines() -> Iterator[str]:
    """The generated part of docs/ways.md: what is refused, and by which rule."""
    refused: dict[str, dict[str, None]] = {}
    for vector in VECTORS:
        if vector.rule:
            refused.setdefault(vector.rule, {})[vector.group or vector.what] = None
    yield from ("", "| Rule | refuses |", "|---|---|")
    for rule, ways in refused.items():
        within = [way[0].lower() + way[1:] if way.startswith(("A ", "An ", "The ")) else way for way in ways]
        yield f"| `{rule}` | {'; '.join(within)} |"
    yield ""

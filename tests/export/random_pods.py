"""Pods for hypothesis that the API server accepts, with all that rules look at."""

from typing import Any

from hypothesis import strategies as st

from tests.export.world import RUNTIMES, Json

_RESOURCES = (
    *("nvidia.com/gpu", "nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.10gb"),
    *("nvidia.com/gpumem", "example.com/nic", "huawei.com/Ascend910", "gpu.intel.com/xe_monitoring"),
    *("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "deviceclass.resource.kubernetes.io/other.example"),
)
_AMOUNTS = ("0", "1", "2", "3", "4", "8", "9", "2k", "1000m")
_VARIABLES = (
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION", "NVIDIA_GDS", "AMD_VISIBLE_DEVICES"),
    *("ASCEND_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "A"),
)
_VALUES: tuple[Json, ...] = (
    *({"value": value} for value in ("all", "void", "none", "", "0", "enabled", "/lib/a.so")),
    {},
    {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"valueFrom": {"configMapKeyRef": {"name": "1-0", "key": "k"}}},
)
_PATHS = (
    "/models",
    "/var/run/nvidia-container-devices/0",
    "/run//nvidia-container-devices",
    "/a/nvidia-container-devices",
)
_HOST_PATHS = (
    "/dev",
    "/dev/shm",
    "/data",
    "/mnt/a",
    "/",
    "/var/run/docker.sock",
    "//proc/./1",
    "/home",
    "/usr/lib/modules",
)
_CAPABILITIES = ("SYS_ADMIN", "cap_sys_admin", "IPC_LOCK", "CAP_BPF", "MKNOD", "SYS_ADMıN")
_SECURITY: tuple[Json, ...] = (
    {"privileged": True},
    {"privileged": False},
    {"seccompProfile": {"type": "Unconfined"}},
    {"seLinuxOptions": {"type": "spc_t"}},
    {"seLinuxOptions": {"type": "container_t"}},
    {"seLinuxOptions": {"level": "s0"}},
    {"appArmorProfile": {"type": "Unconfined"}},
    {"runAsUser": 0},
)
ANNOTATIONS = (
    *("cdi.k8s.io/gpu", "CDI.k8s.io/GPU", "nri.io/x", "devices.gke.io/container.main", "io.kubernetes.cri-o.Devices"),
    *("run.oci.hooks.stdout", "dev.gvisor.internal.nvproxy", "dev.gvisor.spec.rootfs.type", "gpu-fraction"),
    *("nvidia.com/container.main0.gpus.devices", "nvidia.com/container.main0.gpu-memory.request"),
    *("note", "gpu-memory", "runai/shared-gpu-configmap"),
    *("io.kubernetes.cri-o.umask", "hami.io/vgpu-devices-to-allocate", "ulimits.noderesource.dev/pod"),
)
_OWNERS = ("DaemonSet", "Job", "ReplicaSet")


def _sometimes(strategy: st.SearchStrategy[Any], of: int = 5) -> st.SearchStrategy[Any]:
    """None, but for one time in so many."""
    return st.integers(1, of).flatmap(lambda n: strategy if n == 1 else st.none())


def _filled(found: Json) -> Json:
    return {key: value for key, value in found.items() if value not in (None, [], {})}


def _made(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(fields).map(_filled)


def _resources(asked: Json) -> Json:
    """A quantity of an extended resource is limit and request. The API server writes that of a device class as it stands."""
    return {"limits": asked, "requests": asked} if asked else {}


_ENV = st.lists(
    st.builds(lambda name, value: {"name": name, **value}, st.sampled_from(_VARIABLES), st.sampled_from(_VALUES)),
    max_size=2,
)
_ASKED = st.dictionaries(st.sampled_from(_RESOURCES), st.sampled_from(_AMOUNTS), max_size=2).map(_resources)
_CONTAINER = {
    "env": _sometimes(_ENV, 3),
    "envFrom": _sometimes(
        st.builds(
            lambda prefix: [{"prefix": prefix, "configMapRef": {"name": "c"}}],
            st.sampled_from(("", "NVIDIA_VISIBLE_", "A_", "NVIDIA_")),
        ),
        8,
    ),
    "volumeMounts": _sometimes(st.sampled_from(_PATHS).map(lambda path: [{"name": "room", "mountPath": path}]), 6),
    "securityContext": _sometimes(
        st.sampled_from(_SECURITY)
        | st.sampled_from(_CAPABILITIES).map(lambda name: {"capabilities": {"add": [name, "NET_RAW"]}}),
        5,
    ),
}


def _container(**more: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return _made(image=st.just("i"), **_CONTAINER, **more)


def containers(names: str, at_least: int, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Json]]:
    found = st.lists(_container(resources=_ASKED, **more), min_size=at_least, max_size=2)
    return found.map(lambda each: [{"name": f"{names}{n}", **one} for n, one in enumerate(each)])


TOLERATIONS = st.lists(
    st.sampled_from(
        (
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "amd.com/gpu", "operator": "Equal", "value": "present"},
            {"operator": "Exists"},
            {"operator": "Exists", "effect": "NoExecute"},
            {"key": "team", "operator": "Exists"},
        )
    ),
    max_size=2,
)
_VOLUMES = st.lists(
    st.sampled_from(_HOST_PATHS).map(lambda path: {"hostPath": {"path": path}})
    | st.sampled_from(
        (
            {"gitRepo": {"repository": "r"}},
            {"iscsi": {"targetPortal": "a", "iqn": "iqn.2001-04.com.example:s", "lun": 0}},
        )
    ),
    max_size=1,
).map(lambda found: [{"name": "room", "emptyDir": {}}, *({"name": f"v{n}", **each} for n, each in enumerate(found))])
_SPEC = _made(
    containers=containers("main", 1),
    initContainers=_sometimes(containers("init", 0, restartPolicy=_sometimes(st.just("Always"), 2)), 2),
    volumes=_VOLUMES,
    tolerations=_sometimes(TOLERATIONS, 3),
    hostPID=_sometimes(st.just(True), 12),
    hostIPC=_sometimes(st.just(True), 12),
    runtimeClassName=_sometimes(st.sampled_from(RUNTIMES), 5),
    nodeName=_sometimes(st.just("somewhere"), 15),
    priorityClassName=_sometimes(
        st.sampled_from(("export-high", "export-low", "export-kept", "export-entitled", "system-node-critical")), 5
    ),
    securityContext=_sometimes(
        st.sampled_from(({"seccompProfile": {"type": "Unconfined"}}, {"seLinuxOptions": {"type": "spc_t"}})), 10
    ),
    schedulerName=_sometimes(st.just("kai-scheduler"), 3),
    resourceClaims=_sometimes(st.just([{"name": "claim", "resourceClaimName": "c"}]), 8),
)
_METADATA = _made(
    name=st.just("random"),
    labels=_sometimes(st.sampled_from(("inference", "training", "elsewhere")).map(lambda w: {"workload-type": w}), 3),
    annotations=_sometimes(st.dictionaries(st.sampled_from(ANNOTATIONS), st.sampled_from(("1", "all")), max_size=2), 3),
    ownerReferences=_sometimes(
        st.sampled_from(_OWNERS).map(
            lambda kind: [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}]
        ),
        5,
    ),
)


def pods() -> st.SearchStrategy[Json]:
    return st.builds(
        lambda metadata, spec: {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, _METADATA, _SPEC
    )


def debuggers() -> st.SearchStrategy[Json]:
    return _container().map(lambda found: {"name": "debugger", **found})

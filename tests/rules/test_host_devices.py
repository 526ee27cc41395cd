"""Host paths that lead to devices."""

from dataclasses import replace

import pytest

from tests.builders import TWO_NODES, UNKNOWN, case
from tests.controlplane.objects import pod
from webhook.kube.pod import Pod
from webhook.rules.host_devices import HostDevices

RULE = HostDevices()


def host(*paths: str, **fields: str) -> Pod:
    return pod(volumes=[{"name": f"v{n}", "hostPath": {"path": path, **fields}} for n, path in enumerate(paths)])


PREFLIGHT, ISOLATED = "nvsentinel.nvidia.com/preflight", "kai-resource-isolator.io/webhook"
BOTH = replace(TWO_NODES, namespaces={"team-a": {PREFLIGHT: "enabled", ISOLATED: "on"}})
ONE = replace(TWO_NODES, namespaces={"team-a": {ISOLATED: "on"}, "team-b": {PREFLIGHT: "enabled"}})


ALLOWED = [
    pytest.param(case(pod()), id="no volumes"),
    pytest.param(
        case(pod(volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}])), id="volumes that are not of the node"
    ),
    pytest.param(
        case(host("/mnt/models", "/data", "/data1/imagenet", "/models/", "/home/alice", "/scratch/x")),
        id="folders of data",
    ),
    pytest.param(case(host("/dev/shm", "/etc/localtime", "/usr/share/zoneinfo/UTC")), id="shared memory, and the time"),
    pytest.param(case(host("//mnt/./models", "/mnt/../data", "/dev//shm/")), id="the same, written otherwise"),
    pytest.param(case(host("/mnt/models", type="DirectoryOrCreate")), id="a folder or a file by type"),
    pytest.param(case(host("/mnt/models", type="")), id="a type of nothing"),
    pytest.param(case(host("/opt/models"), rule=HostDevices(allowed=("/opt",))), id="a folder that the policy allows"),
    pytest.param(
        case(host("/", "/dev"), rule=HostDevices(allowed=("/*",), denied=())),
        id="the whole node, where the policy allows it",
    ),
    pytest.param(case(host("/home/kubernetes/bin/nvidia/lib64", "/home/kubernetes/bin/gib")), id="drivers of GKE"),
    pytest.param(
        case(host("/mnt/k8s-disks/0/models", "/mnt/k8s-disks/1", "/mnt/aks2")),
        id="folders of data beside those of the node",
    ),
    pytest.param(
        case(
            host(
                "/var/run/nvsentinel",
                "/run//nvsentinel/",
                "/usr/local/vgpu",
                "/usr/local/vgpu/containers",
                "/tmp/vgpulock",
            ),
            cluster=BOTH,
        ),
        id="what other webhooks mount, in namespaces with their labels",
    ),
    pytest.param(
        case(host("/run/nvsentinel"), rule=HostDevices(of_namespaces={"/var/run/nvsentinel": ("team-*",)})),
        id="the same, in a namespace of the policy",
    ),
    pytest.param(
        case(host("/mnt/aks/x"), rule=HostDevices(denied=())), id="a folder of the node, where the policy allows it"
    ),
]

_FIX = "Use a volume claim or an emptyDir; the device plugin brings the devices that the limits ask for."
_MAY = (
    "wanted one of the folders that may be mounted: /mnt, /data*, /models, /scratch, /home, /raid, /nfs, /lustre, /fsx, "
    "/checkpoints, /workspace, /dev/shm, /var/log/sagemaker_checkpointing, /etc/localtime, /etc/timezone, /usr/share/zoneinfo, "
    "/home/kubernetes/bin/nvidia, /home/kubernetes/bin/gib."
)
_DEVICES = (
    *("/dev", "/dev/", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap1", "/dev/dri/renderD128", "/dev/kfd", "/dev/mem"),
    *("/dev/vfio", "/dev/char", "/dev/infiniband", "/dev/shm2", "/dev/fuse", "/dev/davinci0", "/dev/accel/accel0"),
    *("/dev/aperture_devices", "/dev/gdrdrv", "/dev/block", "/dev/log", "/dev/shmem", "/dev/../dev/nvidia0"),
)
_KERNEL = (
    *("/proc", "/proc/sys", "/proc/1/root/dev/nvidia0", "/proc/self/root", "/proc/driver/nvidia"),
    *("/sys", "/sys/bus/pci"),
    *("/sys/class/drm", "/sys/fs/cgroup", "/sys/kernel/debug"),
)
_SOCKETS = (
    *("/run", "/var/run", "/var/run/", "/run/nri", "/var/run/nri/nri.sock", "/run/cdi", "/etc/cdi", "/run/nvidia/mps"),
    *("/run/containerd/containerd.sock", "/var/run/docker.sock", "/run/crio/crio.sock", "/run/podman/podman.sock"),
    *("/run/k3s/containerd/containerd.sock", "/run/k0s", "/run/rke2", "/var/snap/microk8s/common/run/containerd.sock"),
    *("/run/user/1000/podman/podman.sock", "/run/cri-dockerd.sock"),
    *("/run/systemd/private", "/run/dbus/system_bus_socket"),
    *("/tmp", "/tmp/nvidia-mps", "/run/flannel", "/var/lib/rancher/k3s/agent", "/var/lib/k0s", "/run/dockershim.sock"),
)
_PROGRAMS = (
    *("/", "//", "", ".", "/var", "/var/lib", "/var/lib/kubelet", "/var/lib/kubelet/device-plugins/kubelet.sock"),
    *("/var/lib/containerd", "/var/lib/docker", "/etc", "/etc/containerd", "/etc/crio"),
    *("/etc/nri/conf.d", "/etc/cron.d"),
    *("/etc/kubernetes/manifests", "/etc/systemd/system", "/opt", "/opt/nri/plugins", "/opt/cni/bin"),
    *("/usr/bin", "/root"),
    *("/lib/modules", "/boot", "/usr/local/nvidia", "/var/log", "/mnt/../etc", "/mnt/..", "/homes", "/mnt2", "/Mnt"),
    *("C:", "/run/desktop", "/private/var/run", "/var/db"),
)
_OF_NODES = (
    *("/home/kubernetes", "/home/kubernetes/bin", "/home/kubernetes/bin/kubelet", "/home/kubernetes/bin/nvidia2"),
    *("/home/kubernetes/bin/nvidia/../kubelet", "/mnt/stateful_partition", "/mnt//stateful_partition/var/lib/kubelet"),
    *("/mnt/k8s-disks/0/kubelet/device-plugins", "/mnt/k8s-disks/./0/containerd", "/mnt/aks/kubelet"),
)
_BELOW = (
    "/run/nvsentinel/x",
    "/run/nvsentinel2",
    "/run",
    "/usr/local/vgpu/lib",
    "/usr/local",
    "/run/nvsentinel/../nri",
)
REFUSED = [
    pytest.param(
        case(host(*_BELOW), cluster=BOTH),
        [f'spec.volumes[{n}].hostPath.path: saw "{path}", {_MAY} {_FIX}' for n, path in enumerate(_BELOW)],
        id="what is beside and below what other webhooks mount",
    ),
    pytest.param(
        case(host("/run/nvsentinel"), cluster=ONE),
        [f'spec.volumes[0].hostPath.path: saw "/run/nvsentinel", {_MAY} {_FIX}'],
        id="what a webhook mounts in other namespaces",
    ),
    pytest.param(
        case(host("/run/nvsentinel"), cluster=UNKNOWN),
        [f'spec.volumes[0].hostPath.path: saw "/run/nvsentinel", {_MAY} {_FIX}'],
        id="while nothing is known of namespaces",
    ),
    pytest.param(
        case(host("/run/nvsentinel", type="Socket"), cluster=BOTH),
        [f'spec.volumes[0].hostPath.type: saw "Socket", wanted a folder or a file, no device and no socket. {_FIX}'],
        id="a socket at such a path",
    ),
    *[
        pytest.param(
            case(host(path)),
            [f'spec.volumes[0].hostPath.path: saw "{path}", {_MAY} {_FIX}'],
            id=f"{path or 'nothing'}, which is no folder of data",
        )
        for path in (*_DEVICES, *_KERNEL, *_SOCKETS, *_PROGRAMS)
    ],
    *[
        pytest.param(
            case(host("/mnt/x", type=kind)),
            [
                f'spec.volumes[0].hostPath.type: saw "{kind}", wanted a folder or a file, no device and no socket. {_FIX}'
            ],
            id=f"{kind}, even in a folder of data",
        )
        for kind in ("CharDevice", "BlockDevice", "Socket")
    ],
    pytest.param(
        case(host(r"/mnt/x\..\..\dev")),
        [f'spec.volumes[0].hostPath.path: saw "/mnt/x\\\\..\\\\..\\\\dev", {_MAY} {_FIX}'],
        id="a backslash, which Windows reads as a slash",
    ),
    *[
        pytest.param(
            case(host(path)),
            [
                f'spec.volumes[0].hostPath.path: saw "{path}", wanted another folder: this one has files that the node itself needs. {_FIX}'
            ],
            id=f"{path}, which the node itself needs",
        )
        for path in _OF_NODES
    ],
    pytest.param(
        case(pod(volumes=[{"name": "v", "gitRepo": {"repository": "https://example.com/x"}}])),
        [
            "spec.volumes[0].gitRepo: saw a repository, wanted no gitRepo volume: git runs on the node as root. "
            "Clone it in an init container, into an emptyDir."
        ],
        id="a repository, which the node clones",
    ),
    pytest.param(
        case(host("/mnt"), rule=HostDevices(allowed=())),
        [f'spec.volumes[0].hostPath.path: saw "/mnt", wanted no host path. {_FIX}'],
        id="any path, where the policy allows none",
    ),
    pytest.param(
        case(host("/mnt/x", "/dev/nvidia0")),
        [f'spec.volumes[1].hostPath.path: saw "/dev/nvidia0", {_MAY} {_FIX}'],
        id="the second of two",
    ),
]


@pytest.mark.parametrize(
    ("path", "held"),
    [
        ("/home", "/home/kubernetes"),
        ("/mnt", "/mnt/k8s-disks/0/pods"),
        ("/mnt/k8s-disks/", "/mnt/k8s-disks/0/pods"),
        ("//mnt/k8s-disks/0/.", "/mnt/k8s-disks/0/pods"),
    ],
)
def test_a_folder_that_contains_one_of_the_node_gives_a_warning(path: str, held: str) -> None:
    (finding,) = case(host(path)).findings(RULE)
    assert finding.only_warn
    assert finding.message == (
        f'spec.volumes[0].hostPath.path: saw "{path}", wanted a folder below it: on some clouds the node itself needs '
        f"{held}. Mount the folder of your data alone."
    )

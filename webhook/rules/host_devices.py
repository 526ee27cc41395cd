"""Host paths lead only to folders with data.

A host path may lead to devices, to the sockets that hand them out, and to files that root programs read. These are too many to
list, so the rule lists what may be mounted.

Fields read:   spec.volumes[*].hostPath.path, with `//` and `..` resolved and /var/run as /run; .type; .gitRepo; labels of the
               namespace
Allowed:       the folders of `allowed`, and everything below them; those of `ofNamespaces`, which other webhooks mount, in these
               namespaces alone and without what is below
Refused:       all other paths, and those of `denied`; a path with a backslash, which Windows reads as a slash; the types
               CharDevice, BlockDevice and Socket; a gitRepo volume, since git runs on the node as root
Warned about:  a folder that contains one of `denied`
Not seen:      symbolic links on the node, and PersistentVolumes of type local or hostPath (docs/ways.md)
DRA:           the same.

Source: kubernetes/kubernetes pkg/volume/hostpath, pkg/volume/git_repo (CVE-2024-10220), pkg/kubelet/kubelet_pods.go (subPath).
Where nodes keep the kubelet's state: amazon-eks-ami (instance store), AgentBaker (temporary disk), Container-Optimized OS.
"""

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import ClassVar

from webhook.framework import entitlement
from webhook.framework.interface import Check, Context, Finding, Gpus, Rule
from webhook.kube import cel
from webhook.kube.asked import AskedPod
from webhook.kube.pod import clean_path
from webhook.text import listed, quoted
from webhook.vendors.catalogue import every, host_paths
from webhook.vendors.model import HostPath

_SPECIAL = ("CharDevice", "BlockDevice", "Socket")
_MAX_FOLDERS = 24
_WHERE = "all: rules.hostDevices.allowed of the policy"
_FIX = "Use a volume claim or an emptyDir; the device plugin brings the devices that the limits ask for"


class HostDevices(Rule):
    """Host paths lead only to these folders and what is below them (name patterns; /run stands for /var/run too), and never to a
    device or a socket. Whoever can write to such a folder can put a link there that leads anywhere on the node; [] allows
    no host path. A home folder of a user who may become root (.ssh) gives access to the node: remove /home if you can."""

    everywhere: ClassVar[bool] = True

    allowed: tuple[str, ...] = (
        *("/mnt", "/data*", "/models", "/scratch", "/home", "/raid", "/nfs", "/lustre", "/fsx", "/checkpoints"),
        *("/workspace", "/dev/shm", "/var/log/sagemaker_checkpointing"),  # noqa: S108  of the node, no file of ours
        *("/etc/localtime", "/etc/timezone", "/usr/share/zoneinfo"),
        *host_paths("nothing"),
    )
    """Folders and files of the node that may be mounted."""
    denied: tuple[str, ...] = host_paths("node")
    """Folders within those in which the nodes of some clouds keep the kubelet's state or programs. If both lists match a path,
    the longer entry counts. A folder that contains one of these may be mounted, with a warning."""
    of_namespaces: dict[str, tuple[str, ...]] = {each.path: (each.label,) for each in every(HostPath) if each.label}
    """Single folders that other webhooks mount, each with the namespaces in which pods may have it: name patterns, or keys of
    labels that the namespace has. Whoever may create pods there may write to it too: health events of NVSentinel for any node,
    and the library that HAMi loads into all pods with a part of a GPU."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        for index, volume in enumerate(pod.spec.get("volumes") or ()):
            if volume.get("gitRepo"):
                wanted = "no gitRepo volume: git runs on the node as root"
                fix = "Clone it in an init container, into an emptyDir"
                yield Finding(f"spec.volumes[{index}].gitRepo", "a repository", wanted, fix)
            host = volume.get("hostPath")
            if not host:
                continue
            where, seen, kind = f"spec.volumes[{index}].hostPath", host.get("path") or "", host.get("type") or ""
            folder = clean_path(seen) + "/"
            if kind in _SPECIAL:
                yield Finding(f"{where}.type", quoted(kind), "a folder or a file, no device and no socket", _FIX)
            elif self._is_of_namespace(folder, context):
                continue
            elif "\\" in seen or not folder.startswith(self._allowed):
                folders = f"one of the folders that may be mounted: {listed(self.allowed, _MAX_FOLDERS, where=_WHERE)}"
                yield Finding(f"{where}.path", quoted(seen), folders if self.allowed else "no host path", _FIX)
            elif folder.startswith(self._denied) and not folder.startswith(self._allowed_in_denied):
                yield Finding(
                    f"{where}.path", quoted(seen), "another folder: this one has files that the node itself needs", _FIX
                )
            elif denied := self._holding.get(folder):
                wanted = f"a folder below it: on some clouds the node itself needs {denied}"
                yield Finding(
                    f"{where}.path", quoted(seen), wanted, "Mount the folder of your data alone", only_warn=True
                )

    def _is_of_namespace(self, folder: str, context: Context) -> bool:
        """Whether pods of the namespace may have this folder, whose path ends with a slash."""
        entries = self._single.get(folder)
        labels = context.cluster.namespace_labels(context.namespace) if entries else None
        return bool(entries) and entitlement.covers(entries or (), context.namespace, labels or ())

    def exported(self, gpus: Gpus) -> Iterable[Check]:
        """`//`, `.` and /var/run are resolved as in `check`. The API server itself refuses `..` in host paths."""
        yield from self._checks(entitlement.in_cel)

    def matched(self, gpus: Gpus) -> Iterable[Check]:
        yield from self._checks(entitlement.by_name)

    def _checks(self, is_one_of: Callable[[Iterable[str]], str]) -> Iterable[Check]:
        """`is_one_of`: the condition in CEL that the namespace is one of these."""

        def below(beginnings: Iterable[str]) -> str:
            return cel.one_of(beginnings, lambda beginning: f"folder.startsWith({beginning})")

        denied = cel.all_of([below(self._denied), f"!{below(self._allowed_in_denied)}"])
        backslash = f"folder.contains({cel.literal(chr(92))})"
        special = f'v.?hostPath.?type.orValue("") in {cel.literal(_SPECIAL)}'
        known = [(folder, is_one_of(entries)) for folder, entries in self._single.items()]
        single = cel.any_of(
            [f"folder == {cel.literal(folder)} && {there}" for folder, there in known if there != "false"]
        )
        wrong = f"!{below(self._allowed)} || {backslash} || {denied}"
        bad = cel.any_of(
            [
                f"variables.hostFolders.exists(folder, {wrong if single == 'false' else f'!({single}) && ({wrong})'})",
                f"object.spec.?volumes.orValue([]).exists(v, {special} || has(v.gitRepo))",
            ]
        )
        yield Check("pod", bad, "no host path but the folders of data that the policy allows")
        if self._holding:
            holding = f"variables.hostFolders.exists(folder, folder in {cel.literal([*self._holding])})"
            yield Check("pod", holding, "a folder without files that the node itself needs", only_warn=True)

    @cached_property
    def _single(self) -> dict[str, tuple[str, ...]]:
        return {f"{clean_path(path)}/": entries for path, entries in self.of_namespaces.items()}

    @cached_property
    def _allowed(self) -> tuple[str, ...]:
        return _beginnings(self.allowed)

    @cached_property
    def _denied(self) -> tuple[str, ...]:
        return _beginnings(self.denied)

    @cached_property
    def _allowed_in_denied(self) -> tuple[str, ...]:
        """The entries of `allowed` that are below one of `denied`."""
        return tuple([p for p in self._allowed if p.startswith(self._denied)])

    @cached_property
    def _holding(self) -> dict[str, str]:
        """For each allowed folder that contains an entry of `denied`: that entry."""
        denied_in: dict[str, str] = {}
        for name in self.denied:
            parts = clean_path(name.removesuffix("*")).split("/")
            denied_in |= {"/".join(parts[:n]) + "/": name for n in range(1, len(parts))}
        return {folder: name for folder, name in denied_in.items() if folder.startswith(self._allowed)}


def _beginnings(folders: Iterable[str]) -> tuple[str, ...]:
    return tuple([clean_path(p.removesuffix("*")) + ("" if p.endswith("*") else "/") for p in folders])

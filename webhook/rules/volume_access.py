"""Replicas do not share a volume that only one node, or only one pod, can use.

A volume with access mode ReadWriteOnce is attached to the node of the first replica, and replicas on other nodes wait in
ContainerCreating. With ReadWriteOncePod all pods but one stay pending.

Fields read:   spec.volumes[*].persistentVolumeClaim of a template; the replicas of its workload; the HorizontalPodAutoscaler
               that scales it; the access modes of the claims (of their volumes, once bound), if they are known
Allowed:       claims that several nodes can use, that a StatefulSet makes for each pod, or that do not exist yet
Warned about:  more than one replica with a claim that has no access mode but ReadWriteOnce and ReadWriteOncePod
DRA:           a claim for devices counts as a GPU
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.framework.replicas import many_replicas
from webhook.kube.asked import AskedPod
from webhook.text import quoted

_USERS = {"ReadWriteOnce": "one node", "ReadWriteOncePod": "one pod"}


class VolumeAccess(Rule):
    not_exported: ClassVar[str] = "is about templates, and needs the state of the cluster"

    action: Action = "warn"

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        if not context.template or not (volumes := pod.spec.get("volumes")) or not pod.has_gpu:
            return
        replicas = many_replicas(pod, context, 2)
        for index, volume in enumerate(volumes if replicas else ()):
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
            if access := context.cluster.narrow_access(context.namespace, name):
                yield Finding(
                    path=f"spec.volumes[{index}].persistentVolumeClaim.claimName",
                    seen=f"{replicas} and one PersistentVolumeClaim {quoted(name)}, which {_USERS[access]} can use ({access})",
                    wanted="a claim with ReadWriteMany or ReadOnlyMany, or a StatefulSet with volumeClaimTemplates",
                    fix="Give each replica a claim of its own, or all of them one that many nodes can use",
                )

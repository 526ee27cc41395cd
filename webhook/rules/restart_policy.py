"""Training that has finished is not started again.

With restartPolicy Always it starts again, and holds its GPUs for ever.

Fields read:   spec.restartPolicy; the class of workload and the owner
Warned about:  Always, or none, in a training pod without a controller, or of a Deployment, StatefulSet or ReplicationController
DRA:           the same.
"""

from collections.abc import Iterable
from typing import ClassVar

from webhook.framework.interface import Action, Context, Finding, Rule
from webhook.kube.asked import AskedPod

_ENDLESS = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController")


class RestartPolicy(Rule):
    of_whole_pods: ClassVar[bool] = True
    not_exported: ClassVar[str] = "is advice by class of workload"

    action: Action = "warn"
    classes: tuple[str, ...] = ("training",)
    """Classes of workload that finish."""

    def check(self, pod: AskedPod, context: Context) -> Iterable[Finding]:
        if context.workload.name not in self.classes or pod.spec.get("restartPolicy", "Always") != "Always":
            return
        kind = pod.owner.kind if pod.owner else ""
        if (kind and kind not in _ENDLESS) or not pod.has_gpu:
            return
        if kind:
            fix = f"Use a Job instead of a {'Deployment' if kind == 'ReplicaSet' else kind}"
        else:
            fix = "Set restartPolicy to OnFailure or Never, or use a Job"
        yield Finding(
            path="spec.restartPolicy",
            seen=f"Always in a pod of class {context.workload.name}",
            wanted="OnFailure or Never: finished work would start again, and hold its GPUs",
            fix=fix,
        )

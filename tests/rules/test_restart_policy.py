"""Training that starts again after it has finished."""

from tests.builders import Case, case
from tests.controlplane.objects import pod
from webhook.rules.restart_policy import RestartPolicy

RULE = RestartPolicy()

ALLOWED: dict[str, Case] = {
    "never": case(pod(restartPolicy="Never")),
    "on failure": case(pod(restartPolicy="OnFailure")),
    "always, for inference": case(pod(restartPolicy="Always"), workload="inference"),
    "always, in a pod of a Ray cluster": case(pod(restartPolicy="Always", owned_by="RayCluster")),
    "always, without a GPU": case(pod(gpus=0, restartPolicy="Always")),
}


def message(fix: str) -> list[str]:
    return [
        "spec.restartPolicy: saw Always in a pod of class training, wanted OnFailure or Never: finished work would start "
        f"again, and hold its GPUs. {fix}."
    ]


_ALONE = message("Set restartPolicy to OnFailure or Never, or use a Job")
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "always, in a pod by itself": (case(pod(restartPolicy="Always")), _ALONE),
    "nothing, which is always": (case(pod()), _ALONE),
    "training in a Deployment": (
        case(pod(restartPolicy="Always", owned_by="ReplicaSet")),
        message("Use a Job instead of a Deployment"),
    ),
    "training in a StatefulSet, with a claim": (
        case(pod(gpus=0, resourceClaims=[{"name": "gpu"}], owned_by="StatefulSet")),
        message("Use a Job instead of a StatefulSet"),
    ),
}

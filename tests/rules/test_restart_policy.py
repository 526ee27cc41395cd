"""Training that starts again after it has finished."""

import pytest

from tests.builders import case
from tests.controlplane.objects import pod
from webhook.rules.restart_policy import RestartPolicy

RULE = RestartPolicy()

ALLOWED = [
    pytest.param(case(pod(restartPolicy="Never")), id="never"),
    pytest.param(case(pod(restartPolicy="OnFailure")), id="on failure"),
    pytest.param(case(pod(restartPolicy="Always"), workload="inference"), id="always, for inference"),
    pytest.param(case(pod(restartPolicy="Always", owned_by="RayCluster")), id="always, in a pod of a Ray cluster"),
    pytest.param(case(pod(gpus=0, restartPolicy="Always")), id="always, without a GPU"),
]


def message(fix: str) -> list[str]:
    return [
        "spec.restartPolicy: saw Always in a pod of class training, wanted OnFailure or Never: finished work would start "
        f"again, and hold its GPUs. {fix}."
    ]


_ALONE = message("Set restartPolicy to OnFailure or Never, or use a Job")
REFUSED = [
    pytest.param(case(pod(restartPolicy="Always")), _ALONE, id="always, in a pod by itself"),
    pytest.param(case(pod()), _ALONE, id="nothing, which is always"),
    pytest.param(
        case(pod(restartPolicy="Always", owned_by="ReplicaSet")),
        message("Use a Job instead of a Deployment"),
        id="training in a Deployment",
    ),
    pytest.param(
        case(pod(gpus=0, resourceClaims=[{"name": "gpu"}], owned_by="StatefulSet")),
        message("Use a Job instead of a StatefulSet"),
        id="training in a StatefulSet, with a claim",
    ),
]

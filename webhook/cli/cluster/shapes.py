"""What the commands read of each kind, with its type: an object in a file may have been written by hand.

As `pod_schema`, whose language it is: missing fields, nulls, and fields that are not named are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from webhook.kube.pod_schema import (
    BOOLEAN,
    INTEGER,
    POD,
    QUANTITIES,
    QUANTITY,
    SELECTOR,
    STRING,
    STRINGS,
    TERM,
    Schema,
    conform,
)

Object = Mapping[str, Any]
_METADATA: Final[dict[str, Schema]] = {
    **dict.fromkeys(("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"), STRING),
    "labels": STRINGS,
    "annotations": STRINGS,
    "ownerReferences": [{"kind": STRING, "name": STRING, "uid": STRING, "controller": BOOLEAN}],
}
_CONDITIONS: Final[Schema] = [dict.fromkeys(("type", "status", "reason", "message"), STRING)]
_TEMPLATE: Final[Schema] = {"metadata": _METADATA, "spec": {}}
_DEVICE: Final[Schema] = {"name": STRING, "nodeName": STRING, "consumesCounters": [{"counterSet": STRING}]}
_EXACT: Final[dict[str, Schema]] = {"deviceClassName": STRING, "count": INTEGER}
_HOOKS: Final[Schema] = {
    "webhooks": [
        {
            **dict.fromkeys(("name", "failurePolicy", "matchPolicy"), STRING),
            "clientConfig": {"caBundle": STRING, "url": STRING, "service": {"name": STRING, "namespace": STRING}},
            "rules": [{key: [STRING] for key in ("apiGroups", "apiVersions", "operations", "resources")}],
            "matchConditions": [{"name": STRING, "expression": STRING}],
            "namespaceSelector": SELECTOR,
            "objectSelector": SELECTOR,
        }
    ]
}

_NUMBERS: Final = ("replicas", "parallelism", "completions", "minReplicas", "maxReplicas")
_COUNTS: Final = (
    *("replicas", "active", "succeeded", "readyReplicas", "desiredNumberScheduled", "currentNumberScheduled"),
)
_WORKLOAD: Final[Schema] = {
    "spec": {**dict.fromkeys(_NUMBERS, INTEGER), "selector": SELECTOR, "template": _TEMPLATE, "suspend": BOOLEAN},
    "status": {**dict.fromkeys(_COUNTS, INTEGER), "conditions": _CONDITIONS},
}
_SHAPES: Final[Mapping[str, Schema]] = {
    "Node": {
        "spec": {
            "taints": [dict.fromkeys(("key", "value", "effect"), STRING)],
            "unschedulable": BOOLEAN,
        },
        "status": {"allocatable": QUANTITIES, "capacity": QUANTITIES, "conditions": _CONDITIONS},
    },
    "Pod": {
        "spec": {
            **POD["spec"],
            "priority": INTEGER,
            "volumes": [{"name": STRING, "persistentVolumeClaim": {"claimName": STRING}, "ephemeral": {}}],
            "resourceClaims": [dict.fromkeys(("name", "resourceClaimName", "resourceClaimTemplateName"), STRING)],
            "schedulingGates": [{"name": STRING}],
            "schedulingGroup": {"podGroupName": STRING},
        },
        "status": {
            "phase": STRING,
            "nominatedNodeName": STRING,
            "conditions": _CONDITIONS,
            "resourceClaimStatuses": [{"name": STRING, "resourceClaimName": STRING}],
            "containerStatuses": [{"state": {"waiting": {"reason": STRING}}}],
            "initContainerStatuses": [{"state": {"waiting": {"reason": STRING}}}],
        },
    },
    "ResourceSlice": {
        "spec": {
            "driver": STRING,
            "nodeName": STRING,
            "allNodes": BOOLEAN,
            "pool": {"name": STRING, "generation": INTEGER},
            "devices": [_DEVICE],
        }
    },
    "ResourceClaim": {
        "spec": {"devices": {"requests": [{**_EXACT, "exactly": _EXACT, "firstAvailable": [_EXACT]}]}},
        "status": {
            "reservedFor": [{"name": STRING, "uid": STRING}],
            "allocation": {
                "devices": {"results": [dict.fromkeys(("driver", "pool", "device"), STRING)]},
                "nodeSelector": {"nodeSelectorTerms": [TERM]},
            },
        },
    },
    "DeviceClass": {"spec": {"selectors": [{"cel": {"expression": STRING}}], "extendedResourceName": STRING}},
    "PersistentVolume": {
        "spec": {
            "capacity": QUANTITIES,
            "accessModes": [STRING],
            "storageClassName": STRING,
            "csi": {"driver": STRING, "volumeHandle": STRING},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}},
        },
        "status": {"phase": STRING},
    },
    "PersistentVolumeClaim": {
        "spec": {
            "accessModes": [STRING],
            "storageClassName": STRING,
            "volumeName": STRING,
            "resources": {"requests": QUANTITIES},
        },
        "status": {"phase": STRING},
    },
    "StorageClass": {"provisioner": STRING, "volumeBindingMode": STRING},
    "CSINode": {"spec": {"drivers": [{"name": STRING, "allocatable": {"count": INTEGER}}]}},
    "Event": {
        **dict.fromkeys(("reason", "message", "lastTimestamp", "eventTime", "reportingComponent"), STRING),
        "involvedObject": dict.fromkeys(("kind", "namespace", "name", "uid"), STRING),
        "series": {"lastObservedTime": STRING},
        "source": {"component": STRING},
    },
    "PriorityClass": {"value": INTEGER, "globalDefault": BOOLEAN, "preemptionPolicy": STRING},
    "RuntimeClass": {"handler": STRING},
    "ConfigMap": {"data": STRINGS},
    "PodDisruptionBudget": {"spec": {"selector": SELECTOR, "minAvailable": QUANTITY, "maxUnavailable": QUANTITY}},
    "PodGroup": {"spec": {"schedulingPolicy": {"gang": {"minCount": INTEGER}}}},
    "EndpointSlice": {"endpoints": [{"conditions": {"ready": BOOLEAN}, "addresses": [STRING]}]},
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"), _WORKLOAD),
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _HOOKS),
}


def check(kind: str, obj: Object) -> None:
    """Raises BadPod with the path."""
    conform(obj, {"metadata": _METADATA, "spec": {}, "status": {}}, ())
    if shape := _SHAPES.get(kind):
        conform(obj, shape, ())

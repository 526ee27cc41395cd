"""Checks the types of all fields that the commands read: an object in a file may have been written by hand.

The schemas are tables as in `pod_schema`: missing fields, nulls, and fields that are not in the table are not looked at.
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

_SPEC_NUMBERS: Final = ("replicas", "parallelism", "completions", "minReplicas", "maxReplicas")
_STATUS_NUMBERS: Final = ("replicas", "active", "succeeded", "desiredNumberScheduled", "currentNumberScheduled")
_WORKLOAD: Final[Schema] = {
    "spec": {**dict.fromkeys(_SPEC_NUMBERS, INTEGER), "selector": SELECTOR, "template": _TEMPLATE, "suspend": BOOLEAN},
    "status": {**dict.fromkeys(_STATUS_NUMBERS, INTEGER), "conditions": _CONDITIONS},
}
_SCHEMAS: Final[Mapping[str, Schema]] = {
    "Node": {
        "spec": {"taints": [dict.fromkeys(("key", "value", "effect"), STRING)], "unschedulable": BOOLEAN},
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
            **dict.fromkeys(("storageClassName", "volumeName"), STRING),
            "accessModes": [STRING],
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
    "ValidatingAdmissionPolicy": {
        "spec": {key: [{"name": STRING, "expression": STRING}] for key in ("matchConditions", "variables")}
    },
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), _HOOKS),
}


def check(kind: str, obj: Mapping[str, Any]) -> None:
    """Raises BadPod with the path of the field that has another type."""
    conform(obj, {"metadata": _METADATA, "spec": {}, "status": {}}, ())
    if schema := _SCHEMAS.get(kind):
        conform(obj, schema, ())

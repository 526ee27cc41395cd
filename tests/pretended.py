"""The pods that replicas on this machine would run in: ready, and not for any scheduler. Replicas know each other by them."""

import copy
from collections.abc import Mapping

from tests.controlplane.objects import Json, made
from tests.controlplane.settings import HOST


def name_of(number: int) -> str:
    return f"replica-{number}"


def of_template(template: Json, number: int, namespace: str, ports: Mapping[str, int]) -> Json:
    """Of the template of the Deployment. `ports`: by their names."""
    spec = copy.deepcopy(template["spec"]) | {"schedulerName": "nobody"}
    for port in spec["containers"][0]["ports"]:
        port["containerPort"] = ports[port["name"]]
    return made("Pod", spec=spec) | {
        "metadata": template["metadata"] | {"name": name_of(number), "namespace": namespace}
    }


def status(host: str) -> Json:
    """`host`: the address of the pod, if others are to reach it."""
    address = {} if host == HOST else {"podIP": host, "podIPs": [{"ip": host}]}
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], **address}


def endpoint(number: int, namespace: str, host: str, port: int) -> Json:
    """A replica behind the Service. Its own controller looks for the node of the pod, and there is none."""
    labels = {"kubernetes.io/service-name": "gpu-admission", "endpointslice.kubernetes.io/managed-by": "tests"}
    metadata = {"name": name_of(number), "namespace": namespace, "labels": labels}
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    kind = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4"}
    return kind | {"metadata": metadata, "endpoints": [{"addresses": [host]}], "ports": ports}

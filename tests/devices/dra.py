"""Objects of resource.k8s.io/v1 as NVIDIA's driver, users and the scheduler write them."""

from collections.abc import Iterable, Mapping
from typing import Any

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"


def gpu(index: int, model: str = "H100", on: str = "n", **more: Any) -> Object:
    attributes = {
        "type": {"string": "gpu"},
        "productName": {"string": model},
        "index": {"int": index},
        "uuid": {"string": f"GPU-{on}-{index}"},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}} | more


def device_slice(
    node: str, devices: Iterable[Object], *, name: str = "", generation: int = 1, slices: int = 1, **spec: Any
) -> Object:
    pool = {"name": node, "generation": generation, "resourceSliceCount": slices}
    of: Object = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)} | spec
    return {"metadata": {"name": name or f"slice-{node}"}, "spec": of}


def gpus_of(node: str, count: int = 8, model: str = "H100") -> Object:
    return device_slice(node, [gpu(index, model, node) for index in range(count)])


def device_class(name: str = DRIVER, kind: str = "gpu", resource: str = "", created: str = "") -> Object:
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "{kind}"'
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]}
    if resource:
        spec["extendedResourceName"] = resource
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}


def exactly(count: int = 1, selector: str = "", of: str = DRIVER, **more: Any) -> Object:
    found: Object = {"deviceClassName": of, "count": count, **more}
    if selector:
        found["selectors"] = [{"cel": {"expression": selector}}]
    return found


def claim_spec(*requests: Object, **more: Any) -> Object:
    """Each request: what it asks `exactly`, or a whole request."""
    written = [each if "firstAvailable" in each else {"exactly": each} for each in requests]
    return {"devices": {"requests": [{"name": f"r{i}", **each} for i, each in enumerate(written)], **more}}


def template(name: str, *requests: Object, **more: Any) -> Object:
    return {"metadata": {"namespace": "team-a", "name": name}, "spec": {"spec": claim_spec(*requests, **more)}}


def claim(
    name: str,
    *requests: Object,
    on: str = "",
    has: Iterable[str] = (),
    users: Iterable[str] = (),
    consumed: Mapping[str, str] | None = None,
    admin: bool = False,
) -> Object:
    """A claim; `on`: the node where it is allocated, with the devices that it `has`."""
    status: Object = {}
    if on:
        results: list[Object] = [{"request": "r0", "driver": DRIVER, "pool": on, "device": device} for device in has]
        for result in results if consumed else ():
            result["consumedCapacity"] = dict(consumed or {})
        for result in results if admin else ():
            result["adminAccess"] = True
        field = {"key": "metadata.name", "operator": "In", "values": [on]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        status["allocation"] = {"devices": {"results": results}, "nodeSelector": selector}
        status["reservedFor"] = [{"resource": "pods", "name": uid, "uid": uid} for uid in users]
    return {"metadata": {"namespace": "team-a", "name": name}, "spec": claim_spec(*requests), "status": status}

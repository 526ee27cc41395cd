"""The reduced request: what a mutation is decided from, and nothing else.

The pods of one Job differ in their uids, in times, and in the name of the volume with the token. All that is left out before
anything is decided, so that their requests are equal. What is outside the reduced request cannot be read, so a cached decision
cannot depend on it.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from webhook.errors import BadPod
from webhook.kube.pod import CONTAINER_LISTS
from webhook.kube.review import Request

_METADATA: Final = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences")
_TOKEN: Final = "kube-api-access-"  # noqa: S105  the beginning of a volume's name
_TOKEN_LENGTH: Final = len(_TOKEN) + 5


def reduced(request: Request) -> Request:
    """The same question without its uid, and with a pod that has no more than decisions read. Nothing is changed in place.

    Raises TypeError and the like for what is no pod.
    """
    pod = request.object
    if pod is None:
        raise BadPod("object: wanted a Pod, saw none")
    metadata = pod["metadata"]
    small = {"metadata": {key: metadata[key] for key in _METADATA if key in metadata}, "spec": _spec(pod["spec"])}
    return request._replace(uid="", dry_run=False, object=small, old=None, size=0)


def as_json(pod: object) -> bytes:
    """Raises BadPod for one that is nested more deeply than any Kubernetes type."""
    try:
        return orjson.dumps(pod)
    except orjson.JSONEncodeError as error:
        if "ecursion" not in str(error):
            raise
        raise BadPod("object: nested too deeply: wanted what a Kubernetes type can hold") from None


def key_of(request: Request, *more: object) -> bytes:
    """Equal for reduced requests that are equal, with the same `more` (JSON data). Raises BadPod as `as_json` does."""
    return as_json([*request, *more])


def _spec(spec: dict[str, Any]) -> dict[str, Any]:
    """With one name for the volume that the ServiceAccount admission plugin adds with five random letters
    (plugin/pkg/admission/serviceaccount/admission.go). Volumes and mounts keep their places: paths into them stay true."""
    volumes = spec.get("volumes")
    name = next((volume["name"] for volume in volumes or () if _is_token(volume)), None)
    if name is None:
        return spec
    spec = {**spec, "volumes": _renamed(volumes, name)}
    for kind in CONTAINER_LISTS:
        if found := spec.get(kind):
            spec[kind] = [
                {**container, "volumeMounts": _renamed(mounts, name)}
                if (mounts := container.get("volumeMounts"))
                else container
                for container in found
            ]
    return spec


def _is_token(volume: dict[str, Any]) -> bool:
    name = volume.get("name") or ""
    return "projected" in volume and len(name) == _TOKEN_LENGTH and name.startswith(_TOKEN)


def _renamed(named: Any, name: str) -> list[dict[str, Any]]:
    return [{**each, "name": _TOKEN} if each.get("name") == name else each for each in named]

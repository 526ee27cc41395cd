"""Applies the first fix of a cause: the change that it was tried with."""

from tests.e2e.pending.kit import Json, Kit
from webhook.whatif.waiting.causes import Cause

CHANGED = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulerName", "resources")
"""Fields of a pod's spec that a fix changes, besides its containers, claims and volumes."""


class Open(Exception):
    """A fix by which more than the pod changes."""


async def apply(kit: Kit, cause: Cause) -> None:
    """Do what the first fix says. Raises Open for one that leaves open what to do."""
    fix = cause.fixes[0]
    if fix.ends:
        for pod in fix.ends:
            await kit.api.patch("Pod", pod["metadata"]["name"], {"metadata": {"finalizers": None}}, kit.namespace)
            await kit.api.delete("Pod", pod["metadata"]["name"], kit.namespace, grace=0, missing_ok=True)
    elif fix.on:
        assert fix.command[:2] == ("kubectl", "uncordon"), fix
        await kit.api.patch("Node", fix.command[2], {"spec": {"unschedulable": None}})
    elif fix.pod is not None and kit.pod["kind"] == "Pod":
        spec = fix.pod["spec"]
        lists = {kind: [_own(each) for each in spec.get(kind) or ()] for kind in ("containers", "initContainers")}
        volumes = [each for each in spec.get("volumes") or () if "projected" not in each]
        more = {"volumes": volumes or None, "resourceClaims": spec.get("resourceClaims")}
        await kit.again(**{name: spec.get(name) for name in CHANGED}, **lists, **more)
    else:
        raise Open(f"{cause.cause}: {cause.fix!r} needs somebody who knows more")


def _own(container: Json) -> Json:
    """The container without what the API server adds."""
    own = ("name", "image", "resources", "ports", "restartPolicy")
    return {name: container[name] for name in own if name in container}

"""Applies the first fix of a cause, as a person reads it."""

import re

from tests.e2e.pending.kit import GPU, Json, Kit
from webhook.whatif.waiting.causes import Cause


class Open(Exception):
    """A fix by which more than the pod changes."""


async def apply(kit: Kit, cause: Cause) -> None:
    """Do what the first alternative of a fix says. Raises Open for one that leaves open what to do."""
    if cause.fixed is not None:
        spec = cause.fixed["spec"]
        same = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulerName")
        lists = {kind: [_own(each) for each in spec.get(kind) or ()] for kind in ("containers", "initContainers")}
        await kit.again(**{name: spec.get(name) for name in same}, **lists)
    elif asked := re.match(r"ask for (\d\S*)(?: (\S+/\S+|cpu|memory|ephemeral-storage))?", cause.fix):
        if kit.pod["kind"] != "Pod":
            raise Open(cause.fix)
        if " in spec.resources" in cause.fix.partition(", or ")[0]:
            await kit.again(resources={"requests": {str(asked[2]): asked[1]}})
            return
        kind = "initContainers" if "init container" in cause.text else "containers"
        where = re.search(r' in container "(\S+?)"', cause.fix)
        containers = [*kit.pod["spec"][kind]]
        at = next((n for n, each in enumerate(containers) if where and each["name"] == where[1]), 0)
        limits = {**containers[at]["resources"]["limits"], asked[2] or GPU: asked[1]}
        containers[at] = {**containers[at], "resources": {"limits": limits, "requests": limits}}
        await kit.again(**{kind: containers})
    elif ended := re.match(r"wait for (\w+)/(\S+) in ", cause.fix):
        kind = {kind.lower(): kind for kind in ("Pod", "Job", "Deployment")}[ended[1]]
        await kit.api.patch(kind, ended[2], {"metadata": {"finalizers": None}}, kit.namespace)
        await kit.api.delete(kind, ended[2], kit.namespace, grace=0, missing_ok=True)
    elif names := re.search(r"kubectl uncordon (\S+)", cause.fix):
        await kit.api.patch("Node", names[1], {"spec": {"unschedulable": None}})
    else:
        raise Open(f"{cause.cause}: {cause.fix!r} needs somebody who knows more")


def _own(container: Json) -> Json:
    """The container without what the API server adds."""
    return {name: container[name] for name in ("name", "image", "resources", "ports") if name in container}

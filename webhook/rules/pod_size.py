"""A pod is no larger than rules can look at in good time.

Far above anything that runs, and far below the 3 MB that the API server takes: what is larger was made to keep this
program busy. It runs first, and where it finds something no other rule is asked.

Fields read:   how many containers, variables, mounts, volumes, resources, capabilities, tolerations, annotations and terms
               of node affinity there are, not what they say
Refused:       more than `_MOST` of one of them in the whole pod
DRA:           the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import le
from typing import Any, ClassVar

from webhook.interface import Context, Finding, Rule
from webhook.pod import CONTAINER_LISTS, Pod, annotations_of

_MOST = {
    "containers": 256,
    "env": 4096,
    "envFrom": 256,
    "volumeMounts": 2048,
    "resources": 2048,
    "capabilities": 1024,
    "volumes": 1024,
    "tolerations": 256,
    "annotations": 1024,
    "nodeSelector": 256,
    "nodeAffinity": 2048,
}


class PodSize(Rule):
    """No pod is larger than can be checked in good time."""

    gate: ClassVar[bool] = True

    def check(self, pod: Pod, context: Context) -> Iterable[Finding]:
        counts = _counted(pod)
        if all(map(le, counts.values(), _MOST.values())):  # in the same order
            return
        for what, most in _MOST.items():
            if counts[what] > most:
                where = "metadata" if what == "annotations" else "spec"
                yield Finding(
                    path=where,
                    seen=f"{counts[what]} {_NAMES.get(what, what)} in all",
                    wanted=f"at most {most}",
                    fix="Split the pod; nothing else in it was checked",
                )


_NAMES = {"env": "environment variables", "resources": "names of resources", "nodeAffinity": "values in node affinity"}


def _counted(pod: Pod) -> dict[str, int]:
    spec = pod["spec"]
    every = [c for kind in CONTAINER_LISTS for c in spec.get(kind) or ()]
    some = every if len(every) <= _MOST["containers"] else []  # with more there is nothing else to say
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    resources = [r for c in some if (r := c.get("resources"))]
    security = [s["capabilities"] for c in some if (s := c.get("securityContext")) and s.get("capabilities")]
    return {
        "containers": len(every),
        "env": sum([len(c.get("env") or ()) for c in some]),
        "envFrom": sum([len(c.get("envFrom") or ()) for c in some]),
        "volumeMounts": sum([len(c.get("volumeMounts") or ()) for c in some]),
        "resources": sum([len(r.get("limits") or ()) + len(r.get("requests") or ()) for r in resources]),
        "capabilities": sum([len(capabilities.get("add") or ()) for capabilities in security]),
        "volumes": len(spec.get("volumes") or ()),
        "tolerations": len(spec.get("tolerations") or ()),
        "annotations": len(annotations_of(pod)),
        "nodeSelector": len(spec.get("nodeSelector") or ()),
        "nodeAffinity": _terms(affinity) if affinity else 0,
    }


def _terms(affinity: Mapping[str, Any]) -> int:
    """Terms, expressions and values together."""
    required = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    count = 0
    for term in (*required, *(term.get("preference") or {} for term in preferred)):
        count += 1
        for part in ("matchExpressions", "matchFields"):
            for expression in term.get(part) or ():
                count += 1 + len(expression.get("values") or ())
    return count

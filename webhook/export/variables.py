"""What checks in CEL read of a request, as expressions. Each holds for the creation of a pod and for an update of one."""

from typing import Final

MADE: Final = "object.spec.containers + object.spec.?initContainers.orValue([])"
"""The containers that a pod may have when it is created."""
NEW: Final = (
    f'request.operation == "CREATE" ? dyn({MADE} + object.spec.?ephemeralContainers.orValue([])) :\n'
    "dyn(object.spec.?ephemeralContainers.orValue([]).filter(c, "
    "!oldObject.spec.?ephemeralContainers.orValue([]).exists(o, o.name == c.name)))"
)
"""The containers of a new pod; of one that exists those that are added."""
ANNOTATIONS: Final = (
    "object.metadata.?annotations.orValue({})"
    '.filter(k, request.operation == "CREATE" || '
    "oldObject.metadata.?annotations[?k] != optional.of(object.metadata.annotations[k]))"
)
"""The keys of annotations that are new or changed."""
TOLERATIONS: Final = (
    "object.spec.?tolerations.orValue([])"
    '.filter(t, request.operation == "CREATE" || !(t in oldObject.spec.?tolerations.orValue([])))'
)
"""The tolerations that are new."""
FOLDERS: Final = (
    "object.spec.?volumes.orValue([]).filter(v, has(v.hostPath))"
    '.map(v, "/" + v.hostPath.path.split("/").filter(p, p != "" && p != ".").join("/") + "/")'
    '.map(p, p.startsWith("/var/run/") ? p.substring(4) : p)'
)
"""The host paths of a pod, cleaned, with a slash at the end."""
NOT_A_MIRROR_POD: Final = {
    "name": "not-a-mirror-pod",
    "expression": "!('system:nodes' in request.userInfo.groups)",
}
"""The match condition for all requests but those of kubelets."""

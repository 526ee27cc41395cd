"""Finds the plugins of a descheduler that evict pods for being where they were placed, cycle after cycle.

A plugin leaves the pods of a namespace alone if it excludes the namespace, or if the profile's DefaultEvictor does.

Follows kubernetes-sigs/descheduler: api/v1alpha2, the README of its plugins, and the source of RemoveDuplicates, which counts
pods of any owner.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from webhook.cli.checks.result import All, Result, opted_in, unknown, warn
from webhook.kube.pod import PREFERRED, PROFILE_LABEL, owner
from webhook.kube.selectors import matches
from webhook.kube.yaml import parse_documents
from webhook.policy.model import Policy
from webhook.text import bare
from webhook.whatif.cluster.report import asks_for_gpus
from webhook.whatif.cluster.snapshot import Snapshot

_KIND: Final = "DeschedulerPolicy"
_DUPLICATES: Final = "RemoveDuplicates"
_EVICTS: Final[Mapping[str, str]] = {
    _DUPLICATES: "pods of one workload that share a node, to which training is packed",
    "RemovePodsViolatingNodeAffinity": "pods on another node than the first of those that they prefer",
    "RemovePodsViolatingTopologySpreadConstraint": "pods for constraints with ScheduleAnyway, which pods get",
    "LowNodeUtilization": "pods from the nodes that are fullest, to which they are packed",
    "HighNodeUtilization": "pods from the nodes with fewest, over which services are spread",
}
"""Which pods a plugin evicts, by its name."""
_ONLY_WITH: Final[Mapping[str, tuple[str, str]]] = {
    "RemovePodsViolatingNodeAffinity": ("nodeAffinityType", PREFERRED),
    "RemovePodsViolatingTopologySpreadConstraint": ("constraints", "ScheduleAnyway"),
}
"""By plugin: the argument, a list, and what it must have for that."""
_SETTING: Final = (
    "in pluginConfig, give DefaultEvictor the namespaceLabelSelector "
    f"{{matchExpressions: [{{key: {PROFILE_LABEL}, operator: DoesNotExist}}]}}"
)
Json = Mapping[str, Any]


def descheduler(snapshot: Snapshot, policy: Policy) -> All:
    """No plugin of a descheduler evicts pods of namespaces that opted in for being where they were placed."""
    policies, found = snapshot.of(_KIND), list[Result]()
    for each in policies:
        name, namespace = bare(each["metadata"]["name"]), bare(each["metadata"].get("namespace") or "default")
        try:
            texts = parse_documents((each["status"].get("text") or "").encode())
            plugins = [*_evicting(next(of for of in texts if of.get("kind") == _KIND), snapshot, policy)]
        except (ValueError, TypeError, LookupError, AttributeError, StopIteration) as error:
            found.append(
                unknown(f"{namespace}/{name} is no policy of a descheduler that can be read: {bare(str(error))}")
            )
            continue
        edit = ("kubectl", "-n", namespace, "edit", "configmap", name)
        found += [warn(f"{namespace}/{name}: {plugin} evicts {_EVICTS[plugin]}", _SETTING, edit) for plugin in plugins]
    if not policies:
        return "no descheduler runs, as far as its pods show it"
    return found or "a descheduler runs, and leaves pods where they were placed"


def _evicting(of: Json, snapshot: Snapshot, policy: Policy) -> Iterator[str]:
    """The plugins of a policy that do so, each once. Raises LookupError, TypeError or AttributeError if it is malformed."""
    names = dict[str, None]()
    for profile in of.get("profiles") or ():
        arguments: dict[str, Json] = {
            each["name"]: each.get("args") or {} for each in profile.get("pluginConfig") or ()
        }
        points = [point for point in (profile.get("plugins") or {}).values() if point]
        enabled = [name for point in points for name in point.get("enabled") or ()]
        selector = arguments.get("DefaultEvictor", {}).get("namespaceLabelSelector")
        reached = [name for name, labels in opted_in(snapshot).items() if not selector or matches(selector, labels)]
        names |= dict.fromkeys(
            name
            for name in enabled
            if name in _EVICTS and _evicts(name, arguments.get(name, {}), reached, snapshot, policy)
        )
    yield from names


def _evicts(plugin: str, arguments: Json, reached: list[str], snapshot: Snapshot, policy: Policy) -> bool:
    """Whether a plugin with these arguments evicts pods of the namespaces that the profile reaches."""
    namespaces = arguments.get("namespaces") or arguments.get("evictableNamespaces") or {}
    included, excluded = namespaces.get("include") or reached, namespaces.get("exclude") or ()
    left = [name for name in reached if name in included and name not in excluded]
    argument, value = _ONLY_WITH.get(plugin, ("", ""))
    if not left or (argument and value not in (arguments.get(argument) or ())):
        return False
    if plugin != _DUPLICATES:
        return True
    pods = [pod for pods in snapshot.pods_on.values() for pod in pods if pod["metadata"]["namespace"] in left]
    kinds = {controller.kind for pod in pods if asks_for_gpus(pod, policy) and (controller := owner(pod))}
    return not (kinds or {"Job"}) <= {"DaemonSet", *(arguments.get("excludeOwnerKinds") or ())}

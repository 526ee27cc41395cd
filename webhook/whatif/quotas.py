"""ResourceQuotas, as far as they count the requests and the number of pods: what is left of them for pods that are tried.

k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go. Quotas with scopes, and limits, are left to the API server.
"""

from collections.abc import Mapping
from typing import Final

from webhook.errors import QuantityError
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import counted_requests
from webhook.kube.quantity import parse_quantity
from webhook.text import amount_number, bare
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.waiting.causes import Cause
from webhook.whatif.waiting.workloads import over_quota

_PODS: Final = ("pods", "count/pods")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")


class Quotas:
    """What is left of the quotas of each namespace."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._left: dict[str, dict[str, dict[str, int]]] = {}
        for each in snapshot.of("ResourceQuota"):
            if not (each["spec"].get("scopes") or each["spec"].get("scopeSelector")):
                used, hard = each["status"].get("used") or {}, (each["spec"].get("hard") or {}).items()
                left = {
                    key: _amount(key, most) - _amount(key, used.get(key, "0")) for key, most in hard if _resource(key)
                }
                self._left.setdefault(each["metadata"]["namespace"], {})[each["metadata"]["name"]] = left

    def take(self, pod: Pod) -> Cause | None:
        """Count a new pod. Returns why a quota refuses it, with all that it lacks; None, and it is counted, if none does."""
        namespace, pod_requests = pod["metadata"]["namespace"], counted_requests(pod)
        asked = {
            (name, key): 1 if key in _PODS else pod_requests.amount(_resource(key))
            for name, left in self._left.get(namespace, {}).items()
            for key in left
        }
        lacks, rest = dict[str, list[str]](), True
        for (name, key), amount in asked.items():
            if amount > (left := self._left[namespace][name][key]):
                shown = [amount_number(_resource(key), max(0, each)) for each in (amount, left)]
                lacks.setdefault(name, []).append(f"{shown[0]} {bare(key)} asked for, {shown[1]} left")
                rest = rest and left > 0
        if lacks:
            text = "; ".join(f"quota {bare(name)}: {', '.join(parts)}" for name, parts in lacks.items())
            return over_quota(f"it could not be created: {text}", next(iter(lacks)), namespace, rest=rest)
        for (name, key), amount in asked.items():
            self._left[namespace][name][key] -= amount
        return None


def _resource(key: str) -> str:
    """The resource that a key of a quota counts the requests of; "" for one that is not looked at."""
    return key if key in (*_PODS, *_PLAIN) else key.removeprefix("requests.") if key.startswith("requests.") else ""


def _amount(key: str, text: str | Mapping[str, str]) -> int:
    try:
        return int(parse_quantity(str(text)) * (1000 if _resource(key) == "cpu" else 1))
    except QuantityError:
        return 1 << 62

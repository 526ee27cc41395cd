"""ResourceQuotas, as far as they count the requests and the number of pods: what is left of them for pods that are tried.

k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go. Quotas with scopes, and limits, are left to the API server.
"""

from typing import Final, NamedTuple

import orjson

from webhook.errors import QuantityError
from webhook.kube.less import less
from webhook.kube.pod import Pod
from webhook.kube.pod_requests import counted_requests
from webhook.kube.quantity import parse_quantity, quantity_text
from webhook.text import amount_number, bare
from webhook.whatif.cluster.snapshot import Object, Snapshot
from webhook.whatif.commands import kubectl
from webhook.whatif.waiting.causes import Cause, Fix

_PODS: Final = ("pods", "count/pods")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")


class Quota(NamedTuple):
    """The lines of a quota that are looked at, in thousandths of a CPU or whole units."""

    hard: dict[str, int]
    used: dict[str, int]

    @classmethod
    def of(cls, obj: Object) -> "Quota":
        used, hard = obj["status"].get("used") or {}, (obj["spec"].get("hard") or {}).items()
        lines = {key: amount_of(_resource(key), most) for key, most in hard if _resource(key)}
        return cls(lines, {key: amount_of(_resource(key), used.get(key, "0")) for key in lines})

    def asked(self, pod: Pod) -> dict[str, int]:
        """How much a pod needs of each line."""
        pod_requests = counted_requests(pod)
        return {key: 1 if key in _PODS else pod_requests.amount(_resource(key)) for key in self.hard}

    def lacks(self, pod: Pod, pods: int = 1) -> dict[str, int]:
        """The lines that are too small for so many more of these pods, and what they must be."""
        needs = {key: self.used[key] + pods * amount for key, amount in self.asked(pod).items() if amount}
        return {key: need for key, need in needs.items() if need > self.hard[key]}

    def fixes(self, name: str, pod: Pod, pods: int) -> tuple[Fix, ...]:
        """What lets so many more of these pods be created: to ask for less, if only one line is too small, and to raise it."""
        lacks, found = self.lacks(pod), list[Fix]()
        namespace, raised = pod["metadata"]["namespace"], self.lacks(pod, pods).items()
        if len(lacks) == 1 and (key := next(iter(lacks))) not in _PODS:
            of, left = _resource(key), self.hard[key] - self.used[key]
            if left > 0 and (fewer := less(pod, of, left)):
                text = amount_number(of, fewer.amount)
                found.append(Fix(f"ask for {text} {bare(of)} at most{fewer.where}", pod=fewer.change(text)))
        patch = {"spec": {"hard": {key: quantity_text(_resource(key), need) for key, need in raised}}}
        arguments = ("patch", "quota", name, "--type", "merge", "-p", orjson.dumps(patch).decode())
        return *found, Fix("raise it", kubectl(*arguments, namespace=namespace), pod=pod)


class Quotas:
    """The quotas of each namespace, with what pods take of them."""

    def __init__(self, snapshot: Snapshot, *, but: str = "") -> None:
        """`but`: the name of one that is left out."""
        self._quotas: dict[str, dict[str, Quota]] = {}
        for each in snapshot.of("ResourceQuota"):
            name, scoped = each["metadata"]["name"], each["spec"].get("scopes") or each["spec"].get("scopeSelector")
            if not scoped and name != but:
                self._quotas.setdefault(each["metadata"]["namespace"], {})[name] = Quota.of(each)

    def take(self, pod: Pod, pods: int = 1) -> Cause | None:
        """Count a new pod. Returns why a quota refuses it, with all that it lacks; None, and it is counted, if none does.
        `pods`: how many like it are to come, with it."""
        namespace, rest = pod["metadata"]["namespace"], True
        here, texts = self._quotas.get(namespace, {}), dict[str, str]()
        for name, quota in here.items():
            parts, asked = [], quota.asked(pod)
            for key in quota.lacks(pod):
                left = max(0, quota.hard[key] - quota.used[key])
                shown = [amount_number(_resource(key), each) for each in (asked[key], left)]
                parts.append(f"{shown[0]} {bare(key)} asked for, {shown[1]} left")
                rest = rest and left > 0
            if parts:
                texts[name] = f"quota {bare(name)}: {', '.join(parts)}"
        if texts:
            text, first = "; ".join(texts.values()), next(iter(texts))
            fixes = here[first].fixes(first, pod, pods) if len(texts) == 1 else ()
            return over_quota(f"it could not be created: {text}", first, namespace, fixes, rest=rest)
        for quota in here.values():
            for key, amount in quota.asked(pod).items():
                quota.used[key] += amount
        return None


def over_quota(
    text: str, quota: str, namespace: str, fixes: tuple[Fix, ...], users: str = "pods", *, rest: bool
) -> Cause:
    """The cause that a quota allows no more. `fixes`: its own, if they are known. `users`: what counts there, for kubectl.
    `rest`: whether something is left."""
    ends = Fix("end what uses it", kubectl("get", users, namespace=namespace))
    edit = Fix("raise it", kubectl("edit", "quota", quota, namespace=namespace))
    if fixes:
        return Cause.of("quotaExceeded", text, *fixes, ends)
    return Cause.of("quotaExceeded", text, *(["ask for less"] if rest else []), ends, edit)


def _resource(key: str) -> str:
    """The resource that a key of a quota counts the requests of; "" for one that is not looked at."""
    return key if key in (*_PODS, *_PLAIN) else key.removeprefix("requests.") if key.startswith("requests.") else ""


def amount_of(resource: str, text: object) -> int:
    """A quantity in thousandths of a CPU or whole units; more than there can be if it is none."""
    try:
        return int(parse_quantity(str(text)) * (1000 if resource == "cpu" else 1))
    except QuantityError:
        return 1 << 62

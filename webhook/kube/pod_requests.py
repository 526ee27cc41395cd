"""What a whole pod requests, as the scheduler counts it: worked out once for pods of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Any

import orjson

from webhook.errors import QuantityError
from webhook.kube import bounds
from webhook.kube.pod import Pod, requests_of
from webhook.kube.quantity import Number, parse_quantity, thousandths

_LONGEST = 2048
"""Bytes of what a pod states. Tenants write them: what is longer is not remembered."""


def total_requests(pod: Pod) -> Mapping[str, int]:
    """What the scheduler counts for the whole pod: CPU in thousandths, all else in whole units (bytes, GPUs).

    Containers and sidecars add up; an init container needs what it asks for beside the sidecars started before it; the
    pod needs the larger of the two, and its overhead on top. Pod-level resources replace the sum for what they name.
    Added up exactly, rounded up at the end. Follows k8s.io/component-helpers resource/helpers.go (PodRequests).
    Raises QuantityError, also for a pod that is past the bounds. Pods of one shape share the answer.
    """
    stated = _stated(pod)
    if len(stated) <= _LONGEST:
        return _totalled(stated)
    if bounds.of_pod(pod):
        raise QuantityError("the pod states more than is added up")
    return _totalled.__wrapped__(stated)


def _stated(pod: Pod) -> bytes:
    """All that `total_requests` depends on, as bytes: equal ones have the same total."""
    spec = pod["spec"]
    every = [c.get("resources") for c in spec.get("containers") or ()]
    first = [(c.get("resources"), c.get("restartPolicy")) for c in spec.get("initContainers") or ()]
    return orjson.dumps((every, first, spec.get("resources"), spec.get("overhead")), default=str)


@lru_cache(maxsize=1024)
def _totalled(stated: bytes) -> Mapping[str, int]:
    every, first, pod_level, overhead = orjson.loads(stated)
    total: dict[str, Number] = {}
    for resources in every:
        _add(total, requests_of({"resources": resources}))
    peak: dict[str, Number] = {}
    sidecars: dict[str, Number] = {}
    for resources, restart_policy in first:
        asked = requests_of({"resources": resources})
        if restart_policy == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            _raise(peak, sidecars)
        else:
            _raise(peak, _add(dict(sidecars), asked))
    _raise(total, peak)
    if pod_level:
        _replace(total, pod_level)
    if overhead:
        _add(total, overhead)
    return {name: amount if type(amount) is int else ceil(amount) for name, amount in total.items()}


def _add(total: dict[str, Number], asked: Mapping[str, Any]) -> dict[str, Number]:
    for name, quantity in asked.items():
        total[name] = total.get(name, 0) + (thousandths(quantity) if name == "cpu" else parse_quantity(quantity))
    return total


def _replace(total: dict[str, Number], pod_level: Mapping[str, Any]) -> None:
    """Pod-level resources, of CPU, memory and huge pages only.

    A limit without a request stands in where no container asks for that resource (always, for huge pages): since 1.37 the
    API server fills requests in after admission (defaultPodRequests, PodLevelResourcesFixDefaulting).
    """
    requests = pod_level.get("requests") or {}
    for name, quantity in {**(pod_level.get("limits") or {}), **requests}.items():
        huge = name.startswith("hugepages-")
        if (huge or name in ("cpu", "memory")) and (huge or name in requests or name not in total):
            total[name] = _add({}, {name: quantity})[name]


def _raise(total: dict[str, Number], floor: Mapping[str, Number]) -> None:
    for name, amount in floor.items():
        if name not in total or amount > total[name]:
            total[name] = amount

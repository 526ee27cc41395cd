"""Pods that are too large to be looked at."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Case, case, container, pod
from webhook.rules.pod_size import PodSize

RULE = PodSize()


def with_terms(count: int) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}] * count
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}],
        }
    }


ALLOWED: dict[str, Case] = {
    "one container": case(pod()),
    "as many containers as there may be": case(pod(*[container(gpu=None)] * 250, init=[container()] * 6)),
    "a thousand variables": case(pod(container(env={f"A{n}": "b" for n in range(1000)}))),
    "affinity to a hundred nodes": case(pod(affinity=with_terms(100))),
}

_FIX = "Split the pod; nothing else in it was checked."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "too many containers": (
        case(pod(*[container()] * 250, init=[container()] * 7)),
        [f"spec: saw 257 containers in all, wanted at most 256. {_FIX}"],
    ),
    "too many variables in all containers": (
        case(pod(*(container(str(n), env=dict.fromkeys(map(str, range(2000)), "b")) for n in range(3)))),
        [f"spec: saw 6000 environment variables in all, wanted at most 4096. {_FIX}"],
    ),
    "too many of several": (
        case(
            pod(
                container(
                    limits={f"nvidia.com/mig-{n}": "1" for n in range(1600)},
                    volumeMounts=[{"mountPath": "/x"}] * 3000,
                    envFrom=[{}] * 300,
                    securityContext={"capabilities": {"add": ["A"] * 2000}},
                ),
                volumes=[{}] * 2000,
                tolerations=[{}] * 300,
                annotations=dict.fromkeys(map(str, range(2000)), ""),
                nodeSelector=dict.fromkeys(map(str, range(300)), ""),
                affinity=with_terms(1000),
            )
        ),
        [
            f"spec: saw 300 envFrom in all, wanted at most 256. {_FIX}",
            f"spec: saw 3000 volumeMounts in all, wanted at most 2048. {_FIX}",
            f"spec: saw 3206 names of resources in all, wanted at most 2048. {_FIX}",
            f"spec: saw 2000 capabilities in all, wanted at most 1024. {_FIX}",
            f"spec: saw 2000 volumes in all, wanted at most 1024. {_FIX}",
            f"spec: saw 300 tolerations in all, wanted at most 256. {_FIX}",
            f"metadata: saw 2000 annotations in all, wanted at most 1024. {_FIX}",
            f"spec: saw 300 nodeSelector in all, wanted at most 256. {_FIX}",
            f"spec: saw 3003 values in node affinity in all, wanted at most 2048. {_FIX}",
        ],
    ),
}


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))


def test_nothing_else_is_asked_about_a_pod_that_is_too_large() -> None:
    assert RULE.gate

"""Variables that load code."""

from __future__ import annotations

import pytest

from tests.builders import Case, case, container, pod
from webhook.rules.ld_preload import LdPreload

RULE = LdPreload()

ALLOWED: dict[str, Case] = {
    "no variables": case(pod()),
    "a search path": case(pod(container(env={"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}))),
    "another spelling": case(pod(container(env={"ld_preload": "/x.so"}))),
}

_END = "wanted no such variable: an old container toolkit runs what it names as root on the node. Remove it, and link the library in the image."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "every kind of container, by value or reference": (
        case(
            pod(
                container(env={"A": "b", "LD_PRELOAD": "/x.so"}),
                init=[container("setup", env={"LD_AUDIT": {"secretKeyRef": {}}})],
                ephemeral=[container("debug", gpu=None, env={"LD_PRELOAD": "/x.so"})],
            )
        ),
        [
            f'spec.initContainers[0].env[0]: saw LD_AUDIT in container "setup", {_END}',
            f'spec.containers[0].env[1]: saw LD_PRELOAD in container "main", {_END}',
            f'spec.ephemeralContainers[0].env[0]: saw LD_PRELOAD in container "debug", {_END}',
        ],
    ),
}


def test_it_is_off_unless_the_policy_turns_it_on() -> None:
    assert RULE.action == "off"


@pytest.mark.parametrize("allowed", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed(allowed: Case) -> None:
    assert allowed.messages(RULE) == []


@pytest.mark.parametrize(("refused", "messages"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(refused: Case, messages: list[str]) -> None:
    assert refused.messages(RULE) == messages
    assert not any(finding.only_warn for finding in refused.findings(RULE))

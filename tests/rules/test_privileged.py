"""Privileged containers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Case, case, container, pod, sidecar
from webhook.rules.privileged import Privileged

RULE = Privileged()
YES: dict[str, Any] = {"privileged": True}

ALLOWED: dict[str, Case] = {
    "no security context": case(pod()),
    "false": case(pod(container(securityContext={"privileged": False}))),
    "other settings": case(pod(container(securityContext={"runAsUser": 0, "allowPrivilegeEscalation": True}))),
}

_END = "wanted false: a privileged container sees every GPU of the node. Remove it; a GPU limit is all that a container needs to use a GPU."
REFUSED: dict[str, tuple[Case, list[str]]] = {
    "every kind of container, with and without a GPU": (
        case(
            pod(
                container(securityContext=YES),
                container("good"),
                init=[container("setup", gpu=None, securityContext=YES), sidecar(securityContext=YES)],
                ephemeral=[container("debug", gpu=None, securityContext=YES)],
            )
        ),
        [
            f'spec.{field}.securityContext.privileged: saw true in container "{name}", {_END}'
            for field, name in (
                ("initContainers[0]", "setup"),
                ("initContainers[1]", "sidecar"),
                ("containers[0]", "main"),
                ("ephemeralContainers[0]", "debug"),
            )
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

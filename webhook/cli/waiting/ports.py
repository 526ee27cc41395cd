"""Checks nodes for host ports that other pods have.

k8s.io/kubernetes pkg/scheduler/framework/plugins/nodeports.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from webhook.cli.cluster.snapshot import full_name
from webhook.cli.waiting.causes import Cause, NodeCheck
from webhook.cli.waiting.situation import Case
from webhook.kube.pod import Pod, containers
from webhook.placement.constraints import Mask
from webhook.text import listed

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  compared as the scheduler does, not bound
_Port = tuple[str, str, int]
"""Address, protocol and number."""


def ports(case: Case) -> NodeCheck:
    """Nodes on which other pods use the host ports of the pod."""
    s, fails = case.situation, np.zeros_like(case.situation.alive)
    wanted = _host_ports(case.pod)
    taken: dict[int, list[str]] = {}
    if wanted:
        for row, pod in s.bound:
            clash = [port for port in _host_ports(pod) if any(_clashes(port, other) for other in wanted)]
            if clash:
                fails[row] = True
                taken.setdefault(row, []).append(f"{clash[0][2]} by {full_name(pod)}")

    def explain(mask: Mask, alone: Mask) -> Iterator[Cause]:
        example = taken[int(np.flatnonzero(mask)[0])]
        text = f"host ports taken on {s.where(mask)}: {listed(example)}"
        fix = "leave hostPort out (a Service needs none), take another, or run at most one such pod on a node"
        yield s.cause("hostPort", text, fix, mask, alone)

    return NodeCheck(s.alive & fails, explain)


def _host_ports(pod: Pod) -> list[_Port]:
    return [
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in containers(pod)
        for port in container.spec.get("ports") or ()
        if port.get("hostPort")
    ]


def _clashes(one: _Port, other: _Port) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or _ANY_ADDRESS in (one[0], other[0]))

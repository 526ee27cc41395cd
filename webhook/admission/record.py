"""The decision record: what was done to a pod and why, as a small deterministic JSON document.

It is in the annotation `gpu-admission.io/decision` and in the audit log:

    {"policy":"1f0c…","profile":"default","class":"inference",
     "units":{"gpuResources":["filled",1],"tolerations":["added",["nvidia.com/gpu"]], …},
     "strategy":"spread","nodes":[["gpu-a1",8,0,1.0],["gpu-a2",6,1,0.5]],"of":12,"decided":"peers",
     "read":"5f0c8a1b2d3e","asked":{"cpu":8000,"nvidia.com/gpu":1}}

`nodes`: name, free GPUs, pods of the same owner, score; best first. With GPU metrics of the node also the number of free GPUs
that are not busy, hot or unhealthy, and the mean utilisation in percent. `decided`: the criterion by which the first node is
before the second (`placement.order`). A node with a score below -500 is ranked after the
others: a whole node that the pod would break up, or one that another replica of the webhook fills. `of`: the number of nodes
that were considered. `by`: the numbers behind the ranking, `["metrics",source,age in seconds]` or `["allocation",reason why there
are no metrics]`. `asked`: the requests of the pod, CPU in thousandths. `read`: all else of the pod that the nodes were chosen by,
as a hash: if another webhook changes it, they are chosen anew. `karpenter`: the least version that makes a node for the pod if
these are full. If no node was chosen: `"why":"no node fits"` and `"rejected":[["too few free GPUs",7],…]`.
`left`: the first node of an earlier call for the pod, if it is to go elsewhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from webhook.admission.words import finding_line
from webhook.framework.cluster_view import Placement
from webhook.framework.interface import Finding, Outcome
from webhook.kube.pod_requests import PodRequests
from webhook.kube.record import MAX_RECORD_BYTES
from webhook.text import listed, plural, printable

MAX_WARNINGS = 5
MAX_WARNING_LENGTH = 256
"""Characters of a warning with all that is said in it. The API server cuts every warning to this length once all together have
more than 4096 characters, and drops warnings with control characters (apiserver/pkg/endpoints/filters/warning.go)."""
_MAX_LINE = 4096 // 2 // (MAX_WARNINGS + 1)
"""Characters of a warning that cannot be said in fewer: both hooks together then have no more than the API server shows whole."""
_MAX_FINDINGS = 20
_MAX_UNIT_NAME = 32
_MAX_ASKED_RESOURCES = 12


def record(
    policy: str,
    profile: str,
    workload: str,
    outcomes: Mapping[str, Outcome],
    placement: Placement | None,
    asked: PodRequests | None = None,
) -> dict[str, Any]:
    """The decision record of one pod as plain data, in a fixed order."""
    data: dict[str, Any] = {
        "policy": policy,
        "profile": profile,
        "class": workload,
        "units": {name: o.recorded for name, o in outcomes.items()},
    }
    if placement is not None:
        data["strategy"] = placement.strategy
        if placement.nodes:
            data["nodes"] = [
                [node, free, peers, round(score * 1000) / 1000, *(() if usable is None else (usable, load))]
                for node, free, peers, score, usable, load in placement.nodes
            ]
            data["of"] = placement.total
            if placement.decided:
                data["decided"] = placement.decided
            if placement.karpenter:
                data["karpenter"] = placement.karpenter
            if placement.read:
                data["read"] = placement.read
            if placement.numbers:
                data["by"] = list(placement.numbers)
            if asked is not None and len(asked.requests) <= _MAX_ASKED_RESOURCES:
                data["asked"] = {name: amount for name, amount in asked.requests if name != "pods"}
        else:
            data["why"] = placement.reason
            if placement.rejected:
                data["rejected"] = [list(r) for r in placement.rejected]
        if placement.left:
            data["left"] = placement.left
    return data


def encoded(data: dict[str, Any]) -> str:
    """The record as JSON text. If it has more than MAX_RECORD_BYTES, the last nodes are left out, then the details of units."""
    text = orjson.dumps(data)
    if len(text) > MAX_RECORD_BYTES and (nodes := data.get("nodes")):
        data = {**data, "nodes": list(nodes)}
        while len(text) > MAX_RECORD_BYTES and len(data["nodes"]) > 1:
            data["nodes"].pop()
            text = orjson.dumps(data)
    if len(text) > MAX_RECORD_BYTES:
        data = {**data, "units": {name: unit[:1] for name, unit in data["units"].items()}}
        text = orjson.dumps(data)
    return text.decode()


def warnings(texts: Iterable[str | None]) -> list[str]:
    """Warnings for the client: one line each, without control characters. One that is too long is cut. If there are too many,
    the last line says of which units the others are."""
    lines = list(dict.fromkeys([_cut(printable(text)) for text in texts if text]))
    shown = lines[:MAX_WARNINGS]
    if len(shown) < len(lines):
        left_out = Counter([line.partition(":")[0][:_MAX_UNIT_NAME] for line in lines[MAX_WARNINGS:]])
        units = listed([unit if count == 1 else f"{unit} ({count})" for unit, count in left_out.items()])
        shown.append(
            f"{plural(left_out.total(), 'more warning')} left out here, of {units}: gpu-admission try shows all"
        )
    return shown


def _cut(line: str) -> str:
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 1]}…"


def refusal_message(findings: Iterable[tuple[str, Finding]], policy: str) -> str:
    """The message of a refusal: all findings, each with the unit that yielded it, and the hash of the policy."""
    every = list(findings)
    lines = [finding_line(unit, finding) for unit, finding in every[:_MAX_FINDINGS]]
    if len(every) > _MAX_FINDINGS:
        lines.append(f"… and {len(every) - _MAX_FINDINGS} more")
    if len(lines) == 1:
        return f"{lines[0]} (policy {policy})"
    return f"{len(every)} problems (policy {policy}):\n" + "\n".join(f"- {line}" for line in lines)

"""Shows a decision record, as a document or as text: what the injectors did, and the ranked nodes with their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.text import Text

from webhook.admission import words
from webhook.cli.cluster.snapshot import Snapshot
from webhook.cli.printing import show, table
from webhook.cluster.pods import counted_demand
from webhook.kube.pod import Pod

_NUMBERS: Final = ("name", "free", "peers", "score", "usable", "load")
"""Keys for the values that the record has of each ranked node, in order. The last two exist only if GPU metrics were used."""


def of_record(record: Mapping[str, Any], bound: str | None, pod: Pod, snapshot: Snapshot) -> dict[str, Any]:
    """The document of the record of a pod. `bound`: the node that the pod is on; None: it has none yet."""
    if not record:
        return {"boundTo": bound}
    nodes = [dict(zip(_NUMBERS, each, strict=False)) for each in record.get("nodes") or ()]
    state = None if "Node" in snapshot.missing else snapshot.state
    for node in nodes:
        if why := words.why_last(node, counted_demand(pod), state):
            node["last"] = why
    word, sentence = words.binding([node["name"] for node in nodes], bound)
    return {
        **{key: record.get(key) for key in ("class", "profile", "policy", "strategy")},
        "units": [{"name": name, "text": text} for name, text in words.units(record)],
        "nodes": nodes,
        "decided": words.decided(record),
        "why": words.why_none(record),
        "by": words.source(record),
        "boundTo": bound,
        "choice": word,
        "text": sentence,
    }


def print_decision(decision: dict[str, Any]) -> None:
    """Print the document that `of_record` gives. Prints nothing if there is no decision."""
    if "class" not in decision:
        return
    show(Text(f"  class {decision['class']}, profile {decision['profile']}, policy {decision['policy']}"))
    for unit in decision["units"]:
        show(Text.assemble(("  " + unit["name"], "cyan"), f": {unit['text']}"))
    if decision["why"]:
        show(Text(f"  no node chosen: {decision['why']}"))
    if decision["nodes"]:
        used = f", {decision['by']}" if decision["by"] else ""
        show(Text(f"  strategy {decision['strategy']}{used}; {decision['text']}"))
        if decision["decided"]:
            show(Text(f"  {decision['decided']}"))
        metered = any("usable" in n for n in decision["nodes"])
        rows = [
            [
                *("  " + n["name"], n["free"], n["peers"], n["score"]),
                *([_metrics(n)] if metered else []),
                _remark(n, decision["boundTo"]),
            ]
            for n in decision["nodes"]
        ]
        table(["  NODE", *words.MEANINGS, *(["METRICS"] if metered else []), ""], rows)
        show(Text("  " + "; ".join(f"{name}: {meaning}" for name, meaning in words.MEANINGS.items()), style="dim"))


def _remark(node: Mapping[str, Any], bound: str | None) -> str:
    last = f"last: {node['last']}" if "last" in node else ""
    return "; ".join(filter(None, ["← bound" if node["name"] == bound else "", last]))


def _metrics(node: Mapping[str, Any]) -> str:
    load = "" if node.get("load") is None else f", {node['load']} % used"
    return "" if node.get("usable") is None else f"{node['usable']} fit for use{load}"

"""`gpu-admission top` for those who may not list pods: the nodes, and the sums of all GPUs as the webhook counts them.

Whose the GPUs are is not told. The component `manifests/components/reader` has the rights for it.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from webhook.cli.cluster.answers import GPU_SUMS, ask
from webhook.cli.terminal import document, out, say, table
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.whatif.cluster.snapshot import Snapshot

STATES: Final = ("allocated", "promised", "free", "unusable")
Report = Mapping[str, Any]


def shown(snapshot: Snapshot, reports: list[dict[str, Any]], output: str) -> None:
    """Print the nodes with what they have in all. `reports`: of `cluster.report`, without any pod."""
    for each in reports:
        each["gpus"] = {resource: {"total": counts["total"]} for resource, counts in each["gpus"].items()}
        del each["pods"], each["host"]
    if snapshot.access is not None:
        asyncio.run(_ask(snapshot, snapshot.access))
    if document(reports, output, "Top"):
        return
    rows = [
        [node["name"], node["pool"], node["model"], node["health"], resource, counts["total"]]
        for node in reports
        for resource, counts in node["gpus"].items()
    ]
    table(["NODE", "POOL", "MODEL", "HEALTH", "RESOURCE", "TOTAL"], rows, drop=["POOL", "RESOURCE", "MODEL"])
    out("")
    if sums := _sums(snapshot):
        table(["MODEL", "RESOURCE", "TOTAL", *[state.upper() for state in STATES]], sums)
    else:
        why = snapshot.missing.get("GpuSums", "no answer of the webhook")
        say(
            f"how many GPUs are allocated is not known: {why}. The component manifests/components/reader gives the right"
        )


async def _ask(snapshot: Snapshot, access: Access) -> None:
    async with Api(always(access)) as api:
        await ask(api, snapshot, "GpuSums", GPU_SUMS)


def _sums(snapshot: Snapshot) -> list[list[Any]]:
    """A row for each model and resource: its total, then each state."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for answer in snapshot.of("GpuSums"):
        for _, labels, value in answer["status"]["samples"]:
            of = found.setdefault((labels.get("model", ""), labels.get("resource", "")), {})
            of[labels.get("state", "")] = int(value or 0)
    return [[*key, sum(of.values()), *[of.get(state, 0) for state in STATES]] for key, of in sorted(found.items())]

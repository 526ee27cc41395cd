"""What `gpu-admission top` says to those who may not list all pods: the sums of all GPUs as the webhook counts them.

Whose the GPUs are is not told. The component `manifests/components/reader` has the rights for it.
"""

import asyncio
from typing import Any

from webhook.cli.cluster.answers import GPU_SUMS, ask
from webhook.cli.cluster.load import READER
from webhook.cli.terminal import say, table
from webhook.feeds.access import Access, always
from webhook.feeds.api import Api
from webhook.whatif.cluster.report import PARTS
from webhook.whatif.cluster.snapshot import Snapshot


def show(snapshot: Snapshot, access: Access) -> None:
    asyncio.run(_ask(snapshot, access))
    if sums := _sums(snapshot):
        table(["MODEL", "RESOURCE", "TOTAL", *map(str.upper, PARTS)], sums)
    else:
        why = snapshot.missing.get("GpuSums", "no answer of the webhook")
        say(f"how many GPUs others have is not known: {why}: {READER} gives it")


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
    return [[*key, sum(of.values()), *[of.get(state, 0) for state in PARTS]] for key, of in sorted(found.items())]

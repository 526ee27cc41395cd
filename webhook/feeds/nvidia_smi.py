"""GPU metrics by running `nvidia-smi` in the pods that hold GPUs. For clusters without DCGM; never on by default.

It needs the right to run anything in those pods (manifests/optional/nvidia-smi-rbac.yaml), and the answer is written
by their images: a tenant can lie about its own GPUs. So they are told apart by the pod, not by what it says, and never
more are read than the pod holds. GPUs that no pod holds are not seen: `idle_gpus` counts them as idle.

The CSV form is read because the XML form (`-q -x`) would hand a tenant's XML to a parser, and is ten times longer.
"""

from __future__ import annotations

import asyncio
import csv
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

import aiohttp
import orjson
from aiohttp import hdrs

from webhook.cluster.gpu_metrics import GpuMetricsSettings
from webhook.cluster.utilisation import Reading, Utilisation
from webhook.feeds.access import Access
from webhook.feeds.gpu_source import SourceFailed, Wiring, ask_all
from webhook.feeds.gpu_targets import Pods, Target, gpu_pods
from webhook.kube.gpus import Gpus
from webhook.text import plural, quoted

FIELDS = ("utilization.gpu", "memory.used", "memory.total", "temperature.gpu")
COMMAND = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
_UNKNOWN = ("[N/A]", "N/A", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]", "[Unknown Error]", "")
_BROKEN = ("[GPU is lost]", "[GPU requires reset]")
_MOST_BYTES = 1 << 16
_MOST_GPUS = 64
_AT_ONCE = 8
_PROTOCOL: Final = "v4.channel.k8s.io"
"""The first byte of a message is its channel. Source: k8s.io/apimachinery pkg/util/remotecommand."""
_STDOUT, _STATUS = 1, 3


def parse_output(text: str, gpus: int, ignored: Counter[str]) -> Iterator[tuple[int, Reading, float]]:
    """What `nvidia-smi` said about at most so many GPUs: index in the output, reading, value."""
    rows = csv.reader(text.splitlines()[:_MOST_GPUS], skipinitialspace=True)
    for index, row in enumerate(row for row in rows if row):
        if index >= gpus:
            ignored["more GPUs than the pod holds"] += 1
        elif len(row) != len(FIELDS):
            ignored["not nvidia-smi"] += 1
        else:
            cells = [cell.strip() for cell in row]
            yield index, Reading.SICK, float(any(cell in _BROKEN for cell in cells))
            utilisation, used, total, temperature = (_number(cell, ignored) for cell in cells)
            if utilisation is not None:
                yield index, Reading.UTILISATION, utilisation
            if used is not None and total is not None:
                yield index, Reading.MEMORY_USED, used
                yield index, Reading.MEMORY_FREE, total - used
            if temperature is not None:
                yield index, Reading.TEMPERATURE, temperature


def _number(cell: str, ignored: Counter[str]) -> float | None:
    if cell.isascii() and cell.isdecimal() and len(cell) <= 12:
        return float(cell)
    if cell not in _UNKNOWN and cell not in _BROKEN:
        ignored["not nvidia-smi"] += 1
    return None


class NvidiaSmiSource:
    """`targets` gives the pods that hold GPUs now."""

    def __init__(
        self,
        settings: GpuMetricsSettings,
        http: aiohttp.ClientSession,
        access: Callable[[], Awaitable[Access]],
        targets: Callable[[], Iterable[Target]],
    ) -> None:
        self._settings = settings
        self._http = http
        self._access = access
        self._targets = targets
        self.failed = 0
        """Pods that did not answer in the last poll: many images have no nvidia-smi."""

    async def poll(self, into: Utilisation) -> None:
        """Ask every pod, some at a time. Fails only if there were pods and none answered."""
        targets = list(self._targets())
        access = await self._access()

        async def ask(target: Target) -> None:
            async with asyncio.timeout(self._settings.timeout):
                text = await self._run(access, target)
            for index, reading, value in parse_output(text, target.gpus, into.ignored):
                into.add(target.node, f"{target.uid}/{index}", reading, value)

        errors = await ask_all(targets, ask, _AT_ONCE, self._settings.stale_after / 3)
        self.failed = len(errors)
        if targets and self.failed == len(targets):
            raise SourceFailed(
                f"nvidia-smi ran in none of {plural(self.failed, 'pod')}; the first: {errors[0]}. "
                "Is manifests/optional/nvidia-smi-rbac.yaml applied?"
            )

    async def _run(self, access: Access, target: Target) -> str:
        """Standard output of `nvidia-smi` in the pod."""
        out, status = bytearray(), b""
        async with self._http.ws_connect(
            f"{access.base}/api/v1/namespaces/{target.namespace}/pods/{target.name}/exec",
            params=[("container", target.container), ("stdout", "true"), *(("command", word) for word in COMMAND)],
            headers={hdrs.AUTHORIZATION: access.authorization} if access.authorization else None,
            protocols=(_PROTOCOL,),
            ssl=access.tls if access.tls is not None else True,
            server_hostname=access.server_name,
            max_msg_size=_MOST_BYTES,
        ) as socket:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, data = message.data[0], message.data[1:]
                if channel == _STDOUT:
                    out += data
                elif channel == _STATUS:
                    status = data
                if len(out) > _MOST_BYTES:
                    raise SourceFailed(f"nvidia-smi wrote more than {_MOST_BYTES} bytes; it is not NVIDIA's")
        _check(status)
        return out.decode(errors="replace")


def _check(status: bytes) -> None:
    """Raises SourceFailed unless this Status object says that the command succeeded."""
    try:
        found = orjson.loads(status)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise SourceFailed("nvidia-smi did not succeed: pods/exec ended without a status")
    if found.get("status") != "Success":
        raise SourceFailed(f"nvidia-smi did not succeed: {quoted(found.get('message'))}")


def pods(settings: GpuMetricsSettings, gpus: Gpus) -> Pods:
    return gpu_pods(settings, gpus)


def source(wiring: Wiring) -> NvidiaSmiSource:
    return NvidiaSmiSource(wiring.settings, wiring.http, wiring.access, lambda: wiring.targets)

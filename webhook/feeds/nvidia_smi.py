"""Runs `nvidia-smi` in the pods of one DaemonSet, one on each node. For clusters without DCGM, with up to some hundred nodes.

It runs by `pods/exec` in the namespace that the policy names, and never in a pod of a tenant. `manifests/components/nvidia-smi`
gives the right, and has a guard by which the API server refuses our account every other command.

A whole GPU that is split into MIG instances has no utilisation here. Xid errors are not known, but a GPU that is lost is sick.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from webhook.errors import ApiError
from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import Round, SourceFailed, Wiring, ask_each
from webhook.nodes.utilisation import Reading
from webhook.text import quoted

FIELDS: Final = ("uuid", "utilization.gpu", "memory.used", "memory.total", "temperature.gpu")
COMMAND: Final = ("nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits")
"""The guard in `manifests/components/nvidia-smi` has it too."""
MAX_BYTES = 1 << 16
"""Maximum size of an answer. 16 GPUs give 1 KiB."""
_MAX_GPUS = 64
_POLLS_WITHOUT = 100
"""Polls in which a pod is not asked after it gave no answer in time. A command that hangs may go on when its connection has
ended, and a broken driver must not collect one with each poll."""
_UUID = re.compile(r"GPU-[0-9a-f-]{8,64}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_NOT_KNOWN = ("[N/A]", "N/A", "[Not Supported]", "[Not Found]", "[Insufficient Permissions]", "[Unknown Error]")
_BROKEN = ("[GPU is lost]", "[GPU requires reset]")


def parse_output(text: str, ignored: Counter[str]) -> Iterator[tuple[str, Reading, float]]:
    """The GPU, reading and value of each number in an output. Lines that `nvidia-smi` does not write are counted in `ignored`."""
    for index, line in enumerate(text.split("\n")[:_MAX_GPUS]):
        cells = [cell.strip() for cell in line.split(",")]
        broken, named = any(cell in _BROKEN for cell in cells), bool(_UUID.fullmatch(cells[0]))
        if len(cells) != len(FIELDS) or not (broken or named) or not all(map(_known, cells[1:])):
            if line.strip():
                ignored["not nvidia-smi"] += 1
            continue
        gpu = cells[0] if named else f"number {index}"
        yield gpu, Reading.XID, float(broken)
        utilisation, used, total, temperature = map(_number, cells[1:])
        if utilisation is not None:
            yield gpu, Reading.UTILISATION, utilisation
        if used is not None and total is not None:
            yield gpu, Reading.MEMORY_USED, used
            yield gpu, Reading.MEMORY_FREE, total - used
        if temperature is not None:
            yield gpu, Reading.TEMPERATURE, temperature


def _known(cell: str) -> bool:
    return cell in _NOT_KNOWN or cell in _BROKEN or _number(cell) is not None


def _number(cell: str) -> float | None:
    return float(cell) if _NUMBER.fullmatch(cell) else None


class NvidiaSmiSource:
    """Runs the command in the pods that the watch has found."""

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self._poll = 0
        self._hung: dict[str, int] = {}
        """The pods that gave no answer in time, with the poll in which they are asked again."""

    async def poll(self, into: Round) -> Mapping[str, str]:
        self._poll += 1
        self._hung = {pod: again for pod, again in self._hung.items() if again > self._poll}
        return await ask_each(self.wiring, lambda pod: self._ask(pod, into))

    async def _ask(self, pod: Exporter, into: Round) -> None:
        api, exporters = self.wiring.api, self.wiring.exporters
        if api is None:
            raise SourceFailed("there is no API server to run nvidia-smi by")
        if pod.name in self._hung:
            raise SourceFailed(f"nvidia-smi gave no answer in time in pod {pod.name}, and is not run there for a while")
        path, seconds = f"{exporters.path}/{pod.name}/exec", self.wiring.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                output = await api.execute(path, pod.container, COMMAND, MAX_BYTES)
        except TimeoutError:
            self._hung[pod.name] = self._poll + _POLLS_WITHOUT
            raise SourceFailed(f"nvidia-smi in pod {pod.name} gave no answer within {seconds:g} s") from None
        except ApiError as error:
            hint = ". Apply manifests/components/nvidia-smi" if error.status == 403 else ""
            raise SourceFailed(f"nvidia-smi did not run in pod {pod.name}: {error}{hint}") from None
        text = output.decode(errors="replace")
        readings = list(parse_output(text, into.ignored))
        if not readings:
            raise SourceFailed(f"pod {pod.name} answered {quoted(text)}; wanted the output of nvidia-smi")
        for gpu, reading, value in readings:
            into.add(pod.node, gpu, reading, value)


source = NvidiaSmiSource

"""Runs a vendor's command in the pods of a DaemonSet, one on each node. For clusters without exporters, of some hundred nodes.

It runs by `pods/exec` in one namespace, and never in a pod of a tenant. The component of manifests/ with the name of the program
gives the right, and has a guard by which the API server refuses our account every other command.

A whole GPU that is split into instances has no utilisation here. Errors are not known, but a broken GPU is sick.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from webhook.errors import ApiError
from webhook.feeds.exporters import Exporter
from webhook.feeds.gpu_source import Round, SourceFailed, Wiring, ask_each
from webhook.nodes.utilisation import Reading
from webhook.text import quoted
from webhook.vendors.model import Command

MAX_BYTES = 1 << 16
"""Maximum size of an answer. 16 GPUs give 1 KiB."""
_MAX_GPUS = 64
_POLLS_WITHOUT = 100
"""Polls in which a pod is not asked after it gave no answer in time. A command that hangs may go on when its connection has
ended, and a broken driver must not collect one with each poll."""
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


def parse_output(command: Command, text: str, ignored: Counter[str]) -> Iterator[tuple[str, Reading, float]]:
    """The GPU, reading and value of each number in an output. Lines that the command does not write are counted in `ignored`."""
    words = (*command.unknown, *command.broken)
    for index, line in enumerate(text.split("\n")[:_MAX_GPUS]):
        cells = [cell.strip() for cell in line.split(",")]
        broken, named = any(cell in command.broken for cell in cells), re.fullmatch(command.named, cells[0], re.ASCII)
        known = all(cell in words or _number(cell) is not None for cell in cells[1:])
        if len(cells) != 5 or not (broken or named) or not known:
            if line.strip():
                ignored[f"not {command.line.split()[0]}"] += 1
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


def _number(cell: str) -> float | None:
    return float(cell) if _NUMBER.fullmatch(cell) else None


class CommandSource:
    """Runs the command in the pods that the watch has found."""

    def __init__(self, wiring: Wiring) -> None:
        assert wiring.settings.command is not None  # `source_of` knows it
        self.wiring, self.command = wiring, wiring.settings.command
        self._poll = 0
        self._hung: dict[str, int] = {}
        """The pods that gave no answer in time, with the poll in which they are asked again."""

    async def poll(self, into: Round) -> Mapping[str, str]:
        self._poll += 1
        self._hung = {pod: again for pod, again in self._hung.items() if again > self._poll}
        return await ask_each(self.wiring, lambda pod: self._ask(pod, into))

    async def _ask(self, pod: Exporter, into: Round) -> None:
        api, exporters, program = self.wiring.api, self.wiring.exporters, self.command.line.split()[0]
        if api is None:
            raise SourceFailed(f"there is no API server to run {program} by")
        if pod.name in self._hung:
            raise SourceFailed(f"{program} gave no answer in time in pod {pod.name}, and is not run there for a while")
        path, seconds = f"{exporters.path}/{pod.name}/exec", self.wiring.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                output = await api.execute(path, pod.container, self.command.line.split(), MAX_BYTES)
        except TimeoutError:
            self._hung[pod.name] = self._poll + _POLLS_WITHOUT
            raise SourceFailed(f"{program} in pod {pod.name} gave no answer within {seconds:g} s") from None
        except ApiError as error:
            hint = f". Apply manifests/components/{program}" if error.status == 403 else ""
            raise SourceFailed(f"{program} did not run in pod {pod.name}: {error}{hint}") from None
        text = output.decode(errors="replace")
        readings = list(parse_output(self.command, text, into.ignored))
        if not readings:
            raise SourceFailed(f"pod {pod.name} answered {quoted(text)}; wanted the output of {program}")
        for gpu, reading, value in readings:
            into.add(pod.node, gpu, reading, value)


source = CommandSource

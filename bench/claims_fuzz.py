"""Looks for a claim that costs much: `python -m bench.claims_fuzz --minutes 60`.

Claims are drawn: with expressions that were made to cost much (`bench.hostile_cel`), whole, cut, joined and nested in each other,
with random tokens of CEL, and with random expressions near the grammar that is told. Each goes the way of a review, from bytes
to answer, with 400 devices of 8 models on 50 nodes, in a process that may take 2 s and 1 GiB. It may cost 0.2 s of CPU or 50
MiB. Prints the costliest; exit status 1 if one costs more. Linux only.
"""

import argparse
import gc
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from bench.bodies.claims import DRIVER, MODELS, asking, claim, devices, exactly
from bench.hostile_cel import EXPRESSIONS
from bench.samples import cluster, handlers_of, state_of
from webhook.state.state import ClusterState

_MAX_SECONDS, _MAX_MEMORY = 0.2, 50.0
_SECONDS, _MEMORY = 2, 1 << 30
"""What a process may take before it is ended."""
_AT_ONCE: Final = 20
"""Claims that one process decides about, one after the other; if they cost much together, each is measured alone."""
_MODEL: Final = f'device.attributes["{DRIVER}"].productName'
_TOKENS: Final = (
    *(
        "device",
        ".",
        "driver",
        "attributes",
        "capacity",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "?",
        "&&",
        "||",
        "!",
        "==",
        "<",
        "in",
    ),
    *(
        "+",
        "-",
        "*",
        "/",
        "%",
        "1",
        "0",
        "9",
        '"a"',
        '"gpu.nvidia.com"',
        "true",
        "null",
        "has",
        "cel",
        "bind",
        "all",
        "exists",
        "map",
    ),
    *(
        "exists_one",
        "filter",
        "matches",
        "contains",
        "lowerAscii",
        "size",
        "orValue",
        "optional",
        "of",
        "optMap",
        "optFlatMap",
    ),
    *(
        "quantity",
        "semver",
        "replace",
        "join",
        "split",
        "format",
        "//",
        "\n",
        "a",
        "b",
        "x",
        ".?",
        "[?",
        "string",
        "timestamp",
    ),
    *("duration", "r'a'", "b'a'", "1e9", "0x1", "1u", "1.5", "compareTo", "add", "includes"),
)
_PIECES: Final = (
    *(
        "a",
        ".",
        "*",
        "+",
        "?",
        "|",
        "(",
        ")",
        "(?:",
        "[a-z]",
        "[^a]",
        "\\\\d",
        "\\\\w",
        "^",
        "$",
        "{9}",
        "{99}",
        "\\\\pL",
        "x*",
        ".*",
    ),
)


class Found(NamedTuple):
    seconds: float
    """CPU of the hook."""
    memory: float
    """MiB at the peak, above that before."""
    body: bytes


def _pattern(draw: random.Random) -> str:
    return "".join(draw.choices(_PIECES, k=draw.randrange(1, 120)))


def _near(draw: random.Random, depth: int) -> str:
    """An expression of the grammar, or nearly."""
    if depth == 0:
        leaves = (
            _MODEL,
            '"NVIDIA"',
            "1",
            "true",
            "x",
            f'device.attributes["{DRIVER}"].links',
            f'device.capacity["{DRIVER}"].memory',
            "[1, 2]",
        )
        return draw.choice(leaves)
    one, other = _near(draw, depth - 1), _near(draw, draw.randrange(depth))
    shapes: tuple[Callable[[], str], ...] = (
        lambda: f"({one} {draw.choice(['==', '!=', '<', 'in', '+', '*', '%', '&&', '||'])} {other})",
        lambda: f"{one}.{draw.choice(['exists', 'all'])}(x, {other})",
        lambda: (
            f"[{', '.join([one, other] * draw.randrange(1, 60))}].{draw.choice(['exists', 'all'])}(x, x == {other})"
        ),
        lambda: f'{one}.matches("{_pattern(draw)}")',
        lambda: f"{one}.{draw.choice(['contains', 'startsWith', 'includes', 'compareTo', 'add'])}({other})",
        lambda: f"{one}{'.lowerAscii()' * draw.randrange(1, 40)}",
        lambda: f"cel.bind(a{depth}, {one}, a{depth} == {other})",
        lambda: f"({one} ? {one} : {other})",
        lambda: f" {draw.choice(['&&', '||'])} ".join([one, other] * draw.randrange(1, 80)),
        lambda: f'quantity("{draw.choice("19")}e{draw.randrange(1, 10**9)}").compareTo({one})',
        lambda: f'semver("1.0.{"9" * draw.randrange(300)}", true) == {one}',
        lambda: f'device.attributes[?"{draw.randrange(99)}"].?a.orValue({one})',
    )
    return draw.choice(shapes)()[:12_000]


def _expression(draw: random.Random) -> str:
    kind, known = draw.randrange(6), [*EXPRESSIONS.values()]
    if kind == 0:
        return draw.choice(known)
    if kind == 1:  # cut, and put together again
        one, other = draw.choice(known), draw.choice(known)
        return one[: draw.randrange(len(one) + 1)] + other[draw.randrange(len(other) + 1) :]
    if kind == 2:
        return draw.choice((" || ", " && ", " == ", "+", " ? true : ")).join(
            [draw.choice(known) for _ in range(draw.randrange(2, 5))]
        )
    if kind == 3:
        return draw.choice((" ", "")).join(draw.choices(_TOKENS, k=draw.randrange(1, 1_500)))
    if kind == 4:
        return f'{_MODEL}.matches("{_pattern(draw)}")'
    return _near(draw, draw.randrange(1, 7))


def _drawn(draw: random.Random) -> bytes:
    """A claim with one expression, or with many that differ in a number."""
    text, kind = _expression(draw), draw.randrange(4)
    if kind == 0:
        return claim(exactly(text))
    numbers = [f"{number} < 0 || ({text})" for number in range(draw.choice((8, 32, 256)))]
    if kind == 1:
        return claim(*[exactly(each) for each in numbers])
    if kind == 2:
        return claim({"firstAvailable": [asking(each) for each in numbers[:8]]}, exactly(*numbers[:32]))
    return claim(*[exactly(_expression(draw)) for _ in range(draw.randrange(1, 40))])


def _resident(field: str) -> float:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(field))
    return int(line.split()[1]) / 1024


def _costs(state: ClusterState, bodies: list[bytes]) -> list[tuple[float, float]] | None:
    """Seconds and MiB of each body, decided in a process of its own; None if it was ended."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return orjson.loads(text) if text else None
    try:
        os.close(read)
        found, limit = [], _SECONDS * len(bodies)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        resource.setrlimit(resource.RLIMIT_AS, (int(_resident("VmSize:") * (1 << 20)) + _MEMORY,) * 2)
        with Path(os.devnull).open("wb") as nowhere:
            handlers = handlers_of(state, nowhere)
            for body in bodies:
                Path("/proc/self/clear_refs").write_text("5")
                before, started = _resident("VmRSS:"), time.process_time()
                handlers.validate(body)
                found.append((time.process_time() - started, _resident("VmHWM:") - before))
        os.write(write, orjson.dumps(found))
    finally:
        os._exit(0)


def _measured(state: ClusterState, bodies: list[bytes]) -> list[Found]:
    found = _costs(state, bodies)
    if found is not None and len(bodies) > 1 and all(s < _MAX_SECONDS / 2 and m < _MAX_MEMORY / 2 for s, m in found):
        return [Found(*cost, body) for cost, body in zip(found, bodies, strict=True)]
    measured = []
    for body in bodies:  # alone, twice: other work on the machine takes time too
        tries = [_costs(state, [body]) or [(float(_SECONDS), _MEMORY / (1 << 20))] for _ in range(2)]
        measured.append(Found(min(each[0][0] for each in tries), min(each[0][1] for each in tries), body))
    return measured


def _spec(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body)["request"]["object"]["spec"])


def main() -> int:
    """Exit status 1 if a claim costs too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    objects = cluster(50)
    for number in range(50):
        objects["items"] += devices(f"gpu-{number:05d}", number % MODELS)
    state, draw = state_of(objects), random.Random(given.seed)
    gc.collect()
    gc.freeze()
    started, said, decided, worst, bad = time.monotonic(), 0, 0, list[Found](), 0
    while (gone := time.monotonic() - started) < 60 * given.minutes:
        found = _measured(state, [_drawn(draw) for _ in range(_AT_ONCE)])
        decided += len(found)
        for each in found:
            if each.seconds > _MAX_SECONDS or each.memory > _MAX_MEMORY:
                bad += 1
                print(f"TOO MUCH: {each.seconds:.3f} s, {each.memory:.1f} MiB: {_spec(each.body)[:4000]!r}", flush=True)
        worst = sorted([*worst, *found], key=lambda each: -max(each.seconds / _MAX_SECONDS, each.memory / _MAX_MEMORY))[
            :5
        ]
        if gone >= 60 * said:
            said += 1
            print(
                f"{gone:.0f} s: {decided} claims, costliest {worst[0].seconds:.3f} s, {worst[0].memory:.1f} MiB",
                flush=True,
            )
    for each in worst:
        print(f"{each.seconds:.3f} s, {each.memory:.1f} MiB: {_spec(each.body)[:500]!r}")
    print(f"{decided} claims, {bad} of them cost more than {_MAX_SECONDS} s or {_MAX_MEMORY:.0f} MiB")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())

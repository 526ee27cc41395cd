"""The line of a decision in the log: what finds it again. Never an object, never a body.

The record stands on the pod and in the audit log; here too where the pod was left as it is. The line is put together by
hand: most of it is the same for all pods of a template, and a dictionary with a date takes three times as long.
"""

from __future__ import annotations

from functools import lru_cache
from time import gmtime, strftime, time
from typing import Final

import orjson

from webhook.decision import Decision
from webhook.review import Request

_LONGEST: Final = 500
"""Characters of a name. No object has so many, but a stranger may say so."""


class Told:
    """What the line of a decision needs. Not the request: its object may be megabytes."""

    __slots__ = ("decision", "dry_run", "hook", "namespace", "pod", "seconds", "time", "uid")

    def __init__(self, hook: str, request: Request, decision: Decision, seconds: float) -> None:
        self.time = time()
        self.hook = hook
        self.uid = request.uid
        self.namespace = request.namespace[:_LONGEST]
        self.pod = (request.name or f"{request.generated}*")[:_LONGEST]
        self.dry_run = request.dry_run
        self.decision = decision
        self.seconds = seconds


def line(told: Told) -> bytes:
    """One line, without its end; b"" where the pod was none of our business."""
    decision = told.decision
    if decision.result == "ignored":
        return b""
    second, part = divmod(int(told.time * 1e6), 1_000_000)
    where = b""
    if (placement := decision.placement) is not None:
        nodes = placement.nodes
        where = b',"node":' + orjson.dumps(nodes[0].node) if nodes else b',"why":' + orjson.dumps(placement.reason)
    return (
        b'{"time":"%b.%06dZ","level":"info","event":"%b","hook":"%b","uid":%b,"namespace":%b,"pod":%b,"us":%d%b%b,%b'
        % (
            _date(second),
            part,
            decision.result.encode(),
            told.hook.encode(),
            orjson.dumps(told.uid),
            orjson.dumps(told.namespace),
            orjson.dumps(told.pod),
            round(told.seconds * 1e6),
            where,
            b',"dryRun":true' if told.dry_run else b"",
            decision.logged,
        )
    )


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second)).encode()

"""A check of `gpu-admission doctor`, what it finds, and what several checks use."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from webhook.kube.pod import PROFILE_LABEL, labels_of
from webhook.policy.model import Policy
from webhook.whatif.cluster.snapshot import Snapshot
from webhook.whatif.commands import Command, with_command


class Result(NamedTuple):
    """`state` is ok, warn, broken, or unknown if a right or an answer is missing. `next` is what to do, if anything, with the
    command in it; `command` is what to run for that, if nothing of it is left to fill in."""

    check: str
    state: str
    text: str
    next: str = ""
    command: Command = ()


def _result(state: str, text: str, words: str = "", command: Command = ()) -> Result:
    """A result of a check, without its name: `run_checks` knows it."""
    return Result("", state, text, with_command(words, command), command)


ok, warn, broken, unknown = (partial(_result, state) for state in ("ok", "warn", "broken", "unknown"))
All = list[Result] | str
"""What a check finds; or a text, if all is good."""


class Check(NamedTuple):
    """`reads` are the kinds that it needs; without them its result is unknown."""

    name: str
    reads: tuple[str, ...]
    find: Callable[[Snapshot, Policy], All]


def opted_in(snapshot: Snapshot) -> dict[str, Mapping[str, str]]:
    """The labels of each namespace that has opted in, by its name."""
    labels = {name: labels_of(namespace) for (_, name), namespace in snapshot.named("Namespace").items()}
    return {name: each for name, each in labels.items() if PROFILE_LABEL in each}

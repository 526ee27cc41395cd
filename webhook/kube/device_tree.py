"""The tree of an expression that selects devices: its parts, what each costs, and how it is evaluated.

&& and || follow CEL: a part that decides hides that others have no value.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from webhook.errors import NotRead
from webhook.kube.device_functions import Scalar, Value
from webhook.kube.device_tokens import MAX_TEXT
from webhook.kube.quantity import Number

MAX_LIST: Final = 64
"""Maximum length of a list of a device: Kubernetes lets it have 48 (ResourceSliceMaxAttributeValuesPerDevice)."""
_MAX_HEIGHT: Final = 64
"""Maximum height of the tree."""


class Facts(NamedTuple):
    """What expressions read of a device. Names are qualified: `gpu.nvidia.com/type`."""

    driver: str
    attributes: Mapping[str, Scalar | tuple[Scalar, ...]]
    capacity: Mapping[str, Number]
    shared: bool = False
    """Whether it allows multiple allocations."""


Run = Callable[[Facts, Any], Any]
"""Evaluates a part: of a device, and of the entry of the list in whose loop it is. Raises NotRead."""


class Path(NamedTuple):
    """What an expression names of a device."""

    part: str = ""
    """`attributes` or `capacity`; "" for the device."""
    domain: str | None = None
    """None: all domains."""
    name: str | None = None
    """None: all of the domain."""
    optional: bool = False
    dotted: bool = False
    """Whether its name is written after a dot, as `has` wants it."""


class Node(NamedTuple):
    """A part of the tree."""

    run: Run
    steps: int = 1
    by_length: int = 0
    """What it costs: steps, and steps for each character of the longest text."""
    height: int = 1
    entries: int = 0
    """The largest number of entries if it is a list."""
    literal: Value | None = None


def node(run: Run, *parts: Node, steps: int = 1, entries: int = 0) -> Node:
    height = 1 + max([part.height for part in parts], default=0)
    if height > _MAX_HEIGHT:
        raise NotRead
    steps += sum([part.steps for part in parts])
    return Node(run, steps, sum([part.by_length for part in parts]), height, entries)


def constant(value: Value) -> Node:
    return Node(lambda *_: value, literal=value)


def applied(call: Callable[..., Any], *parts: Node) -> Run:
    if len(parts) == 2:
        one, other = parts[0].run, parts[1].run
        return lambda facts, entry: call(one(facts, entry), other(facts, entry))
    runs = [part.run for part in parts]
    return lambda facts, entry: call(*[run(facts, entry) for run in runs])


def first_of(absorbing: bool, runs: list[Run]) -> Run:
    """`||`, where True decides, or `&&`, where False does."""
    return lambda facts, entry: until(absorbing, runs, facts, [entry] * len(runs))


def until(absorbing: bool, runs: list[Run], facts: Facts, entries: Any) -> bool:
    """Whether one of these is the value that decides: then it does not matter that others have none."""
    unknown = False
    for run, entry in zip(runs, entries, strict=True):
        try:
            value = run(facts, entry)
        except NotRead:
            unknown = True
            continue
        if type(value) is bool and value == absorbing:
            return value
        unknown = unknown or type(value) is not bool
    if unknown:
        raise NotRead
    return not absorbing


def there(value: Value | Number | None) -> Any:
    if value is None:
        raise NotRead
    return value


def bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise NotRead
    if type(value) is tuple and (
        len(value) > MAX_LIST or any([isinstance(v, str) and len(v) > MAX_TEXT for v in value])
    ):
        raise NotRead
    return value

"""How much less of a resource a pod must ask for, and where, so that with its overhead and its other containers it asks for no
more than a given amount. Amounts are thousandths of a CPU, or whole units."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from webhook.kube.pod import Pod, requests_of
from webhook.kube.pod_requests import total_requests
from webhook.kube.quantity import parse_quantity, thousandths
from webhook.text import amount_number, listed, quoted

_WHOLE: Final = ("spec.resources", 0)
_MANY: Final = 16
"""Containers of which an amount for each is looked for: a tenant's pod may have hundreds, and each attempt reads all of them."""
_Place = tuple[str, int]
"""A list of containers and a position in it; or spec.resources."""


class Less(NamedTuple):
    """A change with which the pod asks for less."""

    amount: int
    """The most that it may ask for there, above 0."""
    before: int
    """What it asks for there."""
    where: str
    """ ' in container "main"', " in spec.resources", " in each container"; "" if it asks nowhere else."""
    change: Callable[[str], Pod]
    """The pod with this quantity there."""


def less(pod: Pod, name: str, most: int) -> Less | None:
    """How the pod, which asks for more, asks for `most` of a resource in all: at one place if that is enough, else in each
    container. None if that is not possible: its overhead leaves nothing, it does not ask for it, or in too many containers."""
    if not (asked := _asked(pod, name)):
        return None
    total = _total(pod, name)
    for place in _largest(pod, asked):
        amount = most - (total - asked[place])
        if amount > 0 and _total(_stating(pod, name, {place}, "0"), name) <= most:
            return Less(amount, asked[place], _where(pod, place, asked), partial(_stating, pod, name, {place}))
    if len(asked) > _MANY:
        return None
    low, high = 0, max(asked.values())
    while high - low > 1:  # the sum grows with the amount that no container exceeds
        middle = (low + high) // 2
        text = f"{middle}m" if name == "cpu" else str(middle)
        fits = _total(_stating(pod, name, _above(asked, middle), text), name) <= most
        low, high = (middle, high) if fits else (low, middle)
    change = partial(_stating, pod, name, _above(asked, low))
    return Less(low, max(asked.values()), " in each container", change) if low else None


def each_at_most(pod: Pod, name: str, most: int) -> Less | None:
    """How no container asks for more than `most` of a resource. None if none does."""
    asked = {place: amount for place, amount in _asked(pod, name).items() if place != _WHOLE}
    if not (places := _above(asked, most)):
        return None
    where = _where(pod, next(iter(places)), asked) if len(places) == 1 else " in each container"
    return Less(most, max(asked.values()), where, partial(_stating, pod, name, places))


class Asks(NamedTuple):
    """Who asks for all that a pod asks for of a resource, where it is more than one container states."""

    who: str = ""
    """`init container "build" `, if it alone makes the pod ask for more than it needs later; "" if none does."""
    parts: str = ""
    """` (8 in container "main", 1 in sidecar "warm")`."""


def who_asks(pod: Pod, name: str) -> Asks:
    asked, total = _asked(pod, name), _total(pod, name)
    for place in _largest(pod, asked):
        if _kind(pod, place) == "init container" and _total(_stating(pod, name, {place}, "0"), name) < total:
            more = (
                "with its sidecars "
                if asked[place] < total and any(_kind(pod, each) == "sidecar" for each in asked)
                else ""
            )
            return Asks(f"init container {quoted(str(_at(pod, place).get('name')))} {more}")
    states = {place: each for place, each in asked.items() if place != _WHOLE and _kind(pod, place) != "init container"}
    rest = total - sum(states.values())
    if _WHOLE in asked or rest < 0 or len(states) + bool(rest) < 2:
        return Asks()
    said = [f"{amount_number(name, each)}{_where(pod, place, {**asked, _WHOLE: 0})}" for place, each in states.items()]
    return Asks(parts=f" ({listed([*said, *([f'{amount_number(name, rest)} of overhead'] if rest else [])], 4)})")


def _asked(pod: Pod, name: str) -> dict[_Place, int]:
    """How much each place asks for, where it is more than nothing."""
    spec, read = pod["spec"], thousandths if name == "cpu" else parse_quantity
    found = {(of, at): each for of in ("containers", "initContainers") for at, each in enumerate(spec.get(of) or ())}
    stated = [(place, requests_of(of)) for place, of in [(_WHOLE, spec), *found.items()]]
    return {place: int(read(of[name])) for place, of in stated if name in of and read(of[name]) >= 1}


def _largest(pod: Pod, asked: Mapping[_Place, int]) -> list[_Place]:
    """The whole pod; and of containers, of sidecars and of init containers the one that asks for most."""
    largest: dict[str, _Place] = {}
    for place in asked:
        kind = _kind(pod, place)
        largest[kind] = max(largest.get(kind, place), place, key=asked.__getitem__)
    return sorted(largest.values(), key=lambda place: (place != _WHOLE, -asked[place]))


def _at(pod: Pod, place: _Place) -> Mapping[str, Any]:
    of, at = place
    found: Mapping[str, Any] = pod["spec"] if place == _WHOLE else pod["spec"][of][at]
    return found


def _kind(pod: Pod, place: _Place) -> str:
    if place[0] != "initContainers":
        return "container" if place != _WHOLE else ""
    return "sidecar" if _at(pod, place).get("restartPolicy") == "Always" else "init container"


def _where(pod: Pod, place: _Place, asked: Mapping[_Place, int]) -> str:
    if place == _WHOLE:
        return " in spec.resources"
    return f" in {_kind(pod, place)} {quoted(str(_at(pod, place).get('name')))}" if len(asked) > 1 else ""


def _above(asked: Mapping[_Place, int], amount: int) -> set[_Place]:
    return {place for place, each in asked.items() if each > amount}


def _stating(pod: Pod, name: str, places: Collection[_Place], text: str) -> Pod:
    """The pod with this quantity at these places, where it states one."""
    spec = dict(pod["spec"])
    if _WHOLE in places:
        spec["resources"] = _resources(spec, name, text)
    for kind in {of for of, _ in places} - {_WHOLE[0]}:
        spec[kind] = [
            {**each, "resources": _resources(each, name, text)} if (kind, at) in places else each
            for at, each in enumerate(spec[kind])
        ]
    return {**pod, "spec": spec}


def _resources(of: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    given = of.get("resources") or {}
    return {**given, **{part: {**each, name: text} for part, each in given.items() if name in (each or {})}}


def _total(pod: Pod, name: str) -> int:
    return total_requests(pod).get(name, 0)

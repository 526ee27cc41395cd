"""The CEL expressions that select devices: `device.attributes["gpu.nvidia.com"].type == "gpu"`.

Follows k8s.io/dynamic-resource-allocation/cel. Tenants write them. What `device_expressions` reads of CEL is evaluated, at a cost
that is known before. All else is unknown, and so is what Kubernetes reports as an error: which devices a claim gets is then left
to the scheduler.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from webhook.errors import NotRead, QuantityError
from webhook.kube.device_expressions import Expression, parsed
from webhook.kube.device_functions import Scalar, Version, semver
from webhook.kube.device_tokens import Token, reading, tokens
from webhook.kube.device_tree import MAX_LIST, Facts, Path
from webhook.kube.quantity import Number, parse_quantity

_TOKEN_BYTES: Final = 1024
"""Memory of what is made of one token."""
_EACH: Final = 8
"""In any case a decision may do one of so many parts of its work: as much as some real selectors take."""

Value = Scalar | tuple[Scalar, ...]


def facts_of(driver: str, device: Mapping[str, Any]) -> Facts:
    """Read a device of a ResourceSlice. Raises ValueError if an attribute or a capacity is not of its type: Kubernetes decides
    nothing about such a device either."""
    attributes = {
        name if "/" in name else f"{driver}/{name}": _value(name, value)
        for name, value in (device.get("attributes") or {}).items()
    }
    capacity = {
        name if "/" in name else f"{driver}/{name}": _number(name, value)
        for name, value in (device.get("capacity") or {}).items()
    }
    return Facts(driver, attributes, capacity, device.get("allowMultipleAllocations") is True)


_TYPES: Final[Mapping[str, type]] = {"int": int, "bool": bool, "string": str, "version": str}


def _value(name: str, attribute: Any) -> Value:
    if type(attribute) is dict and type(text := attribute.get("string")) is str:  # most are: a slice has dozens
        return text
    for key, kind in _TYPES.items() if isinstance(attribute, Mapping) else ():
        many = attribute.get(f"{key}s")
        values = many if isinstance(many, list) and many else [attribute.get(key)]
        if all([type(value) is kind for value in values]) and (kind is not int or all(map(_fits, values))):
            if key == "version":
                values = [Version(value) for value in values if semver(value)]
            if len(values) == len(many or "1"):
                return tuple(values) if many else values[0]
    raise ValueError(f"attribute {name}: wanted one of int, bool, string, version, or a list of one of them")


def _fits(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _number(name: str, capacity: Any) -> Number:
    try:
        return parse_quantity(capacity["value"])
    except (QuantityError, TypeError, KeyError):
        raise ValueError(f"capacity {name}: wanted a quantity") from None


class Work:
    """What is left to one decision, in steps (`Expression.cost`)."""

    __slots__ = ("_begun", "altogether", "left")

    def __init__(self, left: int) -> None:
        self.left = self._begun = left
        self.altogether: int | None = None
        """What is left to all decisions, beside a little for each; None if that is not bounded."""

    def take(self, steps: int) -> bool:
        """Whether so much was left."""
        self.left -= steps
        return self.left >= 0

    def renew(self, most: int) -> None:
        """Another decision begins: it may do so much, whatever the last one left."""
        if self.left == self._begun == most:
            return  # the last one did nothing
        if self.altogether is not None:
            self.altogether -= self._begun - max(0, self.left)
            most = min(most, max(self.altogether, most // _EACH))
        self.left = self._begun = most


class Selector:
    """One expression. It is read when it is needed first."""

    def __init__(self, expression: str) -> None:
        self._parsed: Expression | None = None
        self._tokens: list[Token] = []
        """Empty once they are read, or if they are not of an expression that can be read."""
        with suppress(NotRead):
            self._tokens = tokens(expression)
        self.size = 4 * len(expression) + _TOKEN_BYTES * (1 + len(self._tokens))
        """An upper bound on its memory in bytes."""

    def read(self, work: Work | None = None) -> Expression | None:
        """What it says; None if that cannot be read, or would need more `work` than is left."""
        if self._tokens and (work is None or work.take(reading(self._tokens))):
            with suppress(NotRead):
                self._parsed = parsed(self._tokens)
            self._tokens = []
        return self._parsed

    def matches(self, facts: Facts, work: Work | None = None) -> bool | None:
        """Whether the device matches; None if that is unknown, or would need more `work` than is left."""
        expression = self.read(work)
        if expression is None or (
            work is not None and not work.take(expression.cost(_longest(expression.paths, facts)))
        ):
            return None
        try:
            found = expression.run(facts, None)
        except NotRead:
            return None
        return found if type(found) is bool else None

    def may_read(self, attribute: str) -> bool:
        """Whether the result may depend on an attribute, by its qualified name. Only of an expression that was read."""
        domain, _, name = attribute.partition("/")
        paths = self._parsed.paths if self._parsed is not None else ()
        return any([each.part == "attributes" and _covers(each, domain, name) for each in paths])


def _covers(path: Path, domain: str, name: str) -> bool:
    return path.domain == domain and path.name in (None, name)


def _longest(paths: tuple[Path, ...], facts: Facts) -> int:
    """The length of the longest text of a device that is read."""
    texts, longest = [facts.attributes.get(f"{each.domain}/{each.name}") for each in paths], len(facts.driver)
    for value in texts:
        many = value[: MAX_LIST + 1] if type(value) is tuple else (value,)
        longest = max([longest, *[len(each) for each in many if isinstance(each, str)]])
    return longest

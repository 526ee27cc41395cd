"""Evaluates the CEL expressions that select devices: `device.attributes["gpu.nvidia.com"].type == "gpu"`.

Follows k8s.io/dynamic-resource-allocation/cel with Google's CEL, and the functions of `device_functions`. Where Kubernetes would
decide and we cannot (a function of a library that is not here, an error, too much work), the result is None: unknown.

The API server accepts an expression only if its worst case is cheap. Here a comprehension ends after 10,000 steps, nesting at 32,
and regular expressions take linear time (RE2). What remains is text that grows by repetition: `_is_cheap` limits it.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from cel_expr_python import cel

from webhook.errors import QuantityError
from webhook.kube.device_functions import ENVIRONMENT, QUANTITY, Version, as_cel, semver
from webhook.kube.quantity import Number, parse_quantity

MAX_EXPRESSION: Final = 10 << 10
"""Maximum length of an expression (CELSelectorExpressionMaxLength)."""
_LOOP_COST: Final = 50
"""An evaluation takes 6 µs, one with as many steps as may be some 300."""
_MAX_RESULTS: Final = 1024
"""Maximum number of results that are kept for one expression."""
_LOOPS: Final = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|bind)\s*\(")
_WALKS: Final = re.compile(r"\b(?:all|exists|exists_one|existsOne|map|filter|size)\s*\(|==\s*\{")
"""What may depend on all attributes together."""
_GROWTH: Final = re.compile(r"\b(?:replace|join|format)\s*\(")
_LONG: Final = 1 << 10
_STRING: Final = r"""(?:"[^"\\\n]*"|'[^'\\\n]*')"""
_PATH: Final = re.compile(
    rf"\bdevice\s*+\.\s*+(?:driver\b|allowMultipleAllocations\b|(attributes|capacity)\s*+\[\s*+({_STRING})\s*+\]"
    rf"\s*+(?:\.\s*+\??\s*+(\w++)(?!\s*+\()|\[\s*+\??\s*+({_STRING})\s*+\]))"
)
"""A value of one device, read by its full name."""

Value = str | int | bool | Version | tuple[str, ...] | tuple[int, ...]


class Facts(NamedTuple):
    """What expressions read of a device. Names are qualified: `gpu.nvidia.com/type`."""

    driver: str
    attributes: Mapping[str, Value]
    capacity: Mapping[str, Number]
    shared: bool = False
    """Whether it allows multiple allocations."""


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
    """The evaluations that are left to one decision. One with a loop counts as _LOOP_COST, a long one for its length."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


class Selector:
    """One expression, compiled. Results are cached by what the expression reads of a device."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._reads = reads(expression)
        """(part, domain, name) of each value that it reads; None if that cannot be told from the text."""
        self._domains = {text[1:-1] for text in re.findall(_STRING, expression)} if self._reads is None else set()
        self._cost = _LOOP_COST if _LOOPS.search(expression) or _GROWTH.search(expression) else 1
        self._cost += len(expression) // 800
        self._program: cel.Expression | None = None
        self._results: dict[tuple[object, ...], bool | None] = {}
        if _is_cheap(expression):
            # It may not parse, use what is not declared here, or be no text of Unicode.
            with suppress(RuntimeError, TypeError):
                self._program = ENVIRONMENT.compile(expression)

    def matches(self, facts: Facts, work: Work | None = None) -> bool | None:
        """Whether the device matches; None if that is unknown, or would need more `work` than is left."""
        if self._program is None:
            return None
        key = self._key(facts)
        if key not in self._results:
            if work is not None:
                work.left -= self._cost
                if work.left < 0:
                    return None
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            self._results[key] = self._evaluated(facts)
        return self._results[key]

    def may_read(self, attribute: str) -> bool:
        """Whether the result may depend on an attribute, by its qualified name."""
        domain, _, name = attribute.partition("/")
        if self._reads is not None:
            return ("attributes", domain, name) in self._reads
        return name in self.expression or _WALKS.search(self.expression) is not None

    def _key(self, facts: Facts) -> tuple[object, ...]:
        """What the expression reads of a device. `True` and `1` are equal in Python, and not here."""
        if self._reads is None:
            values = *facts.attributes.items(), *facts.capacity.items()
            return (facts.driver, facts.shared, len(facts.attributes), *values, *map(type, facts.attributes.values()))
        read = [
            (facts.attributes if part == "attributes" else facts.capacity).get(f"{domain}/{name}")
            for part, domain, name in self._reads
        ]
        return (facts.driver, facts.shared, *read, *map(type, read))

    def _evaluated(self, facts: Facts) -> bool | None:
        assert self._program is not None
        attributes: dict[str, dict[str, Any]] = {domain: {} for domain in self._domains}
        capacity: dict[str, dict[str, Any]] = {domain: {} for domain in self._domains}
        for part, domain, _ in self._reads or ():  # a domain that no attribute has is an empty map
            (attributes if part == "attributes" else capacity)[domain] = {}
        for name, value in facts.attributes.items():
            domain, _, short = name.partition("/")
            attributes.setdefault(domain, {})[short] = as_cel(value)
        for name, number in facts.capacity.items():
            domain, _, short = name.partition("/")
            capacity.setdefault(domain, {})[short] = {QUANTITY: str(number)}
        device = {
            "driver": facts.driver,
            "allowMultipleAllocations": facts.shared,
            "attributes": attributes,
            "capacity": capacity,
        }
        try:
            result = self._program.eval(data={"device": device})
        except RuntimeError:  # a loop has too many steps
            return None
        return result.value() is True if result.type() == cel.Type.BOOL else None


def reads(expression: str) -> tuple[tuple[str, str, str], ...] | None:
    """What an expression reads of a device: (`attributes` or `capacity`, domain, name) of each value. None if its text does not
    tell."""
    found = []
    for match in _PATH.finditer(expression):
        part, domain, plain, quoted = match.groups()
        if part:
            found.append((part, domain[1:-1], plain or quoted[1:-1]))
    return None if re.search(r"\bdevice\b", _PATH.sub("", expression)) else tuple(dict.fromkeys(found))


def _is_cheap(expression: str) -> bool:
    """Whether no text or list can grow large in it: the API server estimates this."""
    loops, growth = len(_LOOPS.findall(expression)), len(_GROWTH.findall(expression))
    if len(expression) > _LONG:
        return len(expression) <= MAX_EXPRESSION and growth == 0 and loops <= 1
    return growth <= 1 and loops <= 3

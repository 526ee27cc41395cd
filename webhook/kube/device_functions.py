"""The operators and functions of expressions that select devices.

Follows CEL's language definition and k8s.io/apiserver/pkg/cel/library: quantity.go and semverlib.go. Each takes values of
devices and literals, and none makes a text or a list that is longer than those it takes. Where CEL reports an error, or where
equality depends on the side, it raises NotRead.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from webhook.errors import NotRead, QuantityError
from webhook.kube.quantity import Number, parse_quantity

_SEMVER: Final = re.compile(
    r"(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})\.(0|[1-9]\d{0,17})"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_MAX_VERSION: Final = 256
_COMPARED: Final = (int, str, bool)


class Version(str):
    """A semantic version."""

    __slots__ = ("order",)
    order: tuple[object, ...]
    """By which versions are compared, as semver.org says: a pre-release before the release, numbers before names."""

    def __new__(cls, text: str) -> "Version":
        made = super().__new__(cls, text)
        numbers, _, release = text.partition("+")[0].partition("-")
        names = [(0, int(name), "") if name.isdigit() else (1, 0, name) for name in release.split(".")]
        made.order = (*map(int, numbers.split(".")), not release, tuple(names))
        return made


class Quantity(NamedTuple):
    number: Number
    made: bool = False
    """Whether it is a sum or a difference: Kubernetes reports an error where one is on the right of ==."""


Scalar = str | int | bool | Version
Value = Scalar | tuple[Scalar, ...] | Quantity
"""Types are told apart by `type`: a bool is no int, a Version no str and a Quantity no tuple."""


def semver(text: str, normalize: bool = False) -> re.Match[str] | None:
    if len(text) > _MAX_VERSION:
        return None
    if normalize:
        numbers, dash, rest = re.sub(r"^v", "", text).partition("-")
        parts = numbers.split(".")
        parts += ["0"] * (3 - len(parts))
        text = ".".join([part.lstrip("0") or part[:1] for part in parts]) + dash + rest
    return _SEMVER.fullmatch(text)


# --- operators --------------------------------------------------------------------------------------------------------


def equal(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        if {type(one), type(other)} & {Version, Quantity}:
            raise NotRead  # false or an error, by the side on which it stands
        return False
    if type(one) is Quantity and (one.made or other.made):
        raise NotRead
    if type(one) is tuple:
        return len(one) == len(other) and all([equal(*pair) for pair in zip(one, other, strict=True)])
    return bool(one.order == other.order) if type(one) is Version else bool(one == other)


def differs(one: Any, other: Any) -> bool:
    return not equal(one, other)


def ordered(meets: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, other: Any) -> bool:
        if type(one) is not type(other) or type(one) not in _COMPARED:
            raise NotRead
        return meets(one, other)

    return compare


def within(one: Any, other: Any) -> bool:
    return any([equal(one, each) for each in _typed(other, tuple)])


def calculated(sign: str) -> Callable[[Any, Any], int]:
    """Numbers of 64 bits; a quotient is rounded towards zero."""

    def calculate(one: Any, other: Any) -> int:
        a, b = _typed(one, int), _typed(other, int)
        if sign in "/%" and b == 0:
            raise NotRead
        if sign in "/%":
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return whole(quotient if sign == "/" else a - quotient * b)
        return whole(a + b if sign == "+" else a - b if sign == "-" else a * b)

    return calculate


def negated(value: Any) -> bool:
    return not _typed(value, bool)


def opposite(value: Any) -> int:
    return whole(-_typed(value, int))


def whole(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise NotRead
    return number


def text(value: Any) -> str:
    found: str = _typed(value, str)
    return found


def entries(value: Any) -> tuple[Scalar, ...]:
    found: tuple[Scalar, ...] = _typed(value, tuple)
    return found


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise NotRead
    return value


# --- functions --------------------------------------------------------------------------------------------------------


def _size(value: Any) -> int:
    if type(value) not in (str, tuple):
        raise NotRead
    return len(value)


def _includes(value: Any, one: Any) -> bool:
    return within(one, value) if type(value) is tuple else equal(value, one)


def _in_case(change: Callable[[str], str]) -> Callable[[Any], str]:
    """Only letters of ASCII change."""

    def changed(text: Any) -> str:
        whole_text: str = _typed(text, str)
        if whole_text.isascii():
            return change(whole_text)
        return "".join([change(each) if each.isascii() else each for each in whole_text])

    return changed


def _quantity(text: Any) -> Quantity:
    try:
        return Quantity(parse_quantity(_typed(text, str)))
    except QuantityError:
        raise NotRead from None


def _is_quantity(text: Any) -> bool:
    with suppress(QuantityError):
        parse_quantity(_typed(text, str))
        return True
    return False


def _version(text: Any, normalize: Any = False) -> Version:
    match = semver(_typed(text, str), _typed(normalize, bool))
    if match is None:
        raise NotRead
    return Version(match.group())


def _is_version(text: Any, normalize: Any = False) -> bool:
    return semver(_typed(text, str), _typed(normalize, bool)) is not None


def _compare(one: Any, other: Any) -> int:
    if type(one) is Version:
        before, after = one.order, _typed(other, Version).order
        return int(before > after) - int(before < after)
    first, second = _typed(one, Quantity).number, _typed(other, Quantity).number
    return int(first > second) - int(first < second)


def _amount(value: Any) -> Number:
    """The number of a quantity, or an integer that is added to one."""
    number: Number = value if type(value) is int else _typed(value, Quantity).number
    return number


def _is_integer(value: Any) -> bool:
    number = _typed(value, Quantity).number
    return bool(number.denominator == 1 and -(2**63) <= number < 2**63)


def _integer(value: Any) -> int:
    if not _is_integer(value):
        raise NotRead
    return int(value.number)


def _sign(value: Any) -> int:
    number = _typed(value, Quantity).number
    return int(number > 0) - int(number < 0)


def _part(place: int) -> Callable[[Any], int]:
    return lambda value: int(_typed(value, Version).order[place])


class Function(NamedTuple):
    call: Callable[..., Any]
    steps: int = 2
    """An upper bound on its work, in steps of `device_expressions`,"""
    by_length: int = 0
    """and in steps for each character of its longest text."""


GLOBAL: Final[dict[tuple[str, int], Function]] = {
    ("size", 1): Function(_size),
    ("quantity", 1): Function(_quantity, 4),
    ("isQuantity", 1): Function(_is_quantity, 20, 1),
    ("semver", 1): Function(_version, 20, 1),
    ("semver", 2): Function(_version, 40, 1),
    ("isSemver", 1): Function(_is_version, 4),
    ("isSemver", 2): Function(_is_version, 40, 1),
}
"""By name and number of arguments."""
MEMBERS: Final[dict[tuple[str, int], Function]] = {
    ("size", 0): Function(_size),
    ("includes", 1): Function(_includes, 130),
    ("startsWith", 1): Function(lambda whole, one: _typed(whole, str).startswith(_typed(one, str))),
    ("endsWith", 1): Function(lambda whole, one: _typed(whole, str).endswith(_typed(one, str))),
    ("contains", 1): Function(lambda whole, one: _typed(one, str) in _typed(whole, str), 2, 1),
    ("lowerAscii", 0): Function(_in_case(str.lower), 2, 1),
    ("upperAscii", 0): Function(_in_case(str.upper), 2, 1),
    ("compareTo", 1): Function(_compare, 4),
    ("isGreaterThan", 1): Function(lambda one, other: _compare(one, other) > 0, 4),
    ("isLessThan", 1): Function(lambda one, other: _compare(one, other) < 0, 4),
    ("add", 1): Function(lambda one, other: Quantity(_typed(one, Quantity).number + _amount(other), True), 10),
    ("sub", 1): Function(lambda one, other: Quantity(_typed(one, Quantity).number - _amount(other), True), 10),
    ("isInteger", 0): Function(_is_integer, 4),
    ("asInteger", 0): Function(_integer, 4),
    ("sign", 0): Function(_sign, 4),
    ("major", 0): Function(_part(0)),
    ("minor", 0): Function(_part(1)),
    ("patch", 0): Function(_part(2)),
}
"""By name and number of arguments beside the value that they are called on."""

"""Google's CEL as the reference for expressions that select devices, with the functions that Kubernetes adds.

Follows k8s.io/apiserver/pkg/cel/library, quantity.go and semverlib.go. A quantity or a version is a map with one entry, its text
in one form, so that equal ones are equal in CEL too. For expressions of tests alone: neither its time nor its memory is bounded.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from webhook.errors import QuantityError
from webhook.kube.device_functions import Version, semver
from webhook.kube.device_tree import Facts
from webhook.kube.quantity import parse_quantity

_QUANTITY: Final = "quantity"
_VERSION: Final = "semver"
_Map = dict[str, str]


def _as_cel(value: Any) -> Any:
    if isinstance(value, Version):
        return {_VERSION: str(value).partition("+")[0]}
    return [_as_cel(each) for each in value] if isinstance(value, tuple) else value


def _version(text: str, normalize: bool = False) -> _Map:
    match = semver(text, normalize)
    if match is None:
        raise ValueError("not a semantic version")
    return {_VERSION: match.group().partition("+")[0]}


def _is_version(text: str, normalize: bool = False) -> bool:
    return semver(text, normalize) is not None


def _is_quantity(text: str) -> bool:
    with suppress(QuantityError):
        return bool(_quantity(text))
    return False


def _quantity(text: str) -> _Map:
    return {_QUANTITY: str(parse_quantity(text))}


def _amount(value: Any) -> Fraction:
    """The number of a quantity, or of an integer that is added to one. Raises KeyError for a version."""
    return Fraction(value if isinstance(value, int) else _text(value, _QUANTITY))


def _text(value: Any, key: str) -> str:
    text = value[key]
    return str(text if isinstance(text, str) else text.value())


def _precedence(text: str) -> tuple[object, ...]:
    """Orders versions as semver.org says: a pre-release before the release, numbers before names."""
    numbers, _, release = text.partition("-")
    names = [(0, int(name), "") if name.isdigit() else (1, 0, name) for name in release.split(".")]
    return (*map(int, numbers.split(".")), not release, names)


def _compare(one: Any, other: Any) -> int:
    if _QUANTITY in one:
        first, second = _amount(one), _amount(other)
        return (first > second) - (first < second)
    before, after = _precedence(_text(one, _VERSION)), _precedence(_text(other, _VERSION))
    return (before > after) - (before < after)


def _integer(value: Any) -> int:
    if not _is_integer(value):
        raise ValueError("not a whole number of 64 bits")
    return int(_amount(value))


def _is_integer(value: Any) -> bool:
    return _amount(value).denominator == 1 and abs(_amount(value)) < 2**63


def _part(number: int) -> Callable[[Any], int]:
    return lambda value: int(_text(value, _VERSION).partition("-")[0].split(".")[number])


def _functions() -> Iterator[cel.FunctionDecl]:
    text, number, flag = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL
    value = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    table: dict[str, list[tuple[bool, Any, list[Any], Callable[..., Any]]]] = {
        "quantity": [(False, value, [text], _quantity)],
        "isQuantity": [(False, flag, [text], _is_quantity)],
        "semver": [(False, value, [text], _version), (False, value, [text, flag], _version)],
        "isSemver": [(False, flag, [text], _is_version), (False, flag, [text, flag], _is_version)],
        "compareTo": [(True, number, [value, value], _compare)],
        "isGreaterThan": [(True, flag, [value, value], lambda one, other: _compare(one, other) > 0)],
        "isLessThan": [(True, flag, [value, value], lambda one, other: _compare(one, other) < 0)],
        "isInteger": [(True, flag, [value], _is_integer)],
        "asInteger": [(True, number, [value], _integer)],
        "asApproximateFloat": [(True, cel.Type.DOUBLE, [value], lambda one: float(_amount(one)))],
        "sign": [(True, number, [value], lambda one: (_amount(one) > 0) - (_amount(one) < 0))],
        **{name: [(True, number, [value], _part(part))] for part, name in enumerate(("major", "minor", "patch"))},
    }
    for name, sign in (("add", 1), ("sub", -1)):
        call = _sum(sign)
        table[name] = [(True, value, [value, value], call), (True, value, [value, number], call)]
    for name, overloads in table.items():
        yield cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", return_type=returns, parameters=given, is_member=member, impl=call)
                for index, (member, returns, given, call) in enumerate(overloads)
            ],
        )


def _sum(sign: int) -> Callable[[Any, Any], _Map]:
    return lambda one, other: {_QUANTITY: str(_amount(one) + sign * _amount(other))}


_ENVIRONMENT: Final = cel.NewEnv(
    variables={"device": cel.Type.DYN},
    extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    functions=list(_functions()),
)


def decided(expression: str, facts: Facts, domains: Iterable[str]) -> bool | None:
    """Whether a device matches; None if Google's CEL reports an error, or takes no such expression. `domains`: those that the
    expression names: Kubernetes gives an empty map for one that the device has not."""
    attributes: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    capacity: dict[str, dict[str, Any]] = {domain: {} for domain in domains}
    for name, value in facts.attributes.items():
        domain, _, short = name.partition("/")
        attributes.setdefault(domain, {})[short] = _as_cel(value)
    for name, number in facts.capacity.items():
        domain, _, short = name.partition("/")
        capacity.setdefault(domain, {})[short] = {_QUANTITY: str(number)}
    device = {
        "driver": facts.driver,
        "allowMultipleAllocations": facts.shared,
        "attributes": attributes,
        "capacity": capacity,
    }
    try:
        result = _ENVIRONMENT.compile(expression).eval(data={"device": device})
    except RuntimeError:
        return None
    return result.value() is True if result.type() == cel.Type.BOOL else None

"""Parses Kubernetes quantities ("1500m", "2Gi", "1e3") to exact numbers.

Follows k8s.io/apimachinery pkg/api/resource/quantity.go: the same suffixes, rounded up to multiples of 1e-9. Larger values
become 2**63 - 1.
"""

import re
from fractions import Fraction
from functools import lru_cache

from webhook.errors import QuantityError
from webhook.text import quoted

Number = int | Fraction

_MAX_VALUE = 2**63 - 1
_NANO = 10**9
_MAX_LENGTH = 64
"""Maximum length of a quantity. Longer text is refused, because it only costs time."""
_QUANTITY = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([KMGTPE]i|[numkMGTPE]?)|[eE]([+-]?[0-9]{1,10}))", re.ASCII
)
_SCALE: dict[str, Number] = {
    "n": Fraction(1, _NANO), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": 1,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
}  # fmt: skip


@lru_cache(maxsize=8192)  # saves 12 µs per quantity, and a pod has about ten
def parse_quantity(text: str | int | float | None) -> Number:
    """The exact value of a quantity: an int if it is whole, otherwise a Fraction.

    A number is read as JSON would write it, null as 0. Raises QuantityError where Kubernetes would refuse the quantity.
    """
    if text is None:
        return 0
    if not isinstance(text, str):
        text = repr(text)
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise QuantityError(
            f'{quoted(text)} is not a quantity: wanted a number with an optional suffix, as "2", "500m" or "4Gi"'
        )
    sign, digits, suffix, exponent = match.groups()
    value = Fraction(digits) * (
        _SCALE[suffix] if exponent is None else Fraction(10) ** max(-40, min(40, int(exponent)))
    )
    value = min(Fraction(_MAX_VALUE), Fraction(-(-value * _NANO // 1), _NANO))
    value = -value if sign == "-" else value
    return value.numerator if value.denominator == 1 else value


def whole(text: str | int | float) -> int:
    """A quantity in whole units, rounded up (Quantity.Value)."""
    return -(-parse_quantity(text) // 1)


def thousandths(text: str | int | float) -> Number:
    """The exact value in thousandths, the unit of CPU."""
    value = parse_quantity(text) * 1000
    return value.numerator if value.denominator == 1 else value


def milli(text: str | int | float) -> int:
    """A quantity in thousandths, rounded up (Quantity.MilliValue)."""
    return -(-thousandths(text) // 1)


def quantity_text(resource: str, amount: int) -> str:
    """An amount as the API server writes it. `amount`: thousandths for `cpu`, bytes for memory."""
    if resource == "cpu":
        return f"{amount}m" if amount % 1000 else f"{amount // 1000}"
    suffix = next((suffix for suffix in ("Ti", "Gi", "Mi", "Ki") if amount and amount % _SCALE[suffix] == 0), "")
    return f"{amount // _SCALE[suffix]}{suffix}"

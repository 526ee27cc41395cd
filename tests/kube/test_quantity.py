"""Quantities, compared with the table of TestQuantityParse in k8s.io/apimachinery pkg/api/resource/quantity_test.go."""

import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.errors import QuantityError
from webhook.kube.quantity import milli, parse_quantity, quantity_text, thousandths, whole

REFUSED = [
    *("", " ", "Ki", "m", "e3", ".Ki", "+m"),
    *("1.1.M", "1+1.0M", "0.1mi", "0.1am", "aoeu", ".5i", "1i", "-3.01i", "-3.01e-", "1e", "1E+", "1ee3"),
    *("-1e+-3", "1Ki3", "1K", "1g", "1MI", "1mm", "0x1", "1_000", "1,5", "٣", "१", "½", "1 Gi", " 1", "1 ", "1\n"),
    *("nan", "NaN", "inf", "Infinity", "null", "true", "--1", "+-1", "1/2", "1e3.5"),
]

# The values that the upstream table gives as mantissa and exponent.
UPSTREAM = {
    "0": 0, "0n": 0, "0u": 0, "0m": 0, "0Ki": 0, "0k": 0, "0Mi": 0, "0M": 0, "0Gi": 0, "0G": 0, "0Ti": 0, "0T": 0,
    "1": 1, "1Ki": 1024, "8Ki": 8 * 1024, "7Mi": 7 * 2**20, "6Gi": 6 * 2**30, "5Ti": 5 * 2**40, "4Pi": 4 * 2**50,
    "3Ei": 3 * 2**60, "10Ti": 10 * 2**40, "100Ti": 100 * 2**40,
    "5n": "5e-9", "4u": "4e-6", "3m": "3e-3", "9": 9, "8k": 8000, "50k": 50000, "7M": 7 * 10**6, "6G": 6 * 10**9,
    "5T": 5 * 10**12, "40T": 4 * 10**13, "300T": 3 * 10**14, "2P": 2 * 10**15, "1E": 10**18,
    "1E-3": "1e-3", "1e3": 1000, "1E6": 10**6, "1e9": 10**9, "1E12": 10**12, "1e15": 10**15, "1E18": 10**18,
    "1e14": 10**14, "1e13": 10**13, "100.035k": 100035,
    "0.001": "1e-3", "0.0005k": "0.5", "0.005": "5e-3", "0.05": "0.05", "0.5": "0.5", "0.00050k": "0.5",
    "0.00500": "5e-3", "0.05000": "0.05", "0.50000": "0.5", "0.5e0": "0.5", "0.5e-1": "0.05", "0.5e-2": "5e-3",
    "10.035M": 10035000, "1.2e3": 1200, "1.3E+6": 1300000, "1.40e9": 14 * 10**8, "1.53E12": 153 * 10**10,
    "1.6e15": 16 * 10**14, "1.7E18": 17 * 10**17, "9.01": "9.01", "8.1k": 8100, "7.123456M": 7123456,
    "6.987654321G": 6987654321, "5.444T": 5444 * 10**9, "40.1T": 401 * 10**11, "300.2T": 3002 * 10**11,
    "2.5P": 25 * 10**14, "1.01E": 101 * 10**16,
    "3.001n": "4e-9", "1.1E-9": "2e-9", "0.0000000001": "1e-9", "0.0000000005": "1e-9", "0.00000000050": "1e-9",
    "0.5e-9": "1e-9", "0.9n": "1e-9", "0.00000012345": "124e-9", "0.00000012354": "124e-9",
    "9Ei": 2**63 - 1, "9223372036854775807Ki": 2**63 - 1,
    "100.035Ki": "102435.84", "0.5Mi": 2**19, "0.05Gi": "53687091.2", "0.025Ti": "27487790694.4",
    "0.000000000001Ki": "2e-9", ".001": "1e-3", ".0001k": "0.1", "1.": 1, "1.G": 10**9,
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_text_that_kubernetes_refuses_or_that_has_no_digit_is_refused(text: str) -> None:
    wanted = ' is not a quantity: wanted a number with an optional suffix, as "2", "500m" or "4Gi"'
    with pytest.raises(QuantityError, match=f"{re.escape(wanted)}$") as caught:
        parse_quantity(text)
    assert str(caught.value).isprintable()


def test_null_is_zero() -> None:
    """As Quantity.UnmarshalJSON reads it."""
    assert parse_quantity(None) == 0


@pytest.mark.parametrize(
    "sign", [pytest.param("", id="plain"), pytest.param("+", id="plus"), pytest.param("-", id="minus")]
)
@pytest.mark.parametrize("text", UPSTREAM, ids=str)
def test_values_are_those_of_upstream(text: str, sign: str) -> None:
    wanted = Fraction(Decimal(UPSTREAM[text]))
    value = parse_quantity(sign + text)
    assert value == (-wanted if sign == "-" else wanted)
    assert isinstance(value, int) == (wanted.denominator == 1), "whole values are ints"


def test_a_decimal_value_beyond_64_bits_is_the_largest_one() -> None:
    """Upstream keeps the exact value, and its Value() overflows to 0. A huge request must not count as 0 here.

    To compute a huge exponent would never end.
    """
    for text in ("12E", "1e40", "1e9999999999", "1.000000001E9999999999", "9" * 63):
        assert parse_quantity(text) == whole(text) == -parse_quantity(f"-{text}") == 2**63 - 1
    assert parse_quantity("1e-2147483647") == parse_quantity("1.000000001E-9999999999") == Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("text", "units", "thousandth"),
    [("1", 1, 1000), ("1500m", 2, 1500), ("1001u", 1, 2), ("0", 0, 0), ("1Gi", 2**30, 2**30 * 1000), ("0.1", 1, 100)],
)
def test_rounding_is_up(text: str, units: int, thousandth: int) -> None:
    assert (whole(text), milli(text)) == (units, thousandth)


def test_thousandths_are_exact() -> None:
    assert thousandths("1500u") == Fraction(3, 2)
    assert type(thousandths("500m")) is int


@pytest.mark.parametrize(
    ("number", "want"),
    [(1, 1), (-1, -1), (1.0, 1), (0.5, Fraction(1, 2)), (1e22, 2**63 - 1), (1e-7, Fraction(1, 10**7))],
    ids=repr,
)
def test_json_numbers_are_taken_as_they_are_written(number: float, want: Fraction) -> None:
    assert parse_quantity(number) == want


@pytest.mark.parametrize(
    "text",
    ["9" * 65, "0." + "0" * 1_000_000 + "1", "1e99999999999999999999", float("inf"), float("nan")],
    ids=lambda value: str(value)[:9],
)
def test_what_only_costs_time_and_what_is_no_number_is_refused(text: str | float) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@given(st.text(max_size=80) | st.text(alphabet="0123456789.+-eEnumkKMGTPi", max_size=12))
def test_any_text_is_a_number_or_a_quantity_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except QuantityError:
        return
    assert abs(value) < 2**63
    assert whole(text) >= value > whole(text) - 1


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 8000, "8"),
        ("cpu", 1500, "1500m"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", 1536 << 20, "1536Mi"),
        ("memory", (1 << 20) + 1, "1048577"),
    ],
)
def test_an_amount_is_written_as_the_api_server_does(resource: str, amount: int, text: str) -> None:
    assert quantity_text(resource, amount) == text

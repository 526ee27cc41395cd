"""What requests take of the capacity of devices that several pods share."""

from fractions import Fraction
from typing import Any

from webhook.errors import QuantityError
from webhook.kube.quantity import Number, parse_quantity


def amount_of(asked: Number | float, total: Number) -> Number:
    """An amount, of which a float is a part of all of it."""
    return int(asked * total) if isinstance(asked, float) else asked


def consumed(wanted: Number | None, total: Number, policy: Any) -> Number | None:
    """What a request takes of a capacity, by its CapacityRequestPolicy; None if the policy does not allow it.

    Follows consumable_capacity.go: rounded up to a valid value.
    """
    try:
        if wanted is None:
            return parse_quantity(policy["default"]) if policy and "default" in policy else total
        if policy and (values := policy.get("validValues")):
            return next((value for text in values if (value := parse_quantity(text)) >= wanted), None)
        if policy and (valid := policy.get("validRange")):
            least = parse_quantity(valid["min"])
            amount = max(wanted, least)
            if "step" in valid:
                step = parse_quantity(valid["step"])
                amount = least + -(-Fraction(amount - least) // step) * step
            return amount if "max" not in valid or amount <= parse_quantity(valid["max"]) else None
    except (QuantityError, TypeError, KeyError, AttributeError, ZeroDivisionError):
        return None
    return wanted

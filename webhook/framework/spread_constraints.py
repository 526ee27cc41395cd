"""Topology spread constraints: how a policy writes them, and how they are written into a pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from webhook.framework.interface import LabelKey, Settings

_MAX_SKEW = 2**31 - 1


class Constraint(Settings):
    """The spread over the values of one node label."""

    key: LabelKey
    max_skew: int = Field(default=1, ge=1, le=_MAX_SKEW)
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """ScheduleAnyway (a preference) | DoNotSchedule (pods may stay pending; not together with nodeAffinity mode required)"""

    def in_pod(self, skew: int, selector: Mapping[str, str], revision: Sequence[str] = ()) -> dict[str, Any]:
        """The constraint for a pod. `skew` raises maxSkew of a preference; `revision` is for matchLabelKeys."""
        soft = self.when_unsatisfiable == "ScheduleAnyway"
        return {
            "maxSkew": max(skew, self.max_skew) if soft else self.max_skew,
            "topologyKey": self.key,
            "whenUnsatisfiable": self.when_unsatisfiable,
            "labelSelector": {"matchLabels": dict(selector)},
        } | ({"matchLabelKeys": [*revision]} if revision else {})


def _each_key_once(constraints: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    keys = [constraint.key for constraint in constraints]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise ValueError(f"{', '.join(twice)} stands here twice: keep one constraint for each key")
    return constraints


Constraints = Annotated[tuple[Constraint, ...], AfterValidator(_each_key_once)]

"""Which demands were seen lately: what free GPUs should stay useful for."""

from __future__ import annotations

from webhook.cluster.node_table import Demand, Popular

_HALVE_AFTER = 2048
_MAX_POPULAR = 64
_MAX_GROUPS = 1024
_EXACT = 16
_MAX_CHARACTERS = 2048
"""Characters of a demand and its models. Tenants write them: with _MAX_GROUPS all that is kept stays below a few MiB."""
GroupKey = tuple[tuple[str, int], ...]


class _Group:
    """Pods of demands that are nearly the same: how many, and the sum of what they ask for."""

    __slots__ = ("amounts", "count")

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.amounts = [0.0] * size


class History:
    """Counts of demands, halved now and then, so that what is not asked for any more fades away.

    Demands within a factor of two in CPU, memory and the like are counted as one, their mean: workloads differ in such
    details, and a large job that comes in ten variants is still one to keep nodes free for.
    """

    def __init__(self) -> None:
        self.version = 0
        """Rises when the counts have changed enough to rank by them anew."""
        self._groups: dict[tuple[GroupKey, tuple[str, ...] | None], _Group] = {}
        self._since_halved = 0
        self._since_version = 0
        self._total = 0.0

    def add(self, demand: Demand, models: tuple[str, ...] | None) -> None:
        """One more pod; one without GPUs does not count. `models`: the GPU models that it is confined to, None for any."""
        of_demand = _group_key(demand)
        if not of_demand:
            return
        groups, key = self._groups, (of_demand, models)
        group = groups.get(key)
        if group is None:
            if len(repr(key)) > _MAX_CHARACTERS:
                return
            group = groups[key] = _Group(len(demand.requests))
        group.count += 1.0
        for place, (_, amount) in enumerate(demand.requests):
            group.amounts[place] += amount
        self._total += 1.0
        self._since_halved += 1
        self._since_version += 1
        if self._since_halved >= _HALVE_AFTER or len(groups) > _MAX_GROUPS:
            self._halve()
        if self._since_version >= self._total / 2:  # often while little is known, then seldom: all scores depend on it
            self._since_version = 0
            self.version += 1

    def _halve(self) -> None:
        self._since_halved = 0
        self._groups = {key: group for key, group in self._groups.items() if group.count > 0.25}
        for group in self._groups.values():
            group.count /= 2
            group.amounts = [amount / 2 for amount in group.amounts]
        self._total = sum(group.count for group in self._groups.values())

    def popular(self, models: dict[str, int]) -> tuple[Popular, ...]:
        """The most popular demands, most popular first. `models`: the number of each GPU model by its name."""
        ranked = sorted(self._groups.items(), key=lambda item: (-item[1].count, item[0][0], item[0][1] or ()))[
            :_MAX_POPULAR
        ]
        return tuple(
            Popular(
                Demand(
                    tuple(
                        (name, max(1, round(amount / group.count)))
                        for (name, _), amount in zip(key, group.amounts, strict=True)
                    )
                ),
                None if names is None else tuple(sorted(models[name] for name in names if name in models)),
                group.count / self._total,
            )
            for (key, names), group in ranked
        )


def _group_key(demand: Demand) -> GroupKey:
    """The same for demands that count as one: few GPUs exactly, all else to a factor of two. () for one without GPUs."""
    if not any(["/" in name for name, _ in demand.requests]):
        return ()
    return tuple(
        [
            (name, amount if "/" in name and amount <= _EXACT else -amount.bit_length())
            for name, amount in demand.requests
        ]
    )

"""The demands of recent GPU pods. `pack` keeps free GPUs useful for these."""

from __future__ import annotations

from webhook.cluster.node_table import Demand, PopularDemand

_HALVE_AFTER = 2048
"""Counts are halved after this many pods."""
_MAX_POPULAR = 64
_MAX_GROUPS = 1024
_EXACT = 16
"""Demands with up to this many GPUs are told apart by their exact number."""
_MAX_CHARACTERS = 2048
"""Maximum length of a demand and its models as text. Tenants write them: with _MAX_GROUPS all groups stay below a few MiB."""
GroupKey = tuple[tuple[str, int], ...]


class _Group:
    """Pods with nearly the same demand: their number, and the sum of each resource."""

    __slots__ = ("amounts", "count")

    def __init__(self, size: int) -> None:
        self.count = 0.0
        self.amounts = [0.0] * size


class History:
    """Counts of demands, halved from time to time, so that old demands fade away.

    Demands within a factor of two in CPU, memory and other resources are counted as one, with their mean amounts.
    Workloads differ in such details: a large job that comes in ten variants is still one job that needs whole nodes.
    """

    def __init__(self) -> None:
        self.version = 0
        """Rises when the counts have changed enough to score nodes again."""
        self._groups: dict[tuple[GroupKey, tuple[str, ...] | None], _Group] = {}
        self._since_halved = 0
        self._since_version = 0
        self._total = 0.0

    def add(self, demand: Demand, models: tuple[str, ...] | None) -> None:
        """Count a pod; pods without GPUs are ignored. `models`: the GPU models that the pod is confined to; None: any."""
        if not (group_key := _group_key(demand)):
            return
        groups, key = self._groups, (group_key, models)
        group = groups.get(key)
        if group is None:
            if len(repr(key)) > _MAX_CHARACTERS:
                return
            group = groups[key] = _Group(len(demand.requests))
        group.count += 1.0
        for index, (_, amount) in enumerate(demand.requests):
            group.amounts[index] += amount
        self._total += 1.0
        self._since_halved += 1
        self._since_version += 1
        if self._since_halved >= _HALVE_AFTER or len(groups) > _MAX_GROUPS:
            self._halve()
        if self._since_version >= self._total / 2:  # often at first, seldom later: every score depends on the version
            self._since_version = 0
            self.version += 1

    def _halve(self) -> None:
        self._since_halved = 0
        self._groups = {key: group for key, group in self._groups.items() if group.count > 0.25}
        for group in self._groups.values():
            group.count /= 2
            group.amounts = [amount / 2 for amount in group.amounts]
        self._total = sum(group.count for group in self._groups.values())

    def popular(self, models: dict[str, int]) -> tuple[PopularDemand, ...]:
        """The most frequent demands, most frequent first. `models`: the number of each GPU model, by name."""
        ranked = sorted(self._groups.items(), key=lambda item: (-item[1].count, item[0][0], item[0][1] or ()))
        popular = []
        for (key, names), group in ranked[:_MAX_POPULAR]:
            means = [max(1, round(amount / group.count)) for amount in group.amounts]
            demand = Demand(tuple(zip([name for name, _ in key], means, strict=True)))
            numbers = None if names is None else tuple(sorted(models[name] for name in names if name in models))
            popular.append(PopularDemand(demand, numbers, group.count / self._total))
        return tuple(popular)


def _group_key(demand: Demand) -> GroupKey:
    """A key that demands of one group share: up to `_EXACT` GPUs exactly, all else to a factor of two. () without GPUs."""
    if not any(["/" in name for name, _ in demand.requests]):
        return ()
    return tuple(
        (name, amount if "/" in name and amount <= _EXACT else -amount.bit_length()) for name, amount in demand.requests
    )

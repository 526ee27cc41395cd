"""Which demands were seen lately: what free GPUs should stay useful for."""

from __future__ import annotations

from webhook.cluster.columns import Demand, Popular

_HALVE_AFTER = 2048
_KEPT = 32
_SHAPES = 1024


class History:
    """Counts of demands, halved now and then, so that what is not asked for any more fades away."""

    def __init__(self) -> None:
        self.version = 0
        """Rises when the counts have changed enough to rank by them anew."""
        self._counts: dict[tuple[Demand, tuple[str, ...] | None], float] = {}
        self._since_halved = 0
        self._since_version = 0
        self._total = 0.0

    def add(self, demand: Demand, models: tuple[str, ...] | None) -> None:
        """One more pod with GPUs. `models`: the GPU models that it is confined to, None for any."""
        counts = self._counts
        counts[demand, models] = counts.get((demand, models), 0.0) + 1.0
        self._total += 1.0
        self._since_halved += 1
        self._since_version += 1
        if self._since_halved >= _HALVE_AFTER or len(counts) > _SHAPES:
            self._since_halved = 0
            self._counts = {shape: count / 2 for shape, count in counts.items() if count > 0.25}
            self._total = sum(self._counts.values())
        if self._since_version >= self._total / 2:  # often while little is known, then seldom: all scores depend on it
            self._since_version = 0
            self.version += 1

    def popular(self, models: dict[str, int]) -> tuple[Popular, ...]:
        """The most popular demands, most popular first. `models`: the number of each GPU model by its name."""
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or ()))[:_KEPT]
        return tuple(
            Popular(
                demand,
                None if names is None else tuple(sorted(models[name] for name in names if name in models)),
                count / self._total,
            )
            for (demand, names), count in ranked
        )

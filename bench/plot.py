"""Line charts as SVG, without a plotting library."""

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]
COLOURS = ("#4363d8", "#e6194b", "#3cb44b", "#f58231", "#911eb4", "#008080", "#9a6324", "#808000")
_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 180, 44, 52


def lines(
    title: str, x_label: str, y_label: str, series: Mapping[str, Points], *, log: tuple[bool, bool] = (False, False)
) -> str:
    """One chart with a line for each series, and dots if it has few points. `log`: whether the x and y axes are logarithmic."""
    points = [point for line in series.values() for point in line]
    across = _Axis([x for x, _ in points], log[0], (_LEFT, _WIDTH - _RIGHT))
    up = _Axis([y for _, y in points], log[1], (_HEIGHT - _BOTTOM, _TOP))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    for value in across.ticks():
        at = across.at(value)
        parts.append(f'<path d="M{at:.1f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value:,g}</text>')
    for value in up.ticks():
        at = up.at(value)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        placed = [(across.at(x), up.at(y)) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(placed) <= 30:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        y = _TOP + 8 + 20 * number
        parts.append(f'<path d="M{_WIDTH - _RIGHT + 14} {y}h18" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 38}" y="{y + 4}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Axis:
    """Converts values to pixels. `pixels`: the positions of the lowest and the highest value."""

    def __init__(self, values: Sequence[float], log: bool, pixels: tuple[float, float]) -> None:
        self._log = log
        self._pixels = pixels
        least, most = min(values, default=0.0), max(values, default=1.0)
        if log:
            self._low, self._high = float(math.floor(math.log10(least))), float(math.ceil(math.log10(most)))
        else:
            self._step = _nice((most - min(0.0, least)) / 6 or 1.0)
            self._low = math.floor(min(0.0, least) / self._step) * self._step
            self._high = math.ceil(most / self._step) * self._step
        if self._low == self._high:
            self._high += 1

    def at(self, value: float) -> float:
        start, end = self._pixels
        place = math.log10(value) if self._log else value
        return start + (end - start) * (place - self._low) / (self._high - self._low)

    def ticks(self) -> list[float]:
        if self._log:
            return [10.0**power for power in range(round(self._low), round(self._high) + 1)]
        return [self._low + self._step * i for i in range(round((self._high - self._low) / self._step) + 1)]


def _nice(step: float) -> float:
    """The smallest of 1, 2, 5 and 10 times a power of ten that is not below `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= step)

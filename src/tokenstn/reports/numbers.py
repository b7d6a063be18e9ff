"""Numbers as people read them: percent with one decimal, thousands apart, a dash for what was not measured."""

from __future__ import annotations

from math import isnan

from tokenstn.evaluation.results import Interval

NONE = "–"
THIN = "\u202f"  # a narrow space that does not break: number and unit stay together


def percent(share: float | None) -> str:
    """
    >>> percent(0.6137).replace(THIN, " ")
    '61.4 %'
    """
    return NONE if share is None or isnan(share) else f"{100 * share:.1f}{THIN}%"


def points(difference: float | None) -> str:
    """A difference of two shares, with its sign.

    >>> points(-0.261).replace(THIN, " ")
    '−26.1 points'
    """
    return NONE if difference is None or isnan(difference) else f"{bare_points(difference)}{THIN}points"


def bare_points(difference: float) -> str:
    """The same for a column that says the unit.

    >>> bare_points(0.0292), bare_points(-1e-9)
    ('+2.9', '0.0')
    """
    if isnan(difference):
        return NONE
    shown = f"{100 * difference:+.1f}".replace("-", "−")
    return "0.0" if shown in ("+0.0", "−0.0") else shown


def percent_interval(interval: Interval | None) -> str:
    """The ends only, for beside the value.

    >>> percent_interval(Interval(0.614, 0.602, 0.626)).replace(THIN, " ")
    '60.2–62.6 %'
    """
    if interval is None or isnan(interval.low) or isnan(interval.high):
        return NONE
    return f"{100 * interval.low:.1f}–{100 * interval.high:.1f}{THIN}%"


def decimal(value: float | None, places: int = 3) -> str:
    return NONE if value is None or isnan(value) else f"{value:.{places}f}".replace("-", "−")


def decimal_interval(interval: Interval | None) -> str:
    """
    >>> decimal_interval(Interval(0.91, 0.9, 0.92))
    '0.910 (0.900–0.920)'
    """
    if interval is None or isnan(interval.value):
        return NONE
    if isnan(interval.low) or isnan(interval.high):
        return decimal(interval.value)
    return f"{interval.value:.3f} ({interval.low:.3f}–{interval.high:.3f})"


def count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def big(number: float | None) -> str:
    """With the prefix that keeps it short.

    >>> [big(number).replace(THIN, " ") for number in (86_540_000, 912, 17.6e9)]
    ['86.5 M', '912', '17.6 G']
    """
    if number is None or isnan(number):
        return NONE
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if prefix == 'k' else size):.1f}{THIN}{prefix}"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def measure(value: float | None, unit: str) -> str:
    """A value in degrees or percent as it is, in its own unit.

    >>> measure(4.42, "°"), measure(2.0, "%").replace(THIN, " ")
    ('4.4°', '2.0 %')
    """
    if value is None or isnan(value):
        return NONE
    unit = {"deg": "°", "degree": "°", "degrees": "°", "percent": "%"}.get(unit, unit)
    return f"{value:.1f}{unit}" if unit == "°" else f"{value:.1f}{THIN}{unit}" if unit else f"{value:.3g}"


def duration(seconds: float) -> str:
    """
    >>> duration(42.3), duration(754)
    ('42 s', '12 min 34 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

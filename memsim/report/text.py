"""Numbers and files as text for people; an undefined number is shown as a dash."""

from __future__ import annotations

import math
from pathlib import Path

from memsim.statistics import Estimate

UNKNOWN = "–"  # noqa: RUF001 (an en dash, not a hyphen that could be a minus)
NOT_VALIDATED = "not validated on this machine"
ROUNDING = 1e-12
"""An interval this small beside the time is the rounding of sums."""
LEAST_S = 1e-10
"""A half-width that is shown with two digits in ns."""
NOTABLE_HALF_WIDTH = 0.01
"""A half-width that is a smaller part of a time is hardly visible in it."""
_TIME_UNITS = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def fixed(value: float | None, decimals: int = 0) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,.{decimals}f}"


LEAST_WHOLE_PERCENT = 0.005
"""A smaller part that is more than the rounding of sums is not shown as 0 %."""


def percent(ratio: float | None, decimals: int = 1) -> str:
    """`38.1 %`. In whole percent, less than half of one that is not zero is `<1 %`."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    if decimals == 0 and ROUNDING < ratio < LEAST_WHOLE_PERCENT:
        return "<1 %"
    return f"{100 * ratio:.{decimals}f} %"


def count(value: float | None) -> str:
    """A count with thousands separators, shortened from ten million on."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    for limit, unit in ((1e13, "T"), (1e10, "G"), (1e7, "M")):
        if abs(value) >= limit:
            return f"{value / (limit / 10):,.1f} {unit}"
    return f"{value:,.0f}"


def seconds(value: float | None, digits: int = 3) -> str:
    """A time in s, ms, us or ns, with so many significant digits."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if value == 0:
        return "0 s"
    unit, factor = next(
        ((unit, factor) for unit, factor in _TIME_UNITS if abs(value) * factor >= 1), ("ns", 1e9)
    )
    scaled = value * factor
    whole = len(str(int(abs(scaled))))
    return f"{scaled:,.{max(digits - whole, 0)}f} {unit}"


def without_latency(sectors: float) -> str:
    """What stands for the latency of an access that no work-item waits for."""
    return "no wait" if sectors else "no request"


def seconds_plus_minus(time: Estimate) -> str:
    """`718 ± 18 us`; without the interval where that is hardly visible."""
    value = seconds(time.mean)
    if not time.has_interval or time.half_width < NOTABLE_HALF_WIDTH * time.mean:
        return value
    number, unit = value.split()
    half = time.half_width / time.mean * float(number.replace(",", ""))
    return f"{number} ± {fixed(half, 0 if half >= 10 else len(number.partition('.')[2]))} {unit}"


def rate(per_s: float, unit: str) -> str:
    """A rate such as 812 GB/s or 1.2 PFLOP/s; prefixes are powers of 1000."""
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if abs(per_s) >= 0.9995 * factor:  # else three digits are 1e+03
            return f"{per_s / factor:.3g} {prefix}{unit}/s"
    return f"{per_s:.3g} {unit}/s"


def byte_size(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size, unit = float(value), 0
    while abs(size) >= 1024 and unit < len(_BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    decimals = 0 if unit == 0 or size >= 100 else 1
    return f"{size:.{decimals}f} {_BYTE_UNITS[unit]}"


def byte_estimate(estimate: Estimate) -> str:
    """`1.3 ± 0.1 GiB`, or `1.3 (0.0 to 3.1) GiB` where that would be less than nothing; only `1.3 GiB` where there is no
    interval, or one that rounds to zero."""
    whole = byte_size(estimate.mean)
    if not math.isfinite(estimate.half_width) or whole == UNKNOWN:
        return whole
    number, unit = whole.split(" ")
    decimals = len(number.partition(".")[2])
    half, *ends = (
        size / 1024 ** _BYTE_UNITS.index(unit) for size in (estimate.half_width, *estimate.ci95)
    )
    if half < 0.5 * 10.0**-decimals:
        return whole
    if estimate.mean - estimate.half_width < estimate.least:
        return f"{number} ({ends[0]:.{decimals}f} to {ends[1]:.{decimals}f}) {unit}"
    return f"{number} ± {half:.{decimals}f} {unit}"


def plus_minus(estimate: Estimate, decimals: int = 1, factor: float = 1.0) -> str:
    """`41.3 ± 0.4`; only `41.3` where a single trial gives no interval."""
    mean, half_width = estimate.mean * factor, estimate.half_width * factor
    if not math.isfinite(mean):
        return UNKNOWN
    if not math.isfinite(half_width):
        return f"{mean:,.{decimals}f}"
    return f"{mean:,.{decimals}f} ± {small(half_width, decimals)}"


def times(factor: Estimate) -> str:
    """`22.7 ± 0.2`; only `3.2` where the interval would round to zero."""
    return plus_minus(factor) if factor.half_width >= 0.05 else fixed(factor.mean, 1)


def time_interval(estimate: Estimate, digits: int = 3) -> str:
    """`95 % interval: 241 us to 250 us; ± 4.1 us ordering, ...`, with its parts; empty without an interval, and
    where nothing that was varied changes the time, for then it is not known how certain it is."""
    if not estimate.has_interval or estimate.half_width <= ROUNDING * estimate.mean:
        return ""
    ends = seconds_range(*estimate.ci95, digits)
    return f"95 % interval: {'; '.join(filter(None, (ends, time_parts(estimate))))}"


def how_certain(estimate: Estimate, model_error: float | None, digits: int = 3) -> str:
    """A time's interval, and beside it the error of the model: `95 % interval: 241 us to 250 us; model ± 20 %`."""
    model = ""
    if model_error is not None:
        times = f"model: up to {1 + model_error:.2g} times as long"
        model = f"model ± {percent(model_error, 0)}" if model_error < 1 else times
    return "; ".join(filter(None, (time_interval(estimate, digits), model)))


def seconds_range(low_s: float, high_s: float, digits: int = 3) -> str:
    """`241 us to 250 us`, or the half-width where both ends read the same; a dash where they are the same."""
    low, high = seconds(low_s, digits), seconds(high_s, digits)
    if low != high:
        return f"{low} to {high}"
    half = (high_s - low_s) / 2
    if half <= ROUNDING * high_s:
        return UNKNOWN
    return f"± {seconds(half, 2)}" if half >= LEAST_S / 2 else "± <0.1 ns"


def groups(traced: int, of: int) -> str:
    """`all 1,300 groups`, or `1,536 of 4,096 groups`."""
    if traced != of:
        return f"{count(traced)} of {number_of(of, 'group')}"
    return f"all {number_of(of, 'group')}" if of != 1 else "the one group"


def number_of(n: int, what: str) -> str:
    """`1 group`, `1,300 groups`."""
    return f"{count(n)} {what}{'s' if n != 1 else ''}"


def small(half_width: float, decimals: int) -> str:
    """A half-width; a positive one that would round to zero is shown as `<0.1`."""
    step = 10.0**-decimals
    if 0 < half_width < step / 2:
        return f"<{step:.{decimals}f}"
    return f"{half_width:,.{decimals}f}"


def percent_estimate(estimate: Estimate) -> str:
    text = plus_minus(estimate, 1, 100.0)
    return text if text == UNKNOWN else f"{text} %"


_CAUSES = {"past": "earlier groups", "groups": "untraced groups", "pages": "places of pages"}
"""What the parts of an interval are due to, where their names are not plain words."""


NOTABLE_PART = 1e-3
"""Parts of a time's interval that are less of the time are not listed."""


def time_parts(estimate: Estimate) -> str:
    """`± 53 us ordering, ± 1.1 ms place`: what makes a time uncertain, where there is more than the ordering."""
    return ", ".join(
        f"± {seconds(half, 2)} {_CAUSES.get(name, name)}"
        for name, half in estimate.parts.items()
        if half > NOTABLE_PART * estimate.mean
    )


def hit_ratio_parts(estimate: Estimate, model_error: float | None) -> str:
    """`± 0.2 ordering, ± 1.1 place, ± 3.0 model`, in points: what makes a hit ratio uncertain."""
    causes = [
        f"± {small(100 * half, 1)} {_CAUSES.get(name, name)}"
        for name, half in estimate.parts.items()
        if half > 0
    ]
    model = [] if model_error is None else [f"± {100 * model_error:.1f} model"]
    return ", ".join([*causes, *model])


def model_cycles(error: float | None) -> str:
    return "not validated" if error is None else f"model ± {error:,.0f}"


LONGEST_NAME = 100


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A name with its middle left out where it is longer than `longest` characters."""
    if len(name) <= longest:
        return name
    return f"{name[: longest * 2 // 3]} … {name[-(longest // 4) :]}"


def place(user_file: str, user_line: int | None, generated_line: int | None) -> str:
    """Where an access stands: `kernels/spmv.py:40`, or `line 16` of the generated source; "" if unknown."""
    if user_file and user_line:
        return f"{file_label(user_file)}:{user_line}"
    return f"line {generated_line}" if generated_line else ""


def relative_path(name: str) -> str:
    """A file as seen from the current folder if it lies below that, otherwise unchanged."""
    path = Path(name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else name


def file_label(name: str) -> str:
    """As `relative_path`, but only the name of a file that lies elsewhere."""
    label = relative_path(name)
    return Path(label).name if Path(label).is_absolute() else label

"""Settings of `memsim blocks` that contain ranges of sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from calib.words import whole
from memsim.errors import MemsimError
from memsim.visible import shown

MOST_SIZES = 64


def settings_of_sizes(settings: Mapping[str, str], *, lists: bool = False) -> list[dict[str, str]]:
    """The settings at each requested size; all ranges advance together, from low to high.

    lists : whether a value with commas is a list of sizes, which advances likewise
    """
    ranges: dict[str, Sequence[int | str]] = {
        name: doubled(name, text) for name, text in settings.items() if is_range(text)
    }
    if lists:
        ranges |= {name: text.split(",") for name, text in settings.items() if "," in text}
    n = max((len(values) for values in ranges.values()), default=1)
    rows = []
    for k in range(n):
        row = dict(settings)
        for name, values in ranges.items():
            row[name] = str(values[min(k, len(values) - 1)])
        rows.append(row)
    return rows


def is_range(text: str) -> bool:
    return re.fullmatch("[0-9]+:[0-9]+", text) is not None


def doubled(name: str, text: str) -> list[int]:
    """LOW, twice that, and so on, and HIGH, of a text LOW:HIGH."""
    _, (low, high) = parsed_range("--set", f"{name}={text}")
    values = [low]
    while values[-1] * 2 < high:
        values.append(values[-1] * 2)
    if len(values) >= MOST_SIZES:
        raise MemsimError(f"--set {name}={text} has more than {MOST_SIZES} sizes")
    return [*values, high] if high > low else values


def parsed_range(option: str, text: str) -> tuple[str, tuple[int, int]]:
    """(NAME, (LOW, HIGH)) of a text NAME=LOW:HIGH; `option` is named in the error."""
    name, equals, value = text.partition("=")
    low, high = (whole(word) for word in (value.partition(":")[0], value.partition(":")[2]))
    if not (name and equals) or low is None or high is None or not 0 < low <= high:
        raise MemsimError(
            f"{option} must be NAME=LOW:HIGH with 0 < LOW <= HIGH < 2^63, got {shown(text)}"
        )
    return name, (low, high)


def together(first: Mapping[str, str], name: str) -> list[str]:
    """The settings that grow with one setting: those of the same value."""
    return [k for k, v in first.items() if v == first.get(name)] or [name]


def drawn_sizes(ranges: Mapping[str, tuple[int, int]], runs: int) -> list[dict[str, int]]:
    """Sizes evenly spread on a logarithmic scale, each setting in a separate random order."""
    import numpy as np

    rng = np.random.default_rng(0)
    columns = {}
    for name, (low, high) in ranges.items():
        spread = np.exp(np.linspace(math.log(low), math.log(high), runs))
        columns[name] = rng.permutation(np.round(spread).astype(int)).tolist()
    return [{name: values[k] for name, values in columns.items()} for k in range(runs)]

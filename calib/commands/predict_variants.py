"""`memsim predict` with several machines, or several values of a setting: a row of one table for each.

It imports nothing heavy at module level, because the help of the command group loads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memsim.commands import each_variant, write_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from calib.prediction.prediction import Prediction
    from tracegen.commands import KernelSpec

Variant = tuple[str, str, "KernelSpec"]
"""What tells it from the others, its machine and its kernel."""


def predict_variants(
    variants: Sequence[Variant], predict: Callable[[KernelSpec, str], Prediction], out: Path | None
) -> int:
    """Predicts variants one after another; Ctrl-C keeps those that are done. Returns the exit code.

    out : the file for JSON, `-` for standard output
    """
    return each_variant(
        {label: partial(predict, kernel, machine) for label, machine, kernel in variants},
        lambda done: write_tables([_table(done)], lambda: _json(done), out),
        lambda _: False,
    )


def _json(done: Sequence[tuple[str, Prediction]]) -> str:
    from calib.prediction.prediction import as_json

    rows: list[dict[str, Any]] = [{"name": label, **as_json(one)} for label, one in done]
    return json.dumps({"schema": 1, "variants": rows}, indent=1, allow_nan=False)


def _table(done: Sequence[tuple[str, Prediction]]) -> Table:
    """Time, what binds it and the bounds below it; texts come from kernels and are not read as markup."""
    from calib.prediction.report import seconds
    from memsim.report import UNKNOWN, PlainTable, number_of

    floors = list(dict.fromkeys(name for _, one in done for name in one.timing.floors_s))
    rows = []
    for label, one in done:
        estimate, least = one.timing.estimate, one.timing.floor_means_s
        interval = (
            f"{seconds(estimate.low)} to {seconds(estimate.high)}"
            if estimate.has_interval
            else UNKNOWN
        )
        rows.append(
            [
                label,
                seconds(estimate.mean),
                interval,
                one.timing.binds,
                *(seconds(least[n]) if n in least else UNKNOWN for n in floors),
                f"{number_of(one.timing.residents.groups_per_core, 'group')} per core",
            ]
        )
    head = ["variant", "time", "95 % interval", "limited by", *(f"at least, {n}" for n in floors)]
    return PlainTable("", [*head, "occupancy"], rows)

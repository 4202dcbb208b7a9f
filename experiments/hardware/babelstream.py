"""BabelStream's rates, of kernels that do nothing but move data, against what machine files say that DRAM sustains. A file that took
a kernel's rate is not compared with it: what is left says how well the triad of another program, or another machine with the same
memory, stands for it. Nothing is replayed: row hits are taken to be those of a stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from experiments.data_files import rows, source
from experiments.hardware.comparison import errors
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine

NAME = "babelstream"
TABLE = "babelstream.csv"
WRITTEN = {"copy": 1 / 2, "mul": 1 / 2, "add": 1 / 3, "triad": 1 / 3, "dot": 0.0}
"""Part of its bytes that a kernel writes."""
STREAM, READ = "streams", "reads"


def measured() -> Iterator[tuple[str, str, float]]:
    """Machine, kernel, and the rate in GB/s, where it was published and the machine file did not take it."""
    for row in rows(TABLE):
        for kernel in WRITTEN:
            if row[kernel] and kernel not in row["chose"].split():
                yield row["machine"], kernel, float(row[kernel])


def babelstream(out: Path, quick: bool) -> Figure:
    cases = []
    for name, kernel, rate in measured():
        machine = load_machine(name)
        per_cycle = machine.dram.bandwidth_at(math.nan, written=WRITTEN[kernel])
        cases.append(
            Case(
                f"{name} {kernel}",
                STREAM if WRITTEN[kernel] else READ,
                "GB/s",
                reference=rate,
                ours=1e-9 * per_cycle * machine.clock_hz,
            )
        )
    return Figure(
        title="BabelStream's rates, and what machine files say that DRAM sustains",
        source=source(TABLE),
        cases=cases,
        findings=[f"{what.capitalize()}: {errors(cases, what)}." for what in (STREAM, READ)],
        reference_name="measured",
    )

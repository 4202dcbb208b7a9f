"""Conversion between a history and StarPU's performance models.

StarPU has a file for each codelet; the conversion makes one for each kernel, with a combination for each
device and driver. The type and number of a device are StarPU's: OpenCL, or CPU where the caller
specifies it. StarPU's file has no place for names of devices and drivers, rejected samples and
extremes. Reading a file back gives the same means, deviations and counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.records import Record, check_record
from calib.history.regression import linear, log_sums, power_law_with_offset, solve_power_law
from calib.history.starpu_file import Combination, Device, Entry, Implementation, StarpuModel
from calib.history.statistics import Running

US = 1e6
CPU, OPENCL = 0, 2


def to_starpu(records: Sequence[Record], *, cpus: Iterable[str] = ()) -> StarpuModel:
    """A StarPU model of the records of one kernel.

    cpus : devices that are CPUs for StarPU; the others are OpenCL devices

    Raises HistoryError for no records, for those of several kernels, and for an unknown device in `cpus`.
    """
    kernels = sorted({r.key.kernel for r in records})
    if len(kernels) != 1:
        raise HistoryError(
            f"a StarPU model describes one kernel, got {len(kernels)}: {', '.join(kernels)}"
        )
    cpu_names = set(cpus)
    places = sorted({(r.key.device, r.key.driver) for r in records})
    unknown = cpu_names - {device for device, _ in places}
    if unknown:
        raise HistoryError(f"{kernels[0]} was not run on {', '.join(sorted(unknown))}")
    combinations = []
    taken = {CPU: 0, OPENCL: 0}
    for device, driver in places:
        kind = CPU if device in cpu_names else OPENCL
        here = [r for r in records if (r.key.device, r.key.driver) == (device, driver)]
        combinations.append(
            Combination(
                devices=[Device(type=kind, id=taken[kind], cores=1)],
                implementations=[_implementation(here)],
            )
        )
        taken[kind] += 1
    return StarpuModel(combinations=combinations)


def _implementation(records: Sequence[Record]) -> Implementation:
    sized = [r for r in records if r.size_bytes > 0 and r.accepted.n > 0]
    sums = log_sums(sized)
    # StarPU's y is in microseconds: ln(t us) = ln(t s) + ln 10^6.
    shift = math.log(US)
    solved = solve_power_law(sums)
    offset = power_law_with_offset(sized)
    many = linear(records)
    a, b, c = offset.coefficients if offset is not None else (math.nan,) * 3
    return Implementation(
        entries=[_entry(r) for r in records if r.accepted.n > 0],
        sum_lnx=sums.lnx,
        sum_lnx2=sums.lnx2,
        sum_lny=sums.lny + sums.n * shift,
        sum_lnxlny=sums.lnxlny + sums.lnx * shift,
        alpha=solved[0] * US if solved else math.nan,
        beta=solved[1] if solved else math.nan,
        n=sums.n,
        min_x=int(sums.min_x) if sized else 0,
        max_x=int(sums.max_x),
        a=a * US,
        b=b,
        c=c * US,
        coefficients=[v * US for v in many.coefficients] if many is not None else (),
        terms=many.names[1:] if many is not None else (),
    )


def _entry(record: Record) -> Entry:
    state = record.accepted
    mean, m2 = state.mean * US, state.m2 * US * US
    return Entry(
        footprint=record.key.layout,
        size=record.size_bytes,
        flops=0.0,
        mean=mean,
        deviation=math.sqrt(m2 / state.n),
        sum=mean * state.n,
        sum2=m2 + state.n * mean * mean,
        n=state.n,
    )


def from_starpu(model: StarpuModel, symbol: str, host: str, at: float) -> list[Record]:
    """The entries of a StarPU model as records of device `HOST:cpu0_impl0`, driver `StarPU 45`.

    Extremes are not in the file; the records have the widest ones that n, mean and deviation allow. The
    sums of logarithms come from mean and deviation, to second order.

    at : when they were measured, in seconds of the Unix epoch: the time of the file

    Raises HistoryError where an entry's mean or deviation is impossible.
    """
    records = []
    for combination in model.combinations:
        for index, implementation in enumerate(combination.implementations):
            device = f"{host}:{combination.name}_impl{index}"
            for entry in implementation.entries:
                if entry.n == 0:
                    continue
                records.append(_record(entry, symbol, device, at))
    return records


def _record(entry: Entry, symbol: str, device: str, at: float) -> Record:
    good = math.isfinite(entry.mean) and entry.mean > 0.0 and entry.deviation >= 0.0
    if not good:
        raise HistoryError(
            f"entry {entry.footprint:08x} of {symbol} has mean {entry.mean} and deviation"
            f" {entry.deviation}: no set of times has these"
        )
    mean, n = entry.mean / US, entry.n
    variation = entry.deviation / entry.mean
    if not variation < math.sqrt(n):  # Samuelson's inequality, below
        raise HistoryError(
            f"entry {entry.footprint:08x} of {symbol} has mean {entry.mean} and deviation"
            f" {entry.deviation}: no {n} times have these"
        )
    m2 = n * (entry.deviation / US) ** 2
    log = math.log(mean) - variation**2 / 2
    # No sample of n lies further than sqrt(n - 1) population deviations from the mean (Samuelson).
    reach = math.sqrt(max(n - 1, 0)) * entry.deviation / US
    accepted = Running(
        n=n,
        mean=mean,
        m2=m2,
        low=max(mean - reach, 0.0),
        high=mean + reach,
        sum_ln=n * log,
        sum_ln2=n * (log * log + variation**2),
    )
    record = Record(
        key=Key(kernel=symbol, device=device, driver="StarPU 45", layout=entry.footprint),
        size_bytes=entry.size,
        terms={},
        accepted=accepted,
        seen=n,
        rejected=0,
        recent=np.empty(0),
        first_at=at,
        last_at=at,
        source="StarPU",
    )
    return check_record(record)


def symbol_and_host(path: Path) -> tuple[str, str]:
    """The codelet's symbol and the machine's name in a file's name, SYMBOL.HOST."""
    symbol, _, host = path.name.partition(".")
    return symbol, host or "unknown"

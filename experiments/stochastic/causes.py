"""Where a wide spread over orderings comes from: one source of chance taken away at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.stochastic.replays import QUANTITIES, Ratios, ratios, replays_of
from memsim.machine import Machine
from memsim.statistics import describe
from memsim.trace import Trace

MOST_TRIALS = 16


def with_own_l2(machine: Machine) -> Machine:
    """The machine with its L2 dealt out, an equal part for every core: none meets what others do."""
    l2 = machine.levels[1]
    unit = l2.n_slices * l2.ways * l2.line_bytes
    part = max(l2.size_bytes // machine.n_cores // unit, 1) * unit
    own = dataclasses.replace(l2, size_bytes=part, cores_per_instance=1)
    return machine.replace(levels=(machine.levels[0], own, *machine.levels[2:]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cause:
    """Sigmas of a hit ratio, as fractions: as it is, and with a source of chance gone.

    together : all cores begin at the same point of their groups' programs
    apart : every core has its own part of the L2, so the order between cores is of no consequence
    """

    quantity: str
    sigma: float
    together: float
    apart: float

    def sentence(self, name: str) -> str:
        """What the three numbers say."""
        said = (
            f"{name}, {self.quantity}: sigma {100 * self.sigma:.2f} points;"
            f" {100 * self.together:.2f} where all cores start together,"
            f" {100 * self.apart:.2f} where each has its own part of the L2."
        )
        by_starts = self.together < self.sigma / 4
        if self.apart < self.sigma / 4 and by_starts:
            return (
                f"{said} It takes both: cores at different points of the program that share the L2."
            )
        if self.apart < self.sigma / 4:
            return f"{said} The spread comes from sharing the L2, wherever cores start."
        if by_starts:
            return f"{said} The spread comes from where in the program each core starts."
        return f"{said} Neither alone makes the spread."


def causes(
    traces: Sequence[Trace],
    machine: Machine,
    found: Mapping[str, Ratios],
    *,
    above: float,
    trials: int,
) -> list[Cause]:
    """A Cause for each hit ratio whose sigma exceeds `above`; replays only where there is one.

    Sigma is known to a fifth from 16 trials, and a source is named only where it makes three
    quarters: more trials are not run.
    """
    trials = min(trials, MOST_TRIALS)
    sigmas = {quantity: describe(values).sigma for quantity, values in found.items()}
    wide = {quantity: sigma for quantity, sigma in sigmas.items() if sigma > above}
    if not wide:
        return []
    together = replays_of(traces, machine, trials, deviation=False)
    apart = replays_of(traces, with_own_l2(machine), trials)

    def sigma_of(replays: Any, quantity: str) -> float:
        return describe(ratios(replays, *QUANTITIES[quantity])).sigma

    return [
        Cause(
            quantity=quantity,
            sigma=sigma,
            together=sigma_of(together, quantity),
            apart=sigma_of(apart, quantity),
        )
        for quantity, sigma in wide.items()
    ]

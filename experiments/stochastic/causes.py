"""Causes of a large sigma over orderings: replays with one source of chance removed."""

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
    """The machine with a private L2 for every core, each an equal part of the shared one."""
    l2 = machine.levels[1]
    unit = l2.n_slices * l2.ways * l2.line_bytes
    part = max(l2.size_bytes // machine.n_cores // unit, 1) * unit
    own = dataclasses.replace(l2, size_bytes=part, cores_per_instance=1)
    return machine.replace(levels=(machine.levels[0], own, *machine.levels[2:]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cause:
    """Sigmas of a hit ratio, as fractions.

    sigma : of the default replay
    together : with all cores starting at the same point of their groups' programs
    apart : with a private part of the L2 for every core, so that the order between cores has no
        effect
    """

    quantity: str
    sigma: float
    together: float
    apart: float

    def sentence(self, name: str) -> str:
        """The three numbers and the conclusion."""
        numbers = (
            f"{name}, {self.quantity}: sigma {100 * self.sigma:.2f} points;"
            f" {100 * self.together:.2f} if all cores start together,"
            f" {100 * self.apart:.2f} if each core has its own part of the L2."
        )
        by_starts = self.together < self.sigma / 4
        if self.apart < self.sigma / 4 and by_starts:
            return f"{numbers} It takes both: cores at different points of the program, and a shared L2."
        if self.apart < self.sigma / 4:
            return f"{numbers} The spread comes from sharing the L2, wherever cores start."
        if by_starts:
            return f"{numbers} The spread comes from where in the program each core starts."
        return f"{numbers} Neither alone makes the spread."


def causes(
    traces: Sequence[Trace],
    machine: Machine,
    measured: Mapping[str, Ratios],
    *,
    above: float,
    trials: int,
) -> list[Cause]:
    """A Cause for each hit ratio whose sigma exceeds `above`; without one, nothing is replayed.

    At most MOST_TRIALS trials are replayed. Sigma is then known within a fifth, which is enough: a
    source is named only if it accounts for three quarters of sigma.
    """
    trials = min(trials, MOST_TRIALS)
    sigmas = {quantity: describe(values).sigma for quantity, values in measured.items()}
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

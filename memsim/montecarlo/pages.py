"""Where the pages of a kernel's arrays lie in memory, and how much a result depends on it.

Every trial places pages at random. A launch averages over many orderings of its groups, but its pages lie where
they lie: where lines nearly fill a cache, one run of a program differs from another. A few trials are
replayed again, with other orderings of the same pages. If they differ far less than trials do, what is
left of the variance is due to the pages (analysis of variance with one factor; Snedecor's F decides), and the
interval covers a single run: +- t sqrt(share) sigma.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from memsim.hierarchy.cache import ACCESSES
from memsim.hierarchy.rng import trial_sequence
from memsim.machine.model import Machine
from memsim.montecarlo.plan import Plan
from memsim.montecarlo.trial import Workspace, prepare, run_launch
from memsim.montecarlo.workers import Call, hit_ratio

TRIALS_PER_PAIR, FEWEST_PAIRS, MOST_PAIRS = 4, 2, 4
"""One of so many trials is replayed again, until there are enough."""
SIGNIFICANCE = 0.95
OTHER_ORDERING = 1 << 31
"""Added to the number of a trial, where its ordering is another and its pages are the same."""

Counts = npt.NDArray[np.int64]


def page_calls(machine: Machine, seed: int, n_trials: int, n_places: int) -> dict[Hashable, Call]:
    """Replays of the first trials with other orderings, where pages are placed at random."""
    translation = machine.translation
    n_pairs = min(n_trials // TRIALS_PER_PAIR, MOST_PAIRS)
    if translation is None or translation.placement != "random" or n_pairs < FEWEST_PAIRS:
        return {}
    return {
        ("pages", k): Call(counts_on_same_pages, k % n_places, (seed, k)) for k in range(n_pairs)
    }


def counts_on_same_pages(plan: Plan, workspace: Workspace, seed: int, trial: int) -> Counts:
    """The counts of another ordering with the pages of a trial."""
    prepared = prepare(plan, workspace, seed, trial)
    prepared.clear(None)
    sequence = trial_sequence(seed, trial + OTHER_ORDERING)
    return run_launch(plan, workspace.queues, prepared, sequence, trial).counts


def page_shares(
    trials: Sequence[Counts],
    others: Mapping[Hashable, Any],
    loads: npt.NDArray[np.bool_],
    n_places: int,
) -> list[float]:
    """The share of the pages in the variance of each level's load hit ratio over trials of one place; 0 where it
    is not significant, or pairs are too few.

    trials : (n_level, n_site, n_count) each;  others : results of `page_calls`
    """
    done = itertools.takewhile(others.__contains__, (("pages", k) for k in range(MOST_PAIRS)))
    pairs = [others[key] for key in done]
    if len(pairs) < FEWEST_PAIRS or len(trials) < 2 * n_places:
        return [0.0] * len(trials[0])
    ratios, again = (_load_ratios(counts, loads) for counts in (trials, pairs))
    within = (again - ratios[: len(pairs)]) ** 2 / 2
    by_place = [ratios[k::n_places] for k in range(n_places)]
    squares = np.sum([((one - one.mean(axis=0)) ** 2).sum(axis=0) for one in by_place], axis=0)
    freedom = len(trials) - n_places
    limit = float(special.fdtri(freedom, len(pairs), SIGNIFICANCE))
    shares = []
    for total, ordering in zip(squares / freedom, within.mean(axis=0), strict=True):
        is_clear = np.isfinite(total) and np.isfinite(ordering) and total > limit * ordering
        shares.append(float(1 - ordering / total) if is_clear else 0.0)
    return shares


def _load_ratios(counts: Sequence[Counts], loads: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """(n_trial, n_level) hit ratio of all loads; NaN for a level that none reaches."""
    totals = np.stack([one[:, : len(loads)][:, loads].sum(axis=1) for one in counts])
    return np.where(totals[..., ACCESSES] > 0, hit_ratio(totals), np.nan)

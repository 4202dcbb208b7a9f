"""A timed launch, and what a history knows of one key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from calib.history.key import Key
from calib.history.outliers import WINDOW, outliers
from calib.history.statistics import Running, running

OWN = "measured"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One timed launch.

    size_bytes : of all its data, what regressions over the size take; 0 where unknown
    terms : the user's own quantities, name to number, what the linear regression takes
    at : when, in seconds of the Unix epoch; now where None
    """

    key: Key
    time_s: float
    size_bytes: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of one key.

    accepted : statistics of the samples that are no outliers
    seen : samples ever, rejected ones too
    recent : (up to 64,) the latest samples in seconds, oldest first, rejected ones too
    source : `measured`, or where the statistics were imported from
    """

    key: Key
    size_bytes: int
    terms: Mapping[str, float]
    accepted: Running
    seen: int
    rejected: int
    recent: npt.NDArray[np.float64]
    first_at: float
    last_at: float
    source: str = OWN

    def with_samples(self, times_s: npt.ArrayLike, first_at: float, last_at: float) -> Record:
        """With more samples, each judged against the 64 latest ones up to it.

        While the window holds all there ever was, each new sample lets the earlier ones be judged
        anew: so goes a first launch a thousand times too long, once there is something to compare.
        In what parts samples come makes no difference.
        """
        times = np.asarray(times_s, dtype=np.float64)
        together = np.concatenate([self.recent, times])
        accepted, rejected = self.accepted, self.rejected
        n_held = len(self.recent)
        n_anew = min(WINDOW - n_held, len(times)) if self.seen == n_held else 0
        if n_anew > 0:
            all_of_them = together[: n_held + n_anew]
            far = outliers(all_of_them)
            accepted, rejected = running(all_of_them[~far]), int(far.sum())
        later = times[n_anew:]
        if len(later):
            # Imported statistics may have samples that the window never held.
            width = min(WINDOW, n_held + n_anew + 1)
            windows = np.lib.stride_tricks.sliding_window_view(together, width)[-len(later) :]
            far = outliers(windows)[:, -1]
            accepted = accepted.merged(running(later[~far]))
            rejected += int(far.sum())
        return replace(
            self,
            accepted=accepted,
            seen=self.seen + len(times),
            rejected=rejected,
            recent=together[-WINDOW:],
            first_at=min(self.first_at, first_at),
            last_at=max(self.last_at, last_at),
        )

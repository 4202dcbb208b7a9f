"""A timed launch, and the statistics of one key."""

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

    size_bytes : bytes of all its data, for regressions over the size; 0 where unknown
    terms : name -> value of quantities that the user defines, for the linear regression
    at : time of the measurement in seconds of the Unix epoch; now where None
    """

    key: Key
    time_s: float
    size_bytes: int = 0
    terms: Mapping[str, float] = field(default_factory=dict)
    at: float | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """The statistics of one key.

    accepted : statistics of the samples that are not outliers
    seen : number of all samples, including rejected ones
    recent : (up to 64,) the latest samples in seconds, oldest first, including rejected ones
    source : `measured`, or the program from which the statistics were imported
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
        """The record with more samples, each compared with the 64 latest ones up to it.

        While the window contains all samples of the key, each new sample causes the earlier ones to be
        examined again. So a first launch that took a thousand times too long is rejected once there are
        samples to compare it with. The result does not depend on how samples are split into calls.
        """
        times = np.asarray(times_s, dtype=np.float64)
        together = np.concatenate([self.recent, times])
        accepted, rejected = self.accepted, self.rejected
        n_recent = len(self.recent)
        n_again = min(WINDOW - n_recent, len(times)) if self.seen == n_recent else 0
        if n_again > 0:
            every_sample = together[: n_recent + n_again]
            far = outliers(every_sample)
            accepted, rejected = running(every_sample[~far]), int(far.sum())
        later = times[n_again:]
        if len(later):
            # Imported statistics may include samples that were never in the window.
            width = min(WINDOW, n_recent + n_again + 1)
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

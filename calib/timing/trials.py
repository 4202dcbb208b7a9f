"""Times kernels on an OpenCL device in many trials, and reports outliers.

`f_cl_wall_time_<platform>_<device>` is the average of 60 trials, without transfers to and from the
host (Stevens and Klöckner 2020, section 6.1.4).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calib.timing.defaults import MOST_LAUNCHES as MOST_LAUNCHES
from calib.timing.defaults import TRIAL_S as TRIAL_S
from calib.timing.defaults import TRIALS as TRIALS
from calib.timing.defaults import Statistic as Statistic
from calib.timing.launching import prepared
from memsim.errors import MemsimError, OpenCLError

Floats = npt.NDArray[np.float64]
WARMUP = 3
"""Untimed runs; the first one builds the kernel and touches its memory for the first time."""

LEAST = 5
"""Trials that are run regardless of their duration."""

OUTLIER_DEVIATIONS = 5.0
"""A trial this many (scaled) median absolute deviations from the median is an outlier."""

FEATURE_PREFIX = "f_cl_wall_time"
_FINDING = threading.Lock()
"""Locked while a device is selected, so that concurrent callers wait for the result."""


@dataclass(frozen=True, kw_only=True)
class KernelTrials:
    """The trials of one kernel.

    seconds : (n_trial,), in the order in which they ran
    clock : "event" for the device's start and end of the launch, "host" for a kernel with several
        launches
    device : platform and device
    launches : consecutive launches per trial, whose median is the trial's time
    timed_s : the sum of all timed launches

    Raises MemsimError if a trial is not positive.
    """

    seconds: Floats
    clock: Literal["event", "host"]
    device: str
    launches: int = 1
    timed_s: float = 0.0

    def __post_init__(self) -> None:
        wrong = ~(self.seconds > 0)
        if self.seconds.size == 0 or wrong.any():
            trial = int(np.argmax(wrong)) if self.seconds.size else 0
            got = self.seconds[trial] if self.seconds.size else "none"
            raise MemsimError(f"a timing must be positive, got {got} s in trial {trial}")

    @property
    def median_s(self) -> float:
        return float(np.median(self.seconds))

    @property
    def outliers(self) -> tuple[int, ...]:
        """The trials that lie OUTLIER_DEVIATIONS scaled median absolute deviations off the
        median."""
        off = np.abs(self.seconds - self.median_s)
        # 1.4826 makes the median absolute deviation of a normal sample its standard deviation.
        deviation = max(1.4826 * float(np.median(off)), 1e-3 * self.median_s)
        return tuple(int(i) for i in np.flatnonzero(off > OUTLIER_DEVIATIONS * deviation))

    def value(self, statistic: Statistic = "median") -> float:
        """Seconds: the median or the minimum of all trials, or the mean without outliers."""
        if statistic == "minimum":
            return float(self.seconds.min())
        if statistic == "mean":
            return float(np.delete(self.seconds, self.outliers).mean())
        return self.median_s

    @property
    def half_width_s(self) -> float:
        """Half of the median's 95 % interval, from the trials' order statistics.

        The ranks are n/2 -+ 0.98 sqrt(n): a binomial count of trials below the median.
        """
        n = len(self.seconds)
        sorted_s = np.sort(self.seconds)
        reach = 0.98 * np.sqrt(n)
        low = max(int(np.floor(n / 2 - reach)), 0)
        high = min(int(np.ceil(n / 2 + reach)), n - 1)
        return float(sorted_s[high] - sorted_s[low]) / 2

    def __str__(self) -> str:
        text = f"{self.median_s:.4g} s median of {len(self.seconds)} ({self.clock} clock)"
        if self.outliers:
            named = ", ".join(f"{i}: {self.seconds[i]:.3g} s" for i in self.outliers[:8])
            more = ", ..." if len(self.outliers) > 8 else ""
            text += f"; {len(self.outliers)} outliers (trial {named}{more})"
        return text


def joined(timings: Sequence[KernelTrials]) -> KernelTrials:
    """Joins the trials of several passes over one kernel."""
    return dataclasses.replace(
        timings[0],
        seconds=np.concatenate([each.seconds for each in timings]),
        timed_s=sum(each.timed_s for each in timings),
    )


def time_kernel(
    kernel: Any,
    arguments: Mapping[str, Any],
    *,
    trials: int = TRIALS,
    warmup: int = WARMUP,
    context: Any = None,
    longest_s: float | None = None,
    least: int = LEAST,
    trial_s: float = 0.0,
) -> KernelTrials:
    """Runs a kernel `trials` times on a device.

    kernel : loopy.TranslationUnit; arguments : name -> numpy array or number, copied to the device
        once; outputs may be left out
    context : the pyopencl.Context; None selects a device by a test build
    longest_s : end after this total time, but not before `least` trials
    trial_s : approximate duration of a trial, which consists of up to MOST_LAUNCHES consecutive
        launches and takes their median; 0 for one launch per trial

    Raises KernelError if the kernel does not build or run, MemsimError if a clock returns 0.
    """
    if trials < 1:
        raise MemsimError(f"trials must be at least 1, got {trials}")
    if not 0 <= trial_s < math.inf:
        raise MemsimError(f"trial_s must be finite and not negative, got {trial_s}")
    return _Run(kernel, arguments, context).timing(trials, warmup, longest_s, least, trial_s)


def feature_name(device: str = "") -> str:
    """`f_cl_wall_time_<platform>_<device>` for a device specified as in `find_context`."""
    with _FINDING:
        candidate = _candidate(device)
    return f"{FEATURE_PREFIX}_{_word(candidate.platform)}_{_word(candidate.device)}"


def feature_context(feature: str) -> Any:
    """The context that a wall-time feature names; `f_cl_wall_time` alone means the default device.

    Its words are searched in the names of platforms and devices. Raises OpenCLError if no device
    matches.
    """
    if feature != FEATURE_PREFIX and not feature.startswith(FEATURE_PREFIX + "_"):
        raise MemsimError(f"a wall time is {FEATURE_PREFIX}_<platform>_<device>, got {feature}")
    words = feature.removeprefix(FEATURE_PREFIX).strip("_")
    if not words:
        return find_context("")
    platform, _, device = words.partition("_")
    return find_context(f"{platform}:{device}" if device else platform)


def find_context(wanted: str = "") -> Any:
    """The context of the device `platform`, `platform:device` or "" (the first that passes its
    trial).

    A device is specified by a part of its name, of which only letters and digits count, or by its
    number.
    """
    with _FINDING:
        return _context(_candidate(wanted).key)


def look_ahead(wanted: str = "") -> None:
    """Starts `find_context`, whose trial runs in a separate process, in the background.

    The result is cached for later calls; an error is raised by them.
    """

    def look() -> None:
        with contextlib.suppress(MemsimError):
            find_context(wanted)

    threading.Thread(target=look, daemon=True).start()


def device_title(context: Any) -> str:
    """The names of a context's platform and device."""
    device = context.devices[0]
    return f"{device.platform.name.strip()}: {device.name.strip()}"


def is_gpu(context: Any) -> bool:
    """Whether a context's device is a GPU."""
    import pyopencl as cl

    return bool(context.devices[0].type & cl.device_type.GPU)


def driver(context: Any) -> str:
    """The versions of the platform and of the driver."""
    device = context.devices[0]
    return f"{device.platform.version.strip()}, driver {device.driver_version.strip()}"


@functools.cache
def _context(key: tuple[int, int]) -> Any:
    import pyopencl as cl

    from tracegen.devices import choose, chosen

    if chosen().key == key:
        return choose()
    return cl.Context([cl.get_platforms()[key[0]].get_devices()[key[1]]])


@functools.cache
def _candidate(wanted: str) -> Any:
    from tracegen.devices import chosen, survey

    if not wanted:
        return chosen()
    if _names(wanted, chosen()):  # no need to test all devices
        return chosen()
    candidates = survey()
    matching = [candidate for candidate in candidates if _names(wanted, candidate)]
    working = [candidate for candidate in matching if candidate.ok]
    if working:
        return working[0]
    if matching:
        raise OpenCLError(f"{matching[0].title} does not work: {matching[0].reason}")
    names = ", ".join(dict.fromkeys(c.title for c in candidates))
    raise OpenCLError(f"no OpenCL device is named {wanted}: there are {names or 'none'}")


def _names(wanted: str, candidate: Any) -> bool:
    platform, _, part = (_word(text) for text in wanted.partition(":"))
    title = _word(f"{candidate.platform} {candidate.platform_version}")
    device = _word(candidate.device)
    return platform in title and (part in device or part == str(candidate.device_index))


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


class _Run:
    """A kernel built for a device, with its arguments in device memory."""

    def __init__(self, kernel: Any, arguments: Mapping[str, Any], context: Any) -> None:
        import pyopencl as cl

        self.context = context if context is not None else find_context()
        self.queue = cl.CommandQueue(
            self.context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )
        self.kernel = prepared(kernel, self.context)
        self.one_launch = False
        self.arguments = {
            name: self._on_device(value) if isinstance(value, np.ndarray) else value
            for name, value in arguments.items()
        }

    def timing(
        self, trials: int, warmup: int, longest_s: float | None, least: int, trial_s: float
    ) -> KernelTrials:
        from tracegen.workloads import as_kernel_error

        with as_kernel_error(self.kernel.name):
            self._first()
            untimed = max(warmup - 1, 1 if trial_s else 0)
            warm = [self._launched(1)[0] for _ in range(untimed)]
            launches = 1
            if trial_s:
                launches = min(math.ceil(trial_s / max(min(warm), 1e-9)), MOST_LAUNCHES)
            seconds: list[float] = []
            timed_s = 0.0
            while len(seconds) < trials:
                each = self._launched(launches)
                seconds.append(float(np.median(each)))
                timed_s += sum(each)
                enough = longest_s is not None and timed_s > longest_s
                if enough and len(seconds) >= min(least, trials):
                    break
        return KernelTrials(
            seconds=np.array(seconds),
            clock="event" if self.one_launch else "host",
            device=device_title(self.context),
            launches=launches,
            timed_s=timed_s,
        )

    def _first(self) -> None:
        """The run that builds; the outputs that Loopy allocates are reused by later runs."""
        _, outputs = self.kernel.run(self.queue, self.arguments)
        self.queue.finish()
        self.one_launch = self.kernel.one_launch(self.arguments)
        for name, value in outputs.items():
            self.arguments.setdefault(name, value)

    def _launched(self, count: int) -> list[float]:
        """Seconds of each of several consecutive launches."""
        if self.one_launch:
            events = [self.kernel.run(self.queue, self.arguments)[0] for _ in range(count)]
            events[-1].wait()
            return [float(e.profile.end - e.profile.start) * 1e-9 for e in events]
        seconds = []
        for _ in range(count):
            self.queue.finish()
            start = time.perf_counter()
            self.kernel.run(self.queue, self.arguments)
            self.queue.finish()
            seconds.append(time.perf_counter() - start)
        return seconds

    def _on_device(self, array: npt.NDArray[Any]) -> Any:
        import pyopencl.array as cl_array

        return cl_array.to_device(self.queue, array)

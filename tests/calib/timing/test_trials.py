"""Timings: outliers, statistics, and that more work takes longer on a device's clock."""

from __future__ import annotations

import numpy as np
import pytest

from calib.kernels import ALL_GENERATORS, KernelCollection
from calib.timing import trials as timing
from calib.timing.trials import KernelTrials, time_kernel
from memsim.errors import MemsimError, OpenCLError
from tests.support.loopy_kernels import two_launches

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")


def trials(*seconds: float) -> KernelTrials:
    return KernelTrials(seconds=np.array(seconds), clock="host", device="none")


def test_an_outlier_is_reported_and_kept() -> None:
    timed = trials(1.0, 1.01, 0.99, 1.02, 0.98, 10.0, 1.0)
    assert timed.outliers == (5,)
    assert len(timed.seconds) == 7
    assert "trial 5: 10 s" in str(timed)
    assert timed.value("mean") == pytest.approx(1.0)
    assert timed.value("median") == 1.0
    assert timed.value("minimum") == 0.98


def test_both_sides_of_the_outliers_bound() -> None:
    spread = [1.0 + 0.01 * k for k in range(-5, 6)]  # median 1, median deviation 0.03
    bound = 5 * 1.4826 * 0.03
    assert trials(*spread, 1 - bound * 0.99, 1 + bound * 0.99).outliers == ()
    assert trials(*spread, 1 - bound * 1.5, 1 + bound * 1.5).outliers == (11, 12)
    # Trials that agree to a thousandth have none.
    assert trials(1.0, 1.0, 1.0, 1.004).outliers == ()
    assert trials(1.0, 1.0, 1.0, 1.006).outliers == (3,)


def test_the_interval_of_the_median_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(0)
    inside, rounds, n = 0, 400, 60
    for _ in range(rounds):
        seconds = np.sort(1 + rng.exponential(0.1, n))
        low = int(np.floor(n / 2 - 0.98 * np.sqrt(n)))
        high = int(np.ceil(n / 2 + 0.98 * np.sqrt(n)))
        timed = trials(*seconds)
        assert timed.half_width_s == pytest.approx((seconds[high] - seconds[low]) / 2)
        inside += seconds[low] <= 1 + 0.1 * np.log(2) <= seconds[high]
    # The ranks are whole numbers, so the interval is 95 % or a little more.
    assert inside / rounds > 0.95 - 5 * np.sqrt(0.95 * 0.05 / rounds)
    assert inside / rounds < 0.995


@pytest.mark.parametrize("seconds", [(1.0, 0.0), (1.0, -1.0), (float("nan"),), ()])
def test_impossible_times_are_refused(seconds: tuple[float, ...]) -> None:
    with pytest.raises(MemsimError, match="a timing must be positive"):
        trials(*seconds)


def kernels(*tags: str) -> list:
    return KernelCollection(ALL_GENERATORS).generate_kernels(tags)


def test_eight_times_the_work_takes_longer() -> None:
    """Even on a busy machine: the minimum of more and more trials approaches the undisturbed
    time."""
    pair = kernels("flops_madd_pattern", "dtype:float32", "nelements:8192", "m:32,256")
    least = [np.inf, np.inf]
    for _ in range(30):
        for k, kernel in enumerate(pair):
            timed = time_kernel(kernel.kernel, kernel.arguments(), trials=5)
            least[k] = min(least[k], timed.value("minimum"))
        if 4 < least[1] / least[0] < 16:  # 8 without overheads
            return
    pytest.fail(f"8 times the work took {least[1] / least[0]:.1f} times as long")


def test_a_kernel_of_one_launch_is_timed_by_the_device_and_one_of_two_by_the_host() -> None:
    (kernel,) = kernels("axpy", "dtype:float32", "n:65536", "groups_fit:True")
    timed = time_kernel(kernel.kernel, kernel.arguments(), trials=5, warmup=1)
    assert timed.clock == "event"
    assert len(timed.seconds) == 5
    assert timed.device
    early = time_kernel(kernel.kernel, kernel.arguments(), trials=60, longest_s=1e-9)
    assert len(early.seconds) == 5, "an early end keeps five trials"
    two = two_launches(64)
    assert time_kernel(two.kernel, two.arguments, trials=3).clock == "host"


def test_a_trial_has_launches_for_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fake times of 3 ms, and 30 ms for every fourth launch: seven fill 20 ms; their median is 3
    ms."""
    given = iter(np.where(np.arange(1, 10_000) % 4, 0.003, 0.030).tolist())
    result = []

    def launched(self: object, count: int) -> list[float]:
        result.append(count)
        return [next(given) for _ in range(count)]

    monkeypatch.setattr(timing._Run, "_launched", launched)
    (kernel,) = kernels("axpy", "dtype:float32", "n:65536", "groups_fit:True")
    timed = time_kernel(kernel.kernel, kernel.arguments(), trials=10, trial_s=0.02)
    assert result == [1, 1] + [7] * 10
    assert timed.launches == 7
    assert set(timed.seconds) == {0.003}
    assert timed.timed_s == pytest.approx(70 * 0.003 + 18 * 0.027)  # launches 3 to 72


def test_the_launches_of_a_trial_are_limited() -> None:
    (kernel,) = kernels("empty_kernel", "n_groups:1")
    timed = time_kernel(kernel.kernel, kernel.arguments(), trials=2, trial_s=10.0)
    assert timed.launches == timing.MOST_LAUNCHES
    assert len(timed.seconds) == 2
    assert timed.timed_s >= timing.MOST_LAUNCHES * timed.seconds.min() / 2


def test_the_feature_of_a_device_selects_that_device() -> None:
    name = timing.feature_name()
    assert name.startswith("f_cl_wall_time_")
    chosen = timing.find_context()
    assert timing.feature_context(name).devices == chosen.devices


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(OpenCLError, match="no OpenCL device is named nosuch:thing"):
        timing.find_context("nosuch:thing")
    with pytest.raises(MemsimError, match="f_cl_wall_time_"):
        timing.feature_context("f_op_float32_add")


def test_numbers_and_durations_of_trials_out_of_range_are_refused() -> None:
    with pytest.raises(MemsimError, match="at least 1"):
        time_kernel(None, {}, trials=0)
    for trial_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(MemsimError, match="trial_s must be finite and not negative"):
            time_kernel(None, {}, trial_s=trial_s)

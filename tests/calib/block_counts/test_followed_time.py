"""Times followed to sizes that never ran: by hand, and beside the prediction made at that size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from calib.block_counts.hit_ratio_trend import SmallSize, followed_time
from memsim.errors import MemsimError
from tests.support.command_line import RunMemsim

KERNEL = """
import loopy as lp
import numpy as np
from tracegen import Workload


def doubled(n: int = 262144):
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}", "out[i] = 2*a[i]", [lp.GlobalArg("out, a", np.float32, shape="n"), ...],
        name="doubled", assumptions="n % 128 = 0 and n > 0", lang_version=(2018, 2)
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return Workload(kernel, {"a": np.ones(n, np.float32), "n": n})


def gather(n: int = 262144):
    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < top}"],
        "<> top = m[i]\\n out[i] = sum(j, a[j])",
        [lp.GlobalArg("a", np.float32, shape="n"), ...], name="gather", lang_version=(2018, 2)
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    m = np.random.default_rng(n).integers(0, 9, n, dtype=np.int32)
    return Workload(kernel, {"a": np.ones(n, np.float32), "m": m})
"""
OPTIONS = ("-m", "v100", "--trials", "2", "--jobs", "1")


def small(cycle_s: list[float], half_width_s: float = 0.0) -> list[SmallSize]:
    return [
        SmallSize(size=2.0**k, seconds=t * 10, half_width_s=half_width_s, busy_cycles=10.0)
        for k, t in enumerate(cycle_s, 5)
    ]


def test_an_exact_line_is_extrapolated_with_an_interval_of_width_0() -> None:
    time = followed_time(small([1.0, 1.25, 1.5, 1.75]), 2.0**10, 100.0)
    assert time.seconds == pytest.approx(225.0)
    assert (time.low_s, time.high_s) == pytest.approx((225.0, 225.0))
    assert "was not replayed" in time.warning
    assert followed_time(small([1.0, 1.25, 1.5, 1.75]), 2.0**6, 100.0).warning == ""
    with pytest.raises(MemsimError, match="at least 4 sizes, got 3"):
        followed_time(small([1.0, 1.0, 1.0]), 2.0**10, 1.0)


def test_the_interval_combines_students_and_that_of_the_orderings() -> None:
    times = [1.0, 1.1, 0.9, 1.05, 0.95]
    time = followed_time(small(times, half_width_s=3.0), 2.0**10, 1.0)
    x = np.arange(5, 10.0)
    line = stats.linregress(x, times)
    left = np.array(times) - (line.intercept + line.slope * x)
    spread = np.sqrt((left**2).sum() / 3 * (1 + 1 / 5 + (10 - 7) ** 2 / 10.0))
    assert time.seconds == pytest.approx(line.intercept + 10 * line.slope)
    half = np.hypot(stats.t.ppf(0.975, 3) * spread, 0.3)
    assert time.high_s - time.seconds == pytest.approx(half)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNEL)
    return path


def test_the_extrapolated_time_agrees_with_a_prediction_at_that_size(
    run_memsim: RunMemsim, file: Path
) -> None:
    # Beyond 2 MiB entries all data are larger than L2, so that nothing breaks in between.
    size = ("--set", "n=33554432")
    follow = ("--follow", "n=2097152:16777216")
    ended = run_memsim("predict", f"{file}:doubled", *OPTIONS, *size, *follow, "--json", "-")
    document = json.loads(ended.out)
    assert [one["size"] for one in document["small"]] == [2**k for k in (21, 22, 23, 24)]
    there = run_memsim("predict", f"{file}:doubled", *OPTIONS, *size, "--json", "-")
    seconds = json.loads(there.out)["time_s"]["mean"]
    followed = document["followed"]
    assert followed["low_s"] <= seconds <= followed["high_s"]
    assert followed["seconds"] == pytest.approx(seconds, rel=0.1)


def test_sizes_that_do_not_fill_the_machine_are_left_out(run_memsim: RunMemsim, file: Path) -> None:
    # 1024 groups do not fill 80 cores that hold 16 each.
    arguments = ("--set", "n=4194304", "--follow", "n=131072:2097152")
    ended = run_memsim("predict", f"{file}:doubled", *OPTIONS, *arguments)
    assert "do not fill the machine: 131072\n" in ended.out
    assert "n=131072:" not in ended.out
    assert "n=262144:" in ended.out


@pytest.mark.parametrize(
    ("kernel", "arguments", "culprit"),
    [
        ("doubled", ("--follow", "n=131072:2097152"), "give it with --set"),
        ("doubled", ("--set", "n=16777216", "--follow", "n=2"), "NAME=LOW:HIGH"),
        ("doubled", ("--set", "n=16777216", "--follow", "n=131072:262144"), "at least 4 are needed"),
        ("doubled", ("--set", "n=16777216", "--follow", "n=1024:8192"), "choose larger ones"),
        ("doubled", ("--set", "n=16777216", "--follow", "n=131072:2097152", "--html", "x.html"), "--html cannot be combined with --follow"),
        ("gather", ("--set", "n=16777216", "--follow", "n=131072:1048576"), "does not follow from small sizes"),
    ],
)  # fmt: skip
def test_kernels_that_cannot_be_extrapolated_are_refused(
    run_memsim: RunMemsim,
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: str,
    arguments: tuple[str, ...],
    culprit: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert culprit in run_memsim.refused("predict", f"{file}:{kernel}", *OPTIONS, *arguments)
    assert {path.name for path in tmp_path.iterdir()} <= {file.name, "__pycache__"}

"""Every shipped machine replays and predicts: what a copy moves, and the least time that it takes."""

from __future__ import annotations

import functools

import loopy as lp
import numpy as np
import pytest

import memsim
import tracegen
from calib.prediction.prediction import predict
from memsim.machine.file import load_machine, machine_names

N_ITEMS = 1 << 14


@functools.cache
def copy() -> tracegen.Workload:
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2 * a[i]", lang_version=(2018, 2))
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return tracegen.Workload(kernel, {"a": np.ones(N_ITEMS, np.float32)})


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", machine_names())
def test_a_copy(name: str) -> None:
    """64 KiB are a whole number of lines and fills of every machine, and a fetch brings each byte once."""
    machine = load_machine(name)
    trace = tracegen.trace(copy(), machine, groups=N_ITEMS // 128)
    replay = memsim.replay(trace, machine, trials=2, jobs=1)
    n_bytes = 4 * N_ITEMS
    assert list(replay.level_names) == [level.name for level in machine.levels]
    for level in replay.level_names:
        read = replay.dataset["read_bytes"].sel(level=level, site="a[i]")
        assert (read == n_bytes).all(), level
    assert (replay.dataset["dram_read_bytes"] >= n_bytes).all()

    timing = predict([trace], machine, replay=replay, trials=2).timing
    least_s = n_bytes / machine.dram.bandwidth_bytes_per_cycle / machine.clock_hz
    assert timing.estimate.mean >= least_s
    assert timing.estimate.mean < 1e-3

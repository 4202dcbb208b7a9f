"""The command and Python take the same options of a prediction, with the same defaults and rules."""

from __future__ import annotations

from typing import Any

import pytest

import calib
from calib.prediction.options import PredictOptions
from memsim.errors import MemsimError


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("trials", 0, "trials must be at least 1 and at most 1000000, got 0"),
        ("seed", -1, "seed must be at least 0 and at most 9223372036854775807, got -1"),
        ("mode", "real", "mode must be one of simulated, paper, got 'real'"),
        ("registers", 0, "registers must be at least 1, got 0"),
        ("lattency", "slowest", "there is no option 'lattency'; did you mean 'latency'"),
    ],
)
def test_python_refuses_what_the_command_refuses(name: str, value: Any, rule: str) -> None:
    with pytest.raises(MemsimError, match=rule):
        calib.predict([], None, **{name: value})  # type: ignore[arg-type]


def test_a_mode_without_caches_has_no_warm_ones() -> None:
    with pytest.raises(MemsimError, match="in mode paper there are no caches"):
        PredictOptions(warm=True, mode="paper")

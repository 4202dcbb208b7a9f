"""Names of kernels that no file of a driver's cache can have: PoCL ends the process there."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest

import tracegen
from calib.advice.trial import outputs_of
from calib.advice.variants import Variant
from tests.support.compilers import needs_nvidia
from tracegen.devices import choose
from tracegen.devices.program import MOST_LETTERS
from tracegen.executed.on_device import device_outputs

TEXT = """
kernel void NAME(global const float *a, global float *b) {
  int i = get_global_id(0);
  if (i < 40) b[i] = 2 * a[i];
}
"""


@needs_nvidia
@pytest.mark.parametrize("letters", [MOST_LETTERS, MOST_LETTERS + 1])
def test_a_long_name_in_opencl_c(letters: int) -> None:
    def workload(name: str) -> tracegen.OpenCLWorkload:
        arrays = [np.ones(64, np.float32), np.zeros(64, np.float32)]
        return tracegen.OpenCLWorkload(
            source=TEXT.replace("NAME", name), arguments=arrays, global_size=64, local_size=32
        )

    name = "k" * letters
    trace, short = tracegen.trace(workload(name)), tracegen.trace(workload("k"))
    np.testing.assert_array_equal(trace.granule, short.granule)
    outputs = device_outputs(workload(name), choose())
    np.testing.assert_array_equal(outputs["b"], [2] * 40 + [0] * 24)


def test_a_long_name_in_loopy() -> None:
    unit = lp.make_kernel(
        "{[i]: 0<=i<64}", "b[i] = 2 * a[i]", name="k" * 500, lang_version=(2018, 2)
    )
    given = tracegen.Workload(
        lp.add_dtypes(unit, {"a": np.float32}), {"a": np.ones(64, np.float32)}
    )
    np.testing.assert_array_equal(outputs_of(Variant(workload=given))["b"], np.full(64, 2))
    trace = tracegen.trace(given, tracer="instrumented")
    assert trace.launch.kernel == "k" * 500

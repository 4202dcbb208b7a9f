"""What compilers call a device, from what its OpenCL driver reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calib.probes.device import compiler_target


@pytest.mark.parametrize(
    ("device", "target"),
    [
        ({"name": "gfx90a:sramecc+:xnack-", "extensions": "cl_khr_fp64"}, "gfx90a"),
        ({"name": "pthread-haswell", "extensions": "cl_khr_fp64"}, ""),
        (
            {
                "name": "Tesla V100-PCIE-16GB",
                "extensions": "cl_khr_fp64 cl_nv_device_attribute_query",
                "compute_capability_major_nv": 7,
                "compute_capability_minor_nv": 0,
            },
            "sm_70",
        ),
    ],
)
def test_compiler_target(device: dict[str, Any], target: str) -> None:
    assert compiler_target(SimpleNamespace(**device)) == target

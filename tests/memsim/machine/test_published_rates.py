"""Machine files against data sheets: cores, lanes and clock must give the listed peak rates together."""

from __future__ import annotations

import re

import pytest

from memsim.machine import load_machine
from memsim.machine.file import machine_names

ROUNDED = 0.005
"""Data sheets give three digits."""
PEAK = re.compile(r"(NVIDIA|AMD) .*: ([\d.]+) T(?:FL)?OP/s.*?(?:at (\d+) MHz)?")
PUBLISHED = {
    # name: (fp32 TFLOP/s, fp64 TFLOP/s or None, GB/s); vendors' data sheets
    "a100": (19.5, 9.7, 2039),  # SXM, 80 GB
    "a6000": (38.7, None, 768),
    "arc_b580": (13.67, None, 456),
    "b300": (77.0, None, 8000),
    "h100": (67, 33.5, 3350),  # SXM
    "h200": (67, 33.5, 4800),  # SXM
    "k40c": (4.29, 1.43, 288.4),
    "l4": (30.3, None, 300),
    "l40s": (91.6, None, 864),
    "max1550": (52.4 / 2, 52.4 / 2, 3276.8 / 2),  # one of two stacks
    "mi210": (22.6, 22.6, 1638.4),
    "mi250x": (47.9 / 2, 47.9 / 2, 3276.8 / 2),  # one of two dies
    "mi300a": (122.6, 61.3, 5300),
    "mi300x": (163.4, 81.7, 5300),
    "mi355x": (157.3, 78.6, 8000),
    "r9_fury": (7.17, 0.448, 512),
    "rtx2080ti": (13.45, None, 616),
    "rtx3080": (29.77, None, 760.3),
    "rtx3090": (35.6, None, 936),
    "rtx4090": (82.6, 1.29, 1008),
    "rtx5090": (104.8, 1.64, 1792),
    "rtxpro6000": (110, None, 1792),  # Max-Q
    "rx9070xt": (48.7 / 2, None, 640),  # without dual issue
    "t4": (8.14, None, 320),
    "titan_v": (14.9, 7.45, 652.8),
    "v100": (14.1, 7.07, 898),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_peak_rates_are_those_of_the_data_sheet(name: str) -> None:
    machine = load_machine(name)
    lanes_hz = machine.n_cores * machine.clock_hz
    fp32, fp64, gigabytes = PUBLISHED[name]
    assert 2e-12 * machine.throughputs["fp32_fma"] * lanes_hz == pytest.approx(fp32, rel=ROUNDED)
    if fp64 is not None:
        rate = 2e-12 * machine.throughputs["fp64_fma"] * lanes_hz
        assert rate == pytest.approx(fp64, rel=ROUNDED)
    bytes_per_s = machine.dram.bandwidth_bytes_per_cycle * machine.clock_hz
    assert 1e-9 * bytes_per_s == pytest.approx(gigabytes, rel=ROUNDED)


@pytest.mark.parametrize("name", machine_names())
def test_rates_of_matrix_instructions_are_the_peaks_that_their_sources_name(name: str) -> None:
    machine = load_machine(name)
    for rate, each in machine.throughputs.items():
        peak = PEAK.fullmatch(machine.sources[f"throughputs.{rate}"])
        if peak and rate.startswith(("tensor_", "wgmma_")):
            clock_hz = 1e6 * float(peak[3]) if peak[3] else machine.clock_hz
            found = 2e-12 * each * machine.n_cores * clock_hz
            assert found == pytest.approx(float(peak[2]), rel=0.015), rate  # L40S: 1.2 %

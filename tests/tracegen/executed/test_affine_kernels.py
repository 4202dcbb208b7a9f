"""Affine Loopy kernels: what the machine code of a whole launch requests is what the polyhedral tracer derives.

NVIDIA's compiler keeps every access of these kernels, as wide as the source has it, at sm_75; so each sub-group requests
the same bytes of the same granules, as often. A difference would be an instruction to be named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tests.tracegen.polyhedral.test_polyhedral_experiments import BUILDERS

SIZES: Mapping[str, Mapping[str, int]] = {
    "black_scholes.black_scholes": {"n": 4000, "groups": 4},
    "fft.fft": {"n": 256, "batch": 2},
    "lattice_boltzmann.d3q19": {"ny": 4, "nz": 3},
    "matmul.naive": {"n": 40},
    "matmul.tiled": {"n": 40},
    "matmul_volkov.volkov": {"n": 64},
    "polybench.factorisations.gramschmidt": {"n": 6},
    "polybench.factorisations.lu": {"n": 6},
    "polybench.moments.covariance": {"m": 40, "n": 30},
    "polybench.products.doitgen": {"nr": 2, "nq": 20, "np_": 40},
    "polybench.products.gemm": {"ni": 40, "nj": 40, "nk": 30},
    "polybench.products.syrk": {"n": 40, "m": 30},
    "polybench.products.two_mm": {"ni": 40, "nj": 40, "nk": 30, "nl": 20},
    "polybench.vectors.atax": {"nx": 70, "ny": 50},
    "polybench.vectors.bicg": {"nx": 70, "ny": 50},
    "polybench.vectors.gesummv": {"n": 70},
    "polybench.vectors.mvt": {"n": 70},
    "rodinia.elimination.gaussian": {"n": 6},
    "rodinia.elimination.lud": {"n": 32},
    "rodinia.paths.nw": {"n": 32},
    "rodinia.paths.pathfinder": {"rows": 41, "cols": 400},
    "stencil.stencil7": {"nx": 70, "ny": 9, "nz": 4},
    "stream.copy": {"n": 1000, "stride": 3},
    "stream.triad": {"n": 1000},
    "transpose.naive": {"n": 41},
    "transpose.tiled": {"n": 41},
}
FAST = ("stream.triad", "matmul.tiled", "polybench.vectors.atax")


def requests(trace: Trace) -> dict[tuple[str, str], Any]:
    """(direction, array) -> requests of granules, and those of each sub-group with their bytes."""
    lengths = np.diff(trace.granule_offset)
    subgroup = np.repeat(np.arange(trace.n_subgroup), np.diff(trace.subgroup_offset))
    site, subgroup = np.repeat(trace.site, lengths), np.repeat(subgroup, lengths)
    found: dict[tuple[str, str], Any] = {}
    for key in {(one.direction, one.array) for one in trace.sites}:
        sites = [k for k, one in enumerate(trace.sites) if (one.direction, one.array) == key]
        own = np.isin(site, sites)
        base = next(one.base_bytes for one in trace.arrays if one.name == key[1]) // 32
        granules, at = np.unique(
            subgroup[own] << 40 | (np.asarray(trace.granule)[own] - base), return_inverse=True
        )
        masks = np.zeros(len(granules), np.uint32)
        np.bitwise_or.at(masks, at, np.asarray(trace.byte_mask)[own])
        if own.any():
            found[key] = int(own.sum()), granules.tolist(), masks.tolist()
    return found


@pytest.mark.weekly(3)
@needs_nvidia
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in SIZES]
)
def test_the_machine_code_requests_what_the_schedule_says(name: str) -> None:
    ours, theirs = (
        tracegen.trace_launches(BUILDERS[name](**SIZES[name]), tracer=tracer)
        for tracer in ("machine", "polyhedral")
    )
    assert len(ours) == len(theirs) > 0
    for executed, derived in zip(ours, theirs, strict=True):
        assert requests(executed) == requests(derived)

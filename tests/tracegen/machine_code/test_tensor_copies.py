"""Copies of tiles by NVIDIA's unit for them: values against NumPy, accesses against counts by hand, waits as the code states them."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from calib.prediction.basic_blocks_trace import blocks_from_trace
from memsim.errors import KernelError
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = needs_nvidia
TEXT = Path(__file__).parent / "tensor_copies.cu"
TARGETS = {"h100": "sm_90", "b200": "sm_100", "rtx5090": "sm_120"}


def workload(kernel: str, arguments: dict[str, Any], check: Any, **launch: Any) -> Any:
    launch = {"grid": 1, "block": 128, **launch}
    return tracegen.CudaWorkload(
        path=TEXT, kernel=kernel, arguments=arguments, check=check, **launch
    )


def is_right(made: Any, machine: str = "h100") -> None:
    assert "own check" in checked(made, memsim.load_machine(machine), TraceOptions())


def sectors(trace: Trace) -> Counter[tuple[str, str]]:
    """By direction and array."""
    found: Counter[tuple[str, str]] = Counter()
    counts = np.diff(trace.granule_offset)
    for site, count in zip(trace.site.tolist(), counts.tolist(), strict=True):
        if site >= 0:
            found[trace.sites[site].direction, trace.sites[site].array] += count
    return found


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", TARGETS)
def test_bytes_that_follow_each_other(machine: str) -> None:
    """Half of 1000 numbers, written once and added three times. A prefetch has the sectors of a load of its first block."""
    x = np.random.default_rng(0).random(3000).astype(np.float32)
    arguments = {"in": x, "out": np.zeros_like(x), "n": 1000}

    def check(outputs: Any) -> None:
        np.testing.assert_array_equal(outputs["out"], 2 * x)

    made = workload("doubled", arguments, check, grid=3, shared_bytes=4000)
    is_right(made, machine)
    trace = tracegen.trace(made, machine)
    assert sectors(trace) == {
        ("load", "in"): 3 * 125 * 2,
        ("store", "out"): 375,
        ("atomic", "out"): 3 * 375,
    }
    loads = [site for site in trace.sites if site.direction == "load"]
    assert all(site.bypasses_l1 for site in loads)


@pytest.mark.parametrize("swizzle", [None, "32B", "64B", "128B"])
def test_tiles_of_two_axes(swizzle: str | None) -> None:
    """A tile partly outside: zeros there, and sectors of what is inside. Parts of 16 bytes change places as the CUDA C++
    Programming Guide says: with 128 bytes, part j of row i is at j xor i % 8; shorter rows share 128 bytes."""
    x = np.random.default_rng(1).integers(1, 1 << 15, (40, 128)).astype(np.int16)
    columns = int((swizzle or "128B")[:-1]) // 2
    corner, wanted = (128 - columns // 2, 30), np.zeros((16, columns), np.int16)
    wanted[:10, : columns // 2] = x[30:, corner[0] :]
    flat = wanted.reshape(-1, 8)
    turned, mask = flat.copy(), {None: 0, "32B": 1, "64B": 3, "128B": 7}[swizzle]
    for part in range(len(flat)):
        turned[part ^ (part >> 3 & mask)] = flat[part]

    def check(outputs: Any) -> None:
        np.testing.assert_array_equal(outputs["out"].view(np.int16).reshape(-1, 8), turned)

    tile_map, size = tracegen.tensor_map(x, (16, columns), swizzle=swizzle), wanted.nbytes
    arguments = {"map": tile_map, "out": np.zeros(size, np.uint8), "bytes": size}
    arguments |= {"x": corner[0], "y": corner[1]}
    made = workload("tile", arguments, check, shared_bytes=size)
    is_right(made)
    trace = tracegen.trace(made, "h100")
    # Each of 10 rows begins inside a sector where half a row is 16 bytes.
    assert sectors(trace)["load", "map.elements"] == 10 * -(-columns // 32)
    lines = TEXT.read_text().splitlines()
    assert "SHARED(to)" in lines[trace.sites[0].source.user_line - 1]


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", TARGETS)
def test_boxes_of_three_axes_are_read_written_and_reduced(machine: str) -> None:
    """Each second plane, and of each of its rows every element; a map in memory, and one among the parameters."""
    rng = np.random.default_rng(2)
    x = rng.integers(-99, 99, (16, 10, 20)).astype(np.int32)
    y = rng.integers(-99, 99, (16, 10, 20)).astype(np.int32)
    box, steps = (7, 8, 16), (2, 1, 1)
    maps = [tracegen.tensor_map(one, box, element_strides=steps) for one in (x, y)]
    part = np.zeros((4, 8, 16), np.int32)
    part[:, :6, :12] = x[5:12:2, 4:, 8:]
    wanted = y.copy()
    wanted[5:12:2, 4:, 8:] = part[:, :6, :12]
    wanted[0:7:2, :8, :16] = np.maximum(wanted[0:7:2, :8, :16], part)

    def check(outputs: Any) -> None:
        (found,) = [one for name, one in outputs.items() if name == "to.elements"]
        np.testing.assert_array_equal(found, wanted)

    arguments = {"from": np.array([maps[0]]), "to": maps[1], "x": 8, "y": 4, "z": 5}
    is_right(workload("boxes", arguments, check), machine)


def matrices(m: int, n: int, k: int) -> Any:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (n, k)))
    short = [(one.view(np.uint32) >> 16).astype(np.uint16) for one in (a, b)]
    maps = [
        tracegen.tensor_map(one, (rows, 64), swizzle="128B", dtype="bfloat16")
        for one, rows in zip(short, (64, 8), strict=True)
    ]

    def check(outputs: Any) -> None:
        np.testing.assert_array_equal(outputs["c"], a @ b.T)

    arguments = {"a": maps[0], "b": maps[1], "c": np.zeros((m, n), np.float32), "n": n, "k": k}
    return workload("product", arguments, check, grid=(n // 8, m // 64), block=160)


def test_a_product_of_matrices_whose_tiles_are_copied_ahead() -> None:
    """Each tile of A is read once for each column of tiles. All five warps have a part of each; those that multiply wait for the
    older one of two stages while the other is on its way."""
    m, n, k = 128, 16, 512
    made = matrices(m, n, k)
    is_right(made)
    trace = tracegen.trace(made, "h100")
    found = sectors(trace)
    assert found["load", "a.elements"] == m * k * 2 // 32 * (n // 8)
    assert found["load", "b.elements"] == n * k * 2 // 32 * (m // 64)
    # Before the copies of tile t are started, those of tile t - 2 have come, and those of tile t - 1 have not been waited for:
    # of the warps that multiply and of the one that copies. Before each but the first two all are in step.
    kinds = np.array(["l" if site.direction == "load" else "s" for site in trace.sites] + ["b"])
    for subgroup in range(5):
        begin, end = trace.subgroup_offset[subgroup : subgroup + 2]
        found = "".join(kinds[trace.site[begin:end]])
        assert found.rstrip("s") == "bllll" + "bll" * (k // 64 - 2)
        # Tile t is accesses 3 t - 1 and 3 t, the first two 1 to 4; the barrier before tile t knows that t - 2 has come.
        barriers = [k for k in range(int(end - begin)) if found[k : k + 2] == "bl"][1:]
        ends = [2, 4, *(3 * t + 1 for t in range(2, k // 64))]
        assert trace.waits[begin:end][barriers].tolist() == ends[: len(barriers)]
    assert max(block.lag for block in blocks_from_trace(trace).blocks) >= 1


def test_warps_that_copy_and_warps_that_multiply_have_paths_of_their_own() -> None:
    """Products of 130 tiles, by four of five warps: what one of the four does must not be counted five times."""
    k = 130 * 64
    program = blocks_from_trace(tracegen.trace(matrices(64, 8, k), "h100"))
    assert len(program.paths) == 5
    done = sum(
        program.blocks[step].operations.get("issued_wgmma_bf16_f32", 0)
        for step in itertools.chain.from_iterable(program.paths)
    )
    assert done == pytest.approx(64 * 8 * k / 32)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"box": (16, 33)}, "a row of the box must be a multiple of 16 bytes, got 132"),
        ({"box": (16, 64), "swizzle": "128B"}, "a row of the box may have 128 bytes with swizzle 128B, got 256"),
        ({"box": (16,)}, "box of a tensor map needs 2 numbers, one an axis, got 1"),
        ({"box": (300, 32)}, "box of a tensor map must be from 1 to 256, got 300"),
        ({"box": (16, 32), "swizzle": "96B"}, "swizzle must be None, 32B, 64B or 128B, got '96B'"),
        ({"box": (16, 32), "dtype": "c8"}, "a tensor map has no elements of type 'c8'"),
        ({"box": (16, 32), "strides_bytes": (200, 4)}, "must be multiples of 16 but the last"),
        ({"box": (16, 32), "strides_bytes": (256, 8)}, "follow each other, got a distance of 8 bytes"),
        ({"box": (16, 32), "element_strides": (1, 9)}, "element_strides of a tensor map must be from 1 to 8"),
    ],
)  # fmt: skip
def test_a_wrong_map_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError) as error:
        tracegen.tensor_map(np.zeros((64, 64), np.float32), **given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_what_breaks_a_rule_is_named() -> None:
    x = np.zeros((40, 64), np.float32)
    arguments = {"out": np.zeros(4096, np.uint8), "bytes": 2048, "x": 0, "y": 0}
    made = arguments | {"map": tracegen.tensor_map(x, (16, 32))}
    with pytest.raises(
        KernelError, match=r"tensor_copies.cu:\d+: .* out of bounds: .* local memory"
    ):
        tracegen.trace(workload("tile", made, None, shared_bytes=1024), "h100")
    wrong = arguments | {"map": tracegen.tensor_map(np.zeros((4, 40, 64), np.float32), (1, 16, 32))}
    with pytest.raises(KernelError, match=r"the tensor map of 'UTMALDG.2D .*' has another number"):
        tracegen.trace(workload("tile", wrong, None, shared_bytes=2048), "h100")

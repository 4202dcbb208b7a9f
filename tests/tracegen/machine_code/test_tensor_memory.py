"""Products with sums in tensor memory (tcgen05): against NumPy, by the interpreter and by its readable twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from experiments.kernels.tensor_memory_steps import STEPS, product
from memsim.errors import KernelError
from tests.support import sass_runs
from tests.support.compilers import needs_nvidia
from tests.tracegen.machine_code.test_matrix_products import eighths
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = needs_nvidia
TARGET = "sm_100a"
TEXT = """
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__ void k0(const int4 *a, const int4 *b, const unsigned *c, unsigned *d, unsigned long long high_a, unsigned long long high_b,
                              unsigned kind, int columns, int adds)
{
  __shared__ __align__(1024) int4 tile_a[1024], tile_b[1024];
  __shared__ unsigned long long barrier;
  __shared__ unsigned place;
  for (int i = threadIdx.x; i < 1024; i += 128) {
    tile_a[i] = a[i];
    tile_b[i] = b[i];
  }
  if (threadIdx.x < 32)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(at(&place)));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&barrier)));
  __syncthreads();
  const unsigned own = place + (threadIdx.x / 32 * 32 << 16);
  for (int j = 0; j < columns; j += 2)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %2};" ::"r"(own + j), "r"(c[threadIdx.x * columns + j]), "r"(c[threadIdx.x * columns + j + 1]));
  OF_FIRST
  asm volatile("tcgen05.wait::st.sync.aligned;");
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long long from_a = high_a | at(tile_a) >> 4, from_b = high_b | at(tile_b) >> 4;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::KIND [%0], FIRST, %2, %3, p; }" ::"r"(place), "l"(from_a), "l"(from_b),
                 "r"(kind), "r"(adds), "r"(place + 128));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(&barrier)));
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(at(&barrier)));
  for (int j = 0; j < columns; j++)
    asm volatile("{ .reg .b32 x; tcgen05.ld.sync.aligned.32x32b.x1.b32 {x}, [%0]; tcgen05.wait::ld.sync.aligned; st.global.b32 [%1], x; }" ::"r"(own + j),
                 "l"(d + threadIdx.x * columns + j));
  __syncthreads();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 256;" ::"r"(place));
}
"""
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "u8": 1, "s8": 1}
WIDTHS = {"none": (16, 0), "32B": (32, 6), "64B": (64, 4), "128B": (128, 2), "128B of 32": (128, 1)}


def encoded(values: Any, form: str) -> Any:
    """Small whole numbers in a format, as bytes of rows."""
    if form == "bf16":
        made = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif form in ("e4m3", "e5m2"):
        made = eighths(values, form)
    else:
        made = values.astype({"f16": "f2", "tf32": "f4", "u8": "u1", "s8": "i1"}[form])
    return made.view(np.uint8).reshape(len(values), -1)


def image(values: Any, form: str, swizzle: str, across: bool) -> tuple[Any, int]:
    """16 KiB of local memory with a tile in a canonical layout, and the upper part of its descriptor.

    Eight lines lie behind each other, each of so many bytes as are swizzled together; such atoms follow each other along the
    elements' own direction at one distance, across it at the other.
    """
    data, (width, mode) = encoded(values, form), WIDTHS[swizzle]
    size = SIZES[form]
    lines = data.reshape(*values.shape, size)
    lines = lines.transpose(1, 0, 2).reshape(values.shape[1], -1) if across else data
    n_line, n_byte = lines.shape
    atoms_down, atoms_along = -(-n_line // 8), -(-n_byte // width)
    down, along = 8 * width, 8 * width * atoms_down
    made = np.zeros(1 << 14, np.uint8)
    for line in range(n_line):
        for byte in range(n_byte):
            at = line // 8 * down + byte // width * along + line % 8 * width + byte % width
            if mode == 1:  # parts of 32 bytes
                at ^= (at >> 7 & 3) << 5
            else:  # of 16
                at ^= (at >> 7 & width // 16 - 1) << 4
            made[at] = lines[line, byte]
    assert along * atoms_along <= 1 << 14
    inner, outer = (down, along) if across == (mode != 0) or not across else (along, down)
    leading, stride = (outer, inner)
    return made, leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | mode << 61


CASES = [
    ("f16", "f16", 128, 64, "128B", False, False, True),
    ("f16", "bf16", 64, 32, "64B", False, False, True),
    ("f16", "f16", 128, 128, "128B", True, True, False),
    ("f16", "f16", 64, 64, "32B", True, False, True),
    ("f16", "bf16", 128, 16, "none", False, False, True),
    ("f16", "f16", 64, 24, "none", True, True, True),
    ("tf32", "tf32", 128, 32, "128B", False, False, True),
    ("tf32", "tf32", 128, 32, "128B of 32", True, True, True),
    ("f8f6f4", "e4m3", 128, 64, "128B", False, False, True),
    ("f8f6f4", "e5m2", 64, 32, "32B", False, False, False),
    ("i8", "s8", 128, 32, "64B", False, False, True),
    ("i8", "u8", 64, 64, "none", False, False, True),
]


@pytest.mark.weekly(2)
@pytest.mark.parametrize("by_twin", [False, True])
@pytest.mark.parametrize(
    ("kind", "form", "m", "n", "swizzle", "a_across", "b_across", "adds"), CASES
)
def test_products(
    kind: str, form: str, m: int, n: int, swizzle: str, a_across: bool, b_across: bool, adds: bool,
    by_twin: bool,
) -> None:  # fmt: skip
    """Of 64 rows, every second 16 lanes have some; the others keep what they have. The first factor comes from tensor memory, too."""
    rng, depth = np.random.default_rng(7), 32 // SIZES[form]
    low = 0 if form == "u8" else -4
    a, b = (rng.integers(low, 5, (rows, depth)) for rows in (m, n))
    c = rng.integers(-9, 9, (128, n)).astype(np.int32 if kind == "i8" else np.float32)
    lines = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    wanted = c.copy()
    wanted[lines] = a @ b.T + adds * c[lines]
    number = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1}[form]
    what = (
        (2 if kind == "i8" else 1) << 4 | number << 7 | number << 10 | n >> 3 << 17 | m >> 4 << 24
    )
    what |= a_across << 15 | b_across << 16
    (tile_a, high_a), (tile_b, high_b) = (
        image(a, form, swizzle, a_across),
        image(b, form, swizzle, b_across),
    )
    in_tensor = np.zeros((128, 8), np.uint32)
    in_tensor[lines] = encoded(a, form).view(np.uint32)
    for held in (False, True) if not a_across else (False,):
        moved = "for (int j = 0; j < 8; j++) asm volatile(\"tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};\" ::\"r\"(own + 128 + j), \"r\"(((const unsigned *)a)[threadIdx.x * 8 + j]));"  # fmt: skip
        text = TEXT.replace("KIND", kind).replace("FIRST,", "[%5]," if held else "%1,")
        text = text.replace("OF_FIRST", moved if held else "")
        code = sass_runs.compiled(sass_runs.ptx_of(text, oldest="compute_100a"), TARGET, ["k0"])[
            "k0"
        ]
        given = np.zeros(1 << 14, np.uint8)
        given[: 128 * 32] = in_tensor.view(np.uint8).ravel()
        arrays = {
            "a": given if held else tile_a, "b": tile_b, "c": c.view(np.uint32).ravel(), "d": np.zeros(128 * n, np.uint32)
        }  # fmt: skip
        scalars = [
            (np.uint64, high_a),
            (np.uint64, high_b),
            (np.uint32, what),
            (np.int32, n),
            (np.int32, adds),
        ]
        values = [*arrays, *(np.array(value, kind) for kind, value in scalars)]
        found = sass_runs.executed(code, arrays, values, block=128, by_twin=by_twin, limit=10**7)[
            "d"
        ]
        assert np.array_equal(found.view(c.dtype).reshape(128, n), wanted)


MOVES = {
    "32x32b.x4": lambda lane, k: (lane, k),
    "16x64b.x4": lambda lane, k: (lane // 4 + 8 * (lane // 2 % 2), 2 * k + lane % 2),
    "16x128b.x2": lambda lane, k: (lane // 4 + 8 * (k % 2), 4 * (k // 2) + lane % 4),
    "16x256b.x1": lambda lane, k: (lane // 4 + 8 * (k // 2), 2 * (lane % 4) + k % 2),
    "16x32bx2.x4": lambda lane, k: (lane % 16, k + 16 * (lane // 16)),
}
MOVE = """
extern "C" __global__ void k0(unsigned *d)
{
  __shared__ unsigned place;
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"((unsigned)__cvta_generic_to_shared(&place)));
  __syncwarp();
  unsigned x[4];
  for (int j = 0; j < 32; j++)
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(place + j), "r"(threadIdx.x * 32 + j));
  asm volatile("tcgen05.wait::st.sync.aligned;");
  asm volatile("tcgen05.ld.sync.aligned.SHAPE.b32 {%0, %1, %2, %3}, [%4]MORE;" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
  for (int k = 0; k < 4; k++)
    d[threadIdx.x * 4 + k] = x[k];
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(place));
}
"""


@pytest.mark.parametrize("by_twin", [False, True])
@pytest.mark.parametrize("shape", MOVES)
def test_moves_to_registers(shape: str, by_twin: bool) -> None:
    text = MOVE.replace("SHAPE", shape).replace("MORE", ", 16" if "bx2" in shape else "")
    code = sass_runs.compiled(sass_runs.ptx_of(text, oldest="compute_100a"), TARGET, ["k0"])["k0"]
    found = sass_runs.executed(code, {"d": np.zeros(128, np.uint32)}, ["d"], by_twin=by_twin)["d"]
    wanted = [
        32 * i + j for lane in range(32) for i, j in (MOVES[shape](lane, k) for k in range(4))
    ]
    assert found.tolist() == wanted


def test_a_whole_kernel_is_counted() -> None:
    """Of 512^3 products on tiles of 128 x 256 and slabs of 256: each is computed once, an instruction of 16 columns reads 128 + 256 rows
    of 32 bytes; a is read for both columns of tiles, b for all four rows, in bulk copies; a lane stores half a sector at a time."""
    n = 512
    trace = tracegen.trace(product("wide tiles", n), "b200")
    counts = np.bincount(trace.work, minlength=len(trace.work_table)) @ trace.work_table
    by_kind = dict(zip(trace.work_kinds, counts.tolist(), strict=True))
    assert by_kind["tcgen05_f16_f32"] * 32 == n**3
    assert by_kind["passes"] == 8 * (n // 16) * (128 + 256) * 32 / 128
    sectors = np.zeros(len(trace.sites))
    np.add.at(sectors, trace.site[trace.site >= 0], np.diff(trace.granule_offset)[trace.site >= 0])
    found = {
        (site.direction, site.array, site.bulk): int(count)
        for site, count in zip(trace.sites, sectors, strict=True)
    }
    of_matrix = n * n * 2 // 32
    assert found == {
        ("load", "a.elements", True): 2 * of_matrix,
        ("load", "b.elements", True): 4 * of_matrix,
        ("store", "c", False): 2 * of_matrix,
    }
    assert not any("guardrail" in note for note in trace.provenance["compiler"]["notes"])


@pytest.mark.parametrize("step", STEPS)
def test_the_steps_of_a_ladder_are_right(step: str) -> None:
    assert "own check" in checked(product(step, 256), memsim.load_machine("b200"), TraceOptions())


def test_beyond_tensor_memory_is_one_line(tmp_path: Path) -> None:
    text = (
        MOVE.replace("SHAPE", "32x32b.x4")
        .replace("MORE", "")
        .replace("place + j)", "place + 510 + j)")
    )
    (tmp_path / "k.cu").write_text(text)
    made = tracegen.CudaWorkload(
        path=tmp_path / "k.cu", kernel="k0", arguments={"d": np.zeros(128, np.uint32)}, grid=1, block=32, check=print
    )  # fmt: skip
    with pytest.raises(
        KernelError, match="column 512 is beyond the 128 lanes and 512 columns of tensor memory"
    ):
        checked(made, memsim.load_machine("b200"), TraceOptions())

"""Products with sums in tensor memory (tcgen05): against NumPy, by the interpreter and by its readable twin."""

from __future__ import annotations

import itertools
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
from tracegen.compiled.model import MachineCode
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = needs_nvidia
HEAD = """
__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void put(unsigned to, const unsigned *x)
{
  asm volatile("tcgen05.st.sync.aligned.32x32b.x8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"r"(to), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]),
               "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]));
}
__device__ void get(unsigned *x, unsigned from)
{
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7]) : "r"(from));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
}
"""
PRODUCT = """
extern "C" __global__ void k_%(kind)s_%(held)d(const int4 *a, const int4 *b, const unsigned *c, unsigned *d, unsigned long long high_a,
                                               unsigned long long high_b, unsigned kind, int columns, int adds, int n_a, int n_b)
{
  __shared__ __align__(1024) int4 tile_a[1024], tile_b[1024];
  __shared__ unsigned long long barrier;
  __shared__ unsigned place;
  for (int i = threadIdx.x; i < 1024; i += 128) {
    if (i < n_a)
      tile_a[i] = a[i];
    if (i < n_b)
      tile_b[i] = b[i];
  }
  if (threadIdx.x < 32)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%0], 256;" ::"r"(at(&place)));
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%%0], 1;" ::"r"(at(&barrier)));
  __syncthreads();
  const unsigned own = place + (threadIdx.x / 32 * 32 << 16);
  for (int j = 0; j < columns; j += 8)
    put(own + j, c + threadIdx.x * columns + j);
  if (%(held)d)
    put(own + 128, (const unsigned *)a + threadIdx.x * 8);
  asm volatile("tcgen05.wait::st.sync.aligned;");
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long long from_a = high_a | at(tile_a) >> 4, from_b = high_b | at(tile_b) >> 4;
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %%4, 0; tcgen05.mma.cta_group::1.kind::%(kind)s [%%0], %(first)s, %%2, %%3, p; }" ::"r"(place),
                 "l"(from_a), "l"(from_b), "r"(kind), "r"(adds), "r"(place + 128));
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%%0];" ::"r"(at(&barrier)));
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%%0], 0; @!p bra AGAIN; }" ::"r"(at(&barrier)));
  for (int j = 0; j < columns; j += 8) {
    unsigned x[8];
    get(x, own + j);
    for (int k = 0; k < 8; k++)
      d[threadIdx.x * columns + j + k] = x[k];
  }
  __syncthreads();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%0, 256;" ::"r"(place));
}
"""
MOVE = """
extern "C" __global__ void k_move_%(number)d(unsigned *d)
{
  __shared__ unsigned place;
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%0], 32;" ::"r"(at(&place)));
  __syncwarp();
  for (int j = 0; j < 32; j += 8) {
    unsigned given[8];
    for (int k = 0; k < 8; k++)
      given[k] = threadIdx.x * 32 + j + k;
    put(place + j, given);
  }
  asm volatile("tcgen05.wait::st.sync.aligned;");
  unsigned x[4];
  asm volatile("tcgen05.ld.sync.aligned.%(shape)s.b32 {%%0, %%1, %%2, %%3}, [%%4]%(more)s;" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place));
  asm volatile("tcgen05.wait::ld.sync.aligned;");
  for (int k = 0; k < 4; k++)
    d[threadIdx.x * 4 + k] = x[k];
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%0, 32;" ::"r"(place));
}
"""
MOVES = {
    "32x32b.x4": lambda lane, k: (lane, k),
    "16x64b.x4": lambda lane, k: (lane // 4 + 8 * (lane // 2 % 2), 2 * k + lane % 2),
    "16x128b.x2": lambda lane, k: (lane // 4 + 8 * (k % 2), 4 * (k // 2) + lane % 4),
    "16x256b.x1": lambda lane, k: (lane // 4 + 8 * (k // 2), 2 * (lane % 4) + k % 2),
    "16x32bx2.x4": lambda lane, k: (lane % 16, k + 16 * (lane // 16)),
}
"""Where in tensor memory a lane's registers come from."""
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "u8": 1, "s8": 1}
WIDTHS = {"none": (16, 0), "32B": (32, 6), "64B": (64, 4), "128B": (128, 2), "128B of 32": (128, 1)}


@pytest.fixture(scope="module")
def codes() -> dict[str, MachineCode]:
    """The kernels of this module: products of a kind with the first factor in either memory, and moves."""
    texts = {
        f"k_{kind}_{held:d}": PRODUCT
        % {"kind": kind, "held": held, "first": "[%5]" if held else "%1"}
        for kind in ("f16", "tf32", "f8f6f4", "i8")
        for held in (False, True)
    }
    for number, shape in enumerate(MOVES):
        more = ", 16" if "bx2" in shape else ""
        texts[f"k_move_{number}"] = MOVE % {"number": number, "shape": shape, "more": more}
    ptx = sass_runs.ptx_of(HEAD + "".join(texts.values()), oldest="compute_100a")
    return sass_runs.compiled(ptx, "sm_100a", list(texts))


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
    """A tile as it lies in local memory, in a canonical layout, and the upper part of its descriptor.

    Eight lines lie behind each other, each of so many bytes as are swizzled together; such atoms follow each other along the
    elements' own direction at one distance, across it at the other.
    """
    lines, (width, mode) = encoded(values, form), WIDTHS[swizzle]
    if across:
        lines = lines.reshape(*values.shape, -1).transpose(1, 0, 2).reshape(values.shape[1], -1)
    line, byte = np.indices(lines.shape)
    down, along = 8 * width, 8 * width * -(-len(lines) // 8)
    at = line // 8 * down + byte // width * along + line % 8 * width + byte % width
    at ^= (
        (at >> 7 & 3) << 5 if mode == 1 else (at >> 7 & width // 16 - 1) << 4
    )  # parts of 32 bytes, or of 16
    made = np.zeros((at.max() | 15) + 1, np.uint8)
    made[at] = lines
    leading, stride = (down, along) if across and mode == 0 else (along, down)
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
@pytest.mark.parametrize(
    ("kind", "form", "m", "n", "swizzle", "a_across", "b_across", "adds"), CASES
)
def test_products(
    codes: dict[str, MachineCode], kind: str, form: str, m: int, n: int, swizzle: str, a_across: bool, b_across: bool, adds: bool
) -> None:  # fmt: skip
    """Of 64 rows, every second 16 lanes have some; the others keep what they have. The first factor comes from tensor memory, too.
    The twin, which takes its time, computes the narrower ones."""
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
        image(one, form, swizzle, across) for one, across in ((a, a_across), (b, b_across))
    )
    in_tensor = np.zeros((128, 32), np.uint8)
    in_tensor[lines] = encoded(a, form)
    for held, by_twin in itertools.product((False,) if a_across else (False, True), (False, True)):
        if by_twin and n > 32:
            continue
        arrays = {
            "a": in_tensor.ravel() if held else tile_a, "b": tile_b, "c": c.view(np.uint32).ravel(), "d": np.zeros(128 * n, np.uint32)
        }  # fmt: skip
        numbers = [np.array(one, np.uint64) for one in (high_a, high_b)]
        sizes = (what, n, adds, len(arrays["a"]) // 16, len(tile_b) // 16)
        numbers += [np.array(one, np.int32) for one in sizes]
        left = sass_runs.executed(
            codes[f"k_{kind}_{held:d}"], arrays, [*arrays, *numbers], block=128, by_twin=by_twin, limit=10**7
        )  # fmt: skip
        assert np.array_equal(left["d"].view(c.dtype).reshape(128, n), wanted), (held, by_twin)


@pytest.mark.parametrize("by_twin", [False, True])
def test_moves_to_registers(codes: dict[str, MachineCode], by_twin: bool) -> None:
    for number, (shape, place) in enumerate(MOVES.items()):
        code = codes[f"k_move_{number}"]
        found = sass_runs.executed(code, {"d": np.zeros(128, np.uint32)}, ["d"], by_twin=by_twin)
        places = [place(lane, k) for lane in range(32) for k in range(4)]
        assert found["d"].tolist() == [32 * row + column for row, column in places], shape


def test_tiles_that_are_brought_in_narrow_parts_have_an_access_for_each_part() -> None:
    """1024^3 products on tiles of 128 x 256, in slabs of 256 that are 32 parts of 8 columns: a row of a part is half a sector."""
    trace = tracegen.trace(product("tiles", 1024), "b200")
    assert trace.whole
    pieces = 1024 * 1024 * 2 // 16
    site_of = trace.site[trace.site >= 0]
    sectors = np.zeros(len(trace.sites))
    np.add.at(sectors, site_of, np.diff(trace.granule_offset)[trace.site >= 0])
    found = dict(zip((one.array for one in trace.sites), sectors.tolist(), strict=True))
    assert found["a.elements"] == pieces * 4
    assert found["b.elements"] == pieces * 8
    bulk = [k for k, one in enumerate(trace.sites) if one.bulk]
    assert np.isin(site_of, bulk).sum() == 32 * 4 * 2 * 32 * 4, "groups, slabs, tiles, parts, warps"


def test_a_whole_kernel_is_counted() -> None:
    """Of 512^3 products on tiles of 128 x 256 and slabs of 256: each is computed once, an instruction of 16 columns reads 128 + 256 rows
    of 32 bytes; a is read for both columns of tiles, b for all four rows, in bulk copies; a lane stores half a sector at a time."""
    n = 512
    trace = tracegen.trace(product("wide tiles", n), "b200")
    assert trace.launch.tensor_columns == 256
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


@pytest.mark.weekly(2)
@pytest.mark.parametrize("step", STEPS)
def test_the_steps_of_a_ladder_are_right(step: str) -> None:
    assert "own check" in checked(product(step, 256), memsim.load_machine("b200"), TraceOptions())


def test_beyond_tensor_memory_is_one_line(tmp_path: Path) -> None:
    move = MOVE % {"number": 0, "shape": "32x32b.x4", "more": ""}
    (tmp_path / "k.cu").write_text(HEAD + move.replace("place + j", "place + 505 + j"))
    made = tracegen.CudaWorkload(
        path=tmp_path / "k.cu", kernel="k_move_0", arguments={"d": np.zeros(128, np.uint32)}, grid=1, block=32, check=print
    )  # fmt: skip
    with pytest.raises(
        KernelError, match="column 512 is beyond the 128 lanes and 512 columns of tensor memory"
    ):
        checked(made, memsim.load_machine("b200"), TraceOptions())

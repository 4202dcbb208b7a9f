"""Every shipped kernel through every command, on machines of each maker: a result, or one line.

A kernel is named as on the command line. A refusal is accepted where it is one line that one of
REFUSALS matches: each names a property of the kernel, or one of the machine.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from memsim.commands.cli import main
from memsim.progress import COMPILING

KERNELS = Path(__file__).parents[2] / "experiments" / "kernels"
MACHINES = ("v100", "mi250x", "arc_b580", "cpu-pocl", "c1060")
"""One of NVIDIA, AMD and Intel, a host CPU, and one without caches."""

PROGRESS = re.compile(rf"memsim: (warning: .*|{re.escape(COMPILING)}|.*\b\d+ s)|wrote .*|note: .*")
"""A line on standard error that is no error."""

FORTRAN = """\
! sums neighbours
subroutine neighbours(out, a, n)
  implicit none
  real*8 a(n), out(n)
  integer n, i
  do i = 2, n
    out(i) = 2 * a(i) + a(i - 1)
  end do
end

!$loopy begin
!
! neighbours = lp.parse_fortran(SOURCE, FILENAME)
! neighbours = lp.split_iname(neighbours, "i", 64, outer_tag="g.0", inner_tag="l.0")
! RESULT = [neighbours]
!
!$loopy end
"""
SCALE = """\
__kernel void scale(__global const float *in, __global float *out)
{
  out[get_global_id(0)] = 2 * in[get_global_id(0)];
}
"""
SCALE_ARGS = """\
import numpy as np
import tracegen


def scale(n: int = 8192):
    arguments = [np.ones(n, np.float32), np.zeros(n, np.float32)]
    return tracegen.OpenCLWorkload(arguments=arguments, global_size=n, local_size=64)
"""
FORTRAN_ARGS = """\
import numpy as np


def arguments(n: int = 1000):
    return {"n": n, "a": np.ones(n), "out": np.zeros(n)}
"""


@dataclass(frozen=True)
class Shipped:
    """A kernel as commands name it.

    spec : file below experiments/kernels, or of the working folder, and name
    settings : a small size;  args : FILE.py:NAME of OpenCL C, CUDA C++ and Fortran
    launch : which one, of a kernel that has several
    """

    spec: str
    settings: str
    args: str = ""
    launch: int | None = None

    def words(self, folder: Path) -> list[str]:
        """KERNEL, --set and --args."""
        words = [_path(self.spec, folder)]
        for setting in self.settings.split():
            words += ["--set", setting]
        return words + (["--args", _path(self.args, folder)] if self.args else [])

    @property
    def chosen(self) -> list[str]:
        return [] if self.launch is None else ["--launch", str(self.launch)]


def _path(spec: str, folder: Path) -> str:
    return str((folder if spec.startswith(("f.", "a.")) else KERNELS) / spec)


SHIPPED = (
    Shipped("black_scholes.py:black_scholes", "n=5000 groups=6"),
    Shipped("black_scholes.py:black_scholes", "n=1000 groups=0 dtype=float64"),
    Shipped("fft.py:fft", "n=256 batch=3 block_size=32", launch=1),
    Shipped("fft.py:fft", "n=16 batch=2 radix=16 block_size=1"),
    Shipped("graphs.py:spmv", "n=1000"),
    Shipped("graphs.py:bfs_level", "n=1000"),
    Shipped("graphs.py:merge_pass", "n=5000"),
    Shipped("histogram.py:histogram", "n=5000 bins=13"),
    Shipped("histogram.py:histogram", "n=5000 bins=13 dtype=float32"),
    *(
        Shipped("laplacian.py:laplacian", f"kernel={k} n=32 rows={1 if k == 1 else 4}")
        for k in range(1, 8)
    ),
    Shipped("laplacian.cl:laplacian", "kernel=2 n=32 rows=2", "laplacian.py:laplacian"),
    Shipped("lattice_boltzmann.py:d3q19", "nx=16 ny=8 nz=4 block_x=16"),
    Shipped("lattice_boltzmann.py:d3q19", "nx=10 ny=6 nz=5 block_x=8 block_y=2 layout=aos"),
    Shipped("matmul.py:naive", "n=64"),
    Shipped("matmul.py:tiled", "n=64"),
    Shipped("matmul.py:tiled", "n=50 tile=8 dtype=float64"),
    Shipped("matmul_volkov.py:volkov", "n=64"),
    Shipped("merge_sort.py:global_pass", "n=5000 width=64"),
    Shipped("merge_sort.py:local_pass", "n=5000 width=1024"),
    Shipped("merge_sort.py:sort_tiles", "n=5000"),
    Shipped("merge_sort.cl:merge_global", "n=5000 width=64", "merge_sort.py:global_pass"),
    Shipped("merge_sort.cl:merge_local", "n=5000 width=1024", "merge_sort.py:local_pass"),
    Shipped("merge_sort.cl:sort_tiles", "n=5000", "merge_sort.py:sort_tiles"),
    Shipped("polybench/factorisations.py:lu", "n=40", launch=3),
    Shipped("polybench/factorisations.py:gramschmidt", "n=35", launch=4),
    Shipped("polybench/moments.py:covariance", "m=30 n=40", launch=2),
    Shipped("polybench/moments.py:correlation", "m=30 n=40", launch=3),
    Shipped("polybench/products.py:two_mm", "ni=20 nj=37 nk=17 nl=40", launch=1),
    Shipped("polybench/products.py:gemm", "ni=20 nj=37 nk=17"),
    Shipped("polybench/products.py:syrk", "n=33 m=20"),
    Shipped("polybench/products.py:doitgen", "nr=3 nq=9 np_=35", launch=1),
    Shipped("polybench/vectors.py:atax", "nx=300 ny=70", launch=1),
    Shipped("polybench/vectors.py:bicg", "nx=300 ny=70", launch=0),
    Shipped("polybench/vectors.py:gesummv", "n=270"),
    Shipped("polybench/vectors.py:mvt", "n=270", launch=1),
    Shipped("rodinia/elimination.py:gaussian", "n=40", launch=3),
    Shipped("rodinia/elimination.py:lud", "n=64", launch=2),
    Shipped("rodinia/paths.py:nw", "n=64", launch=3),
    Shipped("rodinia/paths.py:pathfinder", "rows=45 cols=700", launch=1),
    Shipped("spmv.py:spmv", "matrix=fem n=900"),
    Shipped("spmv.py:spmv", "matrix=graph n=900 dtype=float64"),
    Shipped("spmv.py:spmv_vector", "matrix=fem n=300"),
    Shipped("spmv_vectorised.py:spmv_vectorised", "n=900"),
    Shipped("stencil.py:stencil7", "nx=32 ny=8 nz=4"),
    Shipped("stream.py:copy", "n=4096"),
    Shipped("stream.py:triad", "n=1000 stride=7 dtype=float64"),
    Shipped("transpose.py:naive", "n=64"),
    Shipped("transpose.py:tiled", "n=50 dtype=float64"),
    Shipped("f.floopy:neighbours", "", "a.py:arguments"),
    Shipped("f.floopy:neighbours", "n=1000"),
    Shipped("convolution.cu:convolution", "image_size=64", "convolution.py:convolution"),
    Shipped("star.cu:star", "nx=40", "star.py:star"),
    Shipped("star25_points.cu:star25_points", "nx=32 ny=8 nz=8", "star.py:star25_points"),
)

REFUSALS = (
    r"only Loopy kernels can be counted: [\w:<>, ]+ is of type (OpenCL|Cuda)Workload",
    r"the basic blocks of CUDA C\+\+ and HIP are not counted: .*",
    r"loop \w+ of \w+ is bounded by values from memory: .*",
    r"condition .* of \w+ depends on values from memory: .*",
    r"operations and requests of blocks are read from Loopy's instructions; this kernel is OpenCL C",
    r"the trace of \w+ has no access to cut into blocks",
    r"Accel-Sim's warps have 32 lanes, sub-groups of [\w-]+ have \d+",
    r"machine [\w-]+ has no compiler_target: name one with --target",
    r"ptxas [\d.]+ compiles for sm_\d+ to sm_\d+, not for sm_\d+; .*",
    r"no group fits on a core of [\w-]+: .*",
)


@dataclass(frozen=True)
class Cell:
    """One command of the matrix, and how it ended."""

    kernel: Shipped
    machine: str
    command: str
    words: tuple[str, ...]
    code: int
    error: str

    @property
    def refusal(self) -> str:
        """The error's line, without warnings, progress and what was written; "" after a success."""
        return "\n".join(line for line in self.error.splitlines() if not PROGRESS.fullmatch(line))

    @property
    def accepted(self) -> bool:
        if self.code == 0:
            return True
        return self.code == 2 and any(
            re.fullmatch(f"memsim: {rule}", self.refusal) for rule in REFUSALS
        )


def prepare(folder: Path) -> None:
    """Writes the Fortran kernel and its arguments."""
    (folder / "f.floopy").write_text(FORTRAN)
    (folder / "a.py").write_text(FORTRAN_ARGS)


def commands(kernel: Shipped, machine: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command of a kernel on a machine: its name, and its words."""
    words, on = kernel.words(folder), ["-m", machine]
    few, out = [*kernel.chosen, "--groups", "4"], str(folder / "out")
    trace, saved = str(folder / "k.trace"), str(folder / "k.nc")
    yield "trace", ["trace", *words, *on, *few, "-o", trace]
    yield "replay", ["replay", trace, *on, "--trials", "2", "--save", saved]
    pages = ["--html", f"{out}.html", "--json", f"{out}.json"]
    yield "profile", ["profile", *words, *on, *few, "--trials", "2", *pages]
    if kernel.launch is not None:
        more = ["--groups", "2", "--launch", "1", "--carry-l2"]
        yield "profile --carry-l2", ["profile", *words, *on, *more, "--trials", "2"]
    yield "predict", ["predict", *words, *on, *few, "--trials", "2", *pages]
    bare = [*few, "--trials", "2", "--mode", "paper"]
    yield "predict --mode paper", ["predict", *words, *on, *bare]
    yield "blocks", ["blocks", *words, *on]
    yield "blocks --run", ["blocks", *words, "--run"]
    yield "count", ["count", *words, "f_op_float32_madd", "f_mem_access_global_load"]
    yield (
        "count --measure",
        ["count", *words, "--measure", "f_mem_access_global", "f_sync_barrier_local"],
    )
    listing = ["-o", _assembly(machine, out)] if kernel.launch is None else []
    yield "compile", ["compile", *words, *on, *listing]
    yield "export", ["export", *words, *on, "--groups", "2", "-o", f"{out}-accel-sim"]
    for form in ("cachegrind", "csv", "json"):
        yield f"export {form}", ["export", saved, "--format", form, "-o", f"{out}.{form}"]
    yield "compare", ["compare", saved, saved, "--html", f"{out}-change.html"]


def _assembly(machine: str, out: str) -> str:
    return f"{out}.s" if machine.startswith("mi") else f"{out}.ptx"


def walk(
    kernel: Shipped, machine: str, folder: Path, captured: Callable[[], tuple[str, str]]
) -> Iterator[Cell]:
    """Runs each command; a traceback is the error of code 70.

    captured : returns what was printed since its last call
    """
    for command, words in commands(kernel, machine, folder):
        if not all(Path(word).exists() for word in _inputs(words, folder)):
            continue  # its trace was refused, which is a cell of its own
        captured()
        try:
            code, error = main(words), ""
        except Exception:
            code, error = 70, traceback.format_exc()
        error += captured()[1]
        yield Cell(kernel, machine, command, tuple(words), code, error)


def _inputs(words: list[str], folder: Path) -> list[str]:
    made = (str(folder / "k.trace"), str(folder / "k.nc"))
    return [word for word in words[1:2] if word in made]

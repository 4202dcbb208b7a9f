"""Kernels of a public suite, as they are fetched: what they compute, compared with numpy.

MEMSIM_SUITES names a folder that contains the checked-out repositories of suites. PolyBench-ACC is read:
all 47 kernels of its CUDA programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from tests.support.cuda_kernels import needs_clang, run
from tracegen import CudaWorkload

# fmt: off
SUITES = Path(os.environ.get("MEMSIM_SUITES", "suites"))
PROGRAMS = SUITES / "PolyBench-ACC" / "CUDA"

pytestmark = [pytest.mark.slow, needs_clang, pytest.mark.skipif(not PROGRAMS.is_dir(), reason="MEMSIM_SUITES has no PolyBench-ACC")]

SIZES = {"NI": 20, "NJ": 24, "NK": 17, "NL": 19, "NM": 21, "NX": 18, "NY": 25, "TMAX": 4, "NQ": 6, "NR": 5, "NP": 7, "M": 22, "N": 23, "TSTEPS": 2}
NI, NJ, NK, NL, NM, NX, NY, TMAX, NQ, NR, NP, M, N, TSTEPS = SIZES.values()
ALPHA, BETA, FLOAT_N, EPS = 1.5, 0.75, 3214212.01, 0.005
Arrays = dict[str, Any]
Result = Callable[..., Mapping[str, Any]]
CASES: dict[tuple[str, str], tuple[str, dict[str, Any], tuple[int, int], Result]] = {}

def case(program: str, kernel: str, sizes: str, given: dict[str, Any], extents: tuple[int, int]) -> Callable[[Result], Result]:
    """Declares what a kernel computes.

    sizes : names of the program's macros
    given : parameter -> shape of its array, or its value
    extents : threads along x and y
    """

    def declare(result: Result) -> Result:
        CASES[program, kernel] = sizes, given, extents, result
        return result

    return declare

def _gemm(program: str, kernel: str, sizes: str, given: dict[str, Any], out: str, step: Any) -> None:
    """A kernel with a thread for each element of its result."""
    rows, columns = given[out]
    case(program, kernel, sizes, given, (columns, rows))(lambda **a: {out: step(**a)})

_FACTORS = {"alpha": ALPHA, "beta": BETA}
LINEAR, DATA, STENCILS = "linear-algebra/kernels", "datamining", "stencils"
_EQUAL = " ".join(f"{name}={NI}" for name in ("NI", "NJ", "NK", "NL", "NM"))
"""The host code of 3mm allows no others."""
_2MM, _3MM = f"{LINEAR}/2mm/2mm", f"{LINEAR}/3mm/3mm"
_gemm(_2MM, "mm2_kernel1", "NI NJ NK NL", _FACTORS | {"tmp": (NI, NJ), "A": (NI, NK), "B": (NK, NJ)}, "tmp", lambda A, B, **_: ALPHA * A @ B)
_gemm(_2MM, "mm2_kernel2", "NI NJ NK NL", _FACTORS | {"tmp": (NI, NJ), "C": (NJ, NL), "D": (NI, NL)}, "D", lambda tmp, C, D, **_: BETA * D + tmp @ C)
_gemm(_3MM, "mm3_kernel1", _EQUAL, {"A": (NI, NI), "B": (NI, NI), "E": (NI, NI)}, "E", lambda A, B, **_: A @ B)
_gemm(_3MM, "mm3_kernel2", _EQUAL, {"C": (NI, NI), "D": (NI, NI), "F": (NI, NI)}, "F", lambda C, D, **_: C @ D)
_gemm(_3MM, "mm3_kernel3", _EQUAL, {"E": (NI, NI), "F": (NI, NI), "G": (NI, NI)}, "G", lambda E, F, **_: E @ F)
_gemm(f"{LINEAR}/gemm/gemm", "gemm_kernel", "NI NJ NK", _FACTORS | {"a": (NI, NK), "b": (NK, NJ), "c": (NI, NJ)}, "c", lambda a, b, c, **_: BETA * c + ALPHA * a @ b)
_gemm(f"{LINEAR}/syrk/syrk", "syrk_kernel", "NI NJ", _FACTORS | {"a": (NI, NJ), "c": (NI, NI)}, "c", lambda a, c, **_: BETA * c + ALPHA * a @ a.T)
_gemm(f"{LINEAR}/syr2k/syr2k", "syr2k_kernel", "NI NJ", _FACTORS | {"a": (NI, NJ), "b": (NI, NJ), "c": (NI, NI)}, "c", lambda a, b, c, **_: BETA * c + ALPHA * (a @ b.T + b @ a.T))
_gemm(f"{LINEAR}/gemver/gemver", "gemver_kernel1", "N", _FACTORS | {"a": (N, N), "v1": (N,), "v2": (N,), "u1": (N,), "u2": (N,)}, "a", lambda a, v1, v2, u1, u2, **_: a + np.outer(u1, v1) + np.outer(u2, v2))

def _vector(program: str, kernel: str, sizes: str, given: dict[str, Any], out: str, step: Any) -> None:
    """A kernel with a thread for each element of a vector."""
    case(program, kernel, sizes, given, (given[out][0], 1))(lambda **a: {out: step(**a)})

_XY = {"A": (NX, NY)}
_vector(f"{LINEAR}/atax/atax", "atax_kernel1", "NX NY", _XY | {"x": (NY,), "tmp": (NX,)}, "tmp", lambda A, x, **_: A @ x)
_vector(f"{LINEAR}/atax/atax", "atax_kernel2", "NX NY", _XY | {"y": (NY,), "tmp": (NX,)}, "y", lambda A, tmp, **_: A.T @ tmp)
_vector(f"{LINEAR}/bicg/bicg", "bicg_kernel1", "NX NY", _XY | {"r": (NX,), "s": (NY,)}, "s", lambda A, r, **_: A.T @ r)
_vector(f"{LINEAR}/bicg/bicg", "bicg_kernel2", "NX NY", _XY | {"p": (NY,), "q": (NX,)}, "q", lambda A, p, **_: A @ p)
_vector(f"{LINEAR}/gemver/gemver", "gemver_kernel2", "N", _FACTORS | {"a": (N, N), "x": (N,), "y": (N,), "z": (N,)}, "x", lambda a, x, y, z, **_: x + BETA * a.T @ y + z)
_vector(f"{LINEAR}/gemver/gemver", "gemver_kernel3", "N", _FACTORS | {"a": (N, N), "x": (N,), "w": (N,)}, "w", lambda a, x, w, **_: w + ALPHA * a @ x)
_vector(f"{LINEAR}/mvt/mvt", "mvt_kernel1", "N", {"a": (N, N), "x1": (N,), "y_1": (N,)}, "x1", lambda a, x1, y_1, **_: x1 + a @ y_1)
_vector(f"{LINEAR}/mvt/mvt", "mvt_kernel2", "N", {"a": (N, N), "x2": (N,), "y_2": (N,)}, "x2", lambda a, x2, y_2, **_: x2 + a.T @ y_2)

@case(f"{LINEAR}/gesummv/gesummv", "gesummv_kernel", "N", _FACTORS | {"A": (N, N), "B": (N, N), "tmp": (N,), "x": (N,), "y": (N,)}, (N, 1))
def _gesummv(A: Any, B: Any, tmp: Any, x: Any, y: Any, **_: Any) -> Arrays:
    after = tmp + A @ x
    return {"tmp": after, "y": ALPHA * after + BETA * (y + B @ x)}

_DOITGEN = {"sum": (NR, NQ, NP), "A": (NR, NQ, NP), "C4": (NP, NP), "nr": NR, "nq": NQ, "np": NP}
@case(f"{LINEAR}/doitgen/doitgen", "doitgen_kernel1", "NR NQ NP", _DOITGEN | {"r": 3}, (NP, NQ))
def _doitgen_1(sum: Any, A: Any, C4: Any, **_: Any) -> Arrays:
    sum[3] = A[3] @ C4
    return {"sum": sum}

@case(f"{LINEAR}/doitgen/doitgen", "doitgen_kernel2", "NR NQ NP", _DOITGEN | {"r": 2}, (NP, NQ))
def _doitgen_2(sum: Any, A: Any, **_: Any) -> Arrays:
    A[2] = sum[2]
    return {"A": A}

_SCHMIDT = f"{LINEAR.replace('kernels', 'solvers')}/gramschmidt/gramschmidt"
_QR = {"a": (NI, NJ), "r": (NJ, NJ), "q": (NI, NJ), "k": 5}
@case(_SCHMIDT, "gramschmidt_kernel1", "NI NJ", _QR, (1, 1))
def _schmidt_1(a: Any, r: Any, **_: Any) -> Arrays:
    r[5, 5] = np.sqrt((a[:, 5] ** 2).sum())
    return {"r": r}

@case(_SCHMIDT, "gramschmidt_kernel2", "NI NJ", _QR, (NI, 1))
def _schmidt_2(a: Any, r: Any, q: Any, **_: Any) -> Arrays:
    q[:, 5] = a[:, 5] / r[5, 5]
    return {"q": q}

@case(_SCHMIDT, "gramschmidt_kernel3", "NI NJ", _QR, (NJ, 1))
def _schmidt_3(a: Any, r: Any, q: Any, **_: Any) -> Arrays:
    r[5, 6:] = q[:, 5] @ a[:, 6:]
    a[:, 6:] -= np.outer(q[:, 5], r[5, 6:])
    return {"a": a, "r": r}

_LU = f"{LINEAR.replace('kernels', 'solvers')}/lu/lu"
@case(_LU, "lu_kernel1", "N", {"A": (N, N), "k": 4}, (N, 1))
def _lu_1(A: Any, **_: Any) -> Arrays:
    A[4, 5:] /= A[4, 4]
    return {"A": A}

@case(_LU, "lu_kernel2", "N", {"A": (N, N), "k": 4}, (N, N))
def _lu_2(A: Any, **_: Any) -> Arrays:
    A[5:, 5:] -= np.outer(A[5:, 4], A[4, 5:])
    return {"A": A}

_CORRELATION, _COVARIANCE = f"{DATA}/correlation/correlation", f"{DATA}/covariance/covariance"
_TABLE = {"mean": (M,), "data": (N, M)}
for _program in (_CORRELATION, _COVARIANCE):
    _vector(_program, "mean_kernel", "M N", _TABLE, "mean", lambda data, **_: data.sum(0) / FLOAT_N)
@case(_CORRELATION, "std_kernel", "M N", _TABLE | {"std": (M,)}, (M, 1))
def _std(mean: Any, data: Any, **_: Any) -> Arrays:
    std = np.sqrt(((data - mean) ** 2).sum(0) / FLOAT_N)
    return {"std": np.where(std <= EPS, 1, std)}

case(_CORRELATION, "reduce_kernel", "M N", _TABLE | {"std": (M,)}, (M, N))(
    lambda mean, std, data, **_: {"data": (data - mean) / (np.sqrt(FLOAT_N) * std)})

@case(_CORRELATION, "corr_kernel", "M N", {"symmat": (M, M), "data": (N, M)}, (M, 1))
def _correlated(symmat: Any, data: Any, **_: Any) -> Arrays:
    result = data.T @ data
    np.fill_diagonal(result, 1)
    result[-1, -1] = symmat[-1, -1]
    return {"symmat": result}

case(_COVARIANCE, "reduce_kernel", "M N", _TABLE, (M, N))(lambda mean, data, **_: {"data": data - mean})
case(_COVARIANCE, "covar_kernel", "M N", {"symmat": (M, M), "data": (N, M)}, (M, 1))(lambda data, **_: {"symmat": data.T @ data})

_ADI = f"{STENCILS}/adi/adi"
_ABX = {"A": (N, N), "B": (N, N), "X": (N, N)}
@case(_ADI, "adi_kernel1", "N TSTEPS", _ABX, (N, 1))
def _adi_1(A: Any, B: Any, X: Any) -> Arrays:
    for i in range(1, N):
        X[:, i] -= X[:, i - 1] * A[:, i] / B[:, i - 1]
        B[:, i] -= A[:, i] ** 2 / B[:, i - 1]
    return {"X": X, "B": B}

@case(_ADI, "adi_kernel2", "N TSTEPS", _ABX, (N, 1))
def _adi_2(A: Any, B: Any, X: Any) -> Arrays:
    X[:, -1] /= B[:, -1]
    return {"X": X}

@case(_ADI, "adi_kernel3", "N TSTEPS", _ABX, (N, 1))
def _adi_3(A: Any, B: Any, X: Any) -> Arrays:
    for i in range(N - 2):
        X[:, N - 2 - i] = (X[:, N - 2 - i] - X[:, N - 3 - i] * A[:, N - 3 - i]) / B[:, N - 3 - i]
    return {"X": X}

@case(_ADI, "adi_kernel4", "N TSTEPS", _ABX | {"i1": 6}, (N, 1))
def _adi_4(A: Any, B: Any, X: Any, **_: Any) -> Arrays:
    X[6] -= X[5] * A[6] / B[5]
    B[6] -= A[6] ** 2 / B[5]
    return {"X": X, "B": B}

@case(_ADI, "adi_kernel5", "N TSTEPS", _ABX, (N, 1))
def _adi_5(A: Any, B: Any, X: Any) -> Arrays:
    X[-1] /= B[-1]
    return {"X": X}

@case(_ADI, "adi_kernel6", "N TSTEPS", _ABX | {"i1": 6}, (N, 1))
def _adi_6(A: Any, B: Any, X: Any, **_: Any) -> Arrays:
    X[N - 8] = (X[N - 8] - X[N - 9] * A[N - 9]) / B[N - 8]
    return {"X": X}

@case(f"{STENCILS}/convolution-2d/2DConvolution", "convolution2D_kernel", "NI NJ", {"A": (NI, NJ), "B": (NI, NJ)}, (NJ, NI))
def _convolution_2d(A: Any, B: Any) -> Arrays:
    weights = np.array([[0.2, 0.5, -0.8], [-0.3, 0.6, -0.9], [0.4, 0.7, 0.1]])
    views = np.lib.stride_tricks.sliding_window_view(A, (3, 3))
    B[1:-1, 1:-1] = np.einsum("ijkl,kl->ij", views, weights)
    return {"B": B}

@case(f"{STENCILS}/convolution-3d/3DConvolution", "convolution3D_kernel", "NI NJ NK", {"A": (NI, NJ, NK), "B": (NI, NJ, NK), "i": 7}, (NK, NJ))
def _convolution_3d(A: Any, B: Any, **_: Any) -> Arrays:
    def at(i: int, j: int, k: int) -> Any:
        return A[7 + i, 1 + j : NJ - 1 + j, 1 + k : NK - 1 + k]

    corner = (2 + 5 - 8) * at(-1, -1, -1) + (4 + 7 + 10) * at(1, -1, -1)
    middle = -3 * at(0, -1, 0) + 6 * at(0, 0, 0) - 9 * at(0, 1, 0)
    before = 2 * at(-1, -1, 1) + 5 * at(-1, 0, 1) - 8 * at(-1, 1, 1)
    after = 4 * at(1, -1, 1) + 7 * at(1, 0, 1) + 10 * at(1, 1, 1)
    B[7, 1:-1, 1:-1] = corner + middle + before + after
    return {"B": B}

_FDTD = f"{STENCILS}/fdtd-2d/fdtd2d"
_WAVES = {"ex": (NX, NY + 1), "ey": (NX + 1, NY), "hz": (NX, NY), "t": 2}
@case(_FDTD, "fdtd_step1_kernel", "NX NY TMAX", _WAVES | {"_fict_": (TMAX,)}, (NY, NX))
def _fdtd_1(_fict_: Any, ey: Any, hz: Any, **_: Any) -> Arrays:
    ey[1:NX] -= 0.5 * (hz[1:] - hz[:-1])
    ey[0] = _fict_[2]
    return {"ey": ey}

@case(_FDTD, "fdtd_step2_kernel", "NX NY TMAX", _WAVES | {"ex": (NX, NY)}, (NY, NX))
def _fdtd_2(ex: Any, hz: Any, **_: Any) -> Arrays:
    ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
    return {"ex": ex}

@case(_FDTD, "fdtd_step3_kernel", "NX NY TMAX", _WAVES | {"ex": (NX, NY)}, (NY, NX))
def _fdtd_3(ex: Any, ey: Any, hz: Any, **_: Any) -> Arrays:
    turned = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:NX, :-1] - ey[: NX - 1, :-1]
    hz[:-1, :-1] -= 0.7 * turned
    return {"hz": hz}

_1D, _2D = f"{STENCILS}/jacobi-1d-imper/jacobi1D", f"{STENCILS}/jacobi-2d-imper/jacobi2D"
_ROW, _SQUARE = {"A": (N,), "B": (N,)}, {"A": (N, N), "B": (N, N)}
@case(_1D, "runJacobiCUDA_kernel1", "N TSTEPS", _ROW, (N, 1))
def _jacobi_1d(A: Any, B: Any) -> Arrays:
    B[2:-1] = 0.33333 * (A[1:-2] + A[2:-1] + A[3:])
    return {"B": B}

@case(_1D, "runJacobiCUDA_kernel2", "N TSTEPS", _ROW, (N, 1))
def _copied_1d(A: Any, B: Any) -> Arrays:
    A[2:-1] = B[2:-1]
    return {"A": A}

@case(_2D, "runJacobiCUDA_kernel1", "N TSTEPS", _SQUARE, (N, N))
def _jacobi_2d(A: Any, B: Any) -> Arrays:
    around = A[1:-1, :-2] + A[1:-1, 2:] + A[:-2, 1:-1] + A[2:, 1:-1]
    B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + around)
    return {"B": B}

@case(_2D, "runJacobiCUDA_kernel2", "N TSTEPS", _SQUARE, (N, N))
def _copied_2d(A: Any, B: Any) -> Arrays:
    A[1:-1, 1:-1] = B[1:-1, 1:-1]
    return {"A": A}

def test_every_kernel_has_a_case() -> None:
    from tracegen.cuda.program import kernels

    found = {(str(file.relative_to(PROGRAMS).with_suffix("")), kernel) for file in PROGRAMS.rglob("*.cu") for kernel in kernels(file.read_text(errors="replace"))}
    assert found == set(CASES)
    assert len(CASES) == 47

@pytest.mark.parametrize(("program", "kernel"), CASES)
def test_a_kernel_of_polybench(program: str, kernel: str) -> None:
    sizes, given, extents, result = CASES[program, kernel]
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(1, 2, shape) for name, shape in given.items() if isinstance(shape, tuple)}
    scalars = {name: value for name, value in given.items() if not isinstance(value, tuple)}
    named = (word.partition("=") for word in sizes.split())
    macros = {name: int(value or SIZES[name]) for name, _, value in named}
    has_lengths = not program.endswith("doitgen")  # which calls them as its parameters are called
    lengths = {name.lower(): n for name, n in macros.items() if has_lengths and name[0] != "T"}
    block = (32, 8) if extents[1] > 1 else (64, 1)
    made = CudaWorkload(
        path=PROGRAMS / f"{program}.cu",
        kernel=kernel,
        arguments={name: a.astype(np.float32) for name, a in arrays.items()} | scalars | lengths,
        grid=tuple(-(-n // width) for n, width in zip(extents, block, strict=True)),
        block=block,
        build_options=[f"-I{PROGRAMS / 'utilities'}", *(f"-D{name}={n}" for name, n in macros.items())],
    )
    expected = result(**{name: a.astype(np.float32).astype(float) for name, a in arrays.items()})
    out = run(made)
    assert expected
    for name, values in expected.items():
        np.testing.assert_allclose(out[name], values, rtol=1e-4, atol=1e-5)
    assert len(tracegen.trace(made, "a100").sites) > 0

"""Sparse matrices: finite elements, a graph, four synthetic cases, and Matrix Market files.

Every matrix is a `scipy.sparse.csr_array` with sorted indices, 32-bit index arrays and
float64 values. The same arguments always give the same matrix.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zipfile
import zlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse

from memsim import disk_cache
from memsim.errors import KernelError, one_line
from memsim.files import whole_file

MAX_ENTRIES = 200_000_000
"""Stored entries (and rows, and columns) above which a matrix is refused: about 3 GB."""

MAX_TEXT_BYTES = 16_000_000_000
"""Bytes of (unpacked) Matrix Market text above which reading stops, whatever the header
promises."""

_TEXT_BYTES_PER_ENTRY = 256
_TEXT_BYTES_OF_COMMENTS = 16_000_000
_CHECKED_BYTES = 1 << 24
_NUMERIC = b"0123456789+-.eE \t\r\nnaifNAIF"
"""Characters of numbers, nan and inf, and between them."""

FloatArray = npt.NDArray[np.float64]


def csr(matrix: str, n: int) -> Any:
    """A matrix by name, with about `n` rows, or the matrix in a file.

    matrix : `fem` (the same as `fem-tet-p2`), `fem-tri-p1`, `fem-tri-p2`, `fem-tet-p1`,
        `fem-tet-p2`; `graph` (16 edges a vertex, `rmat`); `u`, `b`, `U`, `B` (the four matrices of
        Baghsorkhi et al., section 6.2); or the path of a Matrix Market file.

    Raises KernelError if the name is unknown, the file is broken or the matrix is too large.
    """
    make = _GENERATORS.get(matrix)
    if make is not None:
        return kept(matrix, n, make) if matrix.startswith("fem") else make(n)
    path = Path(matrix)
    if not path.is_file():
        known = ", ".join(_GENERATORS)
        raise KernelError(f"matrix must be one of {known} or a Matrix Market file, got {matrix!r}")
    return read_matrix_market(path)


def finite_element(n: int, *, cell: str = "tet", degree: int = 2, seed: int = 0) -> Any:
    """The stiffness matrix of the Laplace operator on a unit square or cube, about `n` unknowns.

    Vertices of the uniform mesh are moved by up to a tenth of their spacing, so that no entry
    cancels. Unknowns have scikit-fem's numbering (vertices first, then edges), which makes the
    accesses to x local but not regular. There is no boundary condition, so rows sum to zero.

    cell : "tri" or "tet"; degree : 1 or 2
    """
    _require_size(n, smallest=8)
    import skfem
    from skfem.models.poisson import laplace

    dimension = {"tri": 2, "tet": 3}[cell]
    n_cell = max(1, round((n ** (1 / dimension) - 1) / degree))
    ticks = np.linspace(0.0, 1.0, n_cell + 1)
    mesh_type = skfem.MeshTri if cell == "tri" else skfem.MeshTet
    element = {
        ("tri", 1): skfem.ElementTriP1,
        ("tri", 2): skfem.ElementTriP2,
        ("tet", 1): skfem.ElementTetP1,
        ("tet", 2): skfem.ElementTetP2,
    }[cell, degree]
    mesh = mesh_type.init_tensor(*[ticks] * dimension)
    shift = np.random.default_rng(seed).uniform(-0.1, 0.1, mesh.p.shape) / n_cell
    mesh = mesh_type(mesh.p + shift, mesh.t)
    # The integrand is of degree 2 * (degree - 1) in each (affine) cell: this order is exact.
    basis = skfem.Basis(mesh, element(), intorder=2 * (degree - 1))
    return _canonical(laplace.assemble(basis), f"fem-{cell}-p{degree}")


def uniform_random(n: int, entries_per_row: int, *, seed: int = 0) -> Any:
    """An n x n matrix with `entries_per_row * n` entries at random places, drawn without
    replacement.

    Row lengths therefore have a binomial distribution.
    """
    _require_size(n, smallest=entries_per_row)
    n_entries = n * entries_per_row
    _require_entries(n_entries, "a random matrix")
    rng = np.random.default_rng(seed)
    places: npt.NDArray[np.int64] = np.empty(0, np.int64)
    while len(places) < n_entries:
        missing = n_entries - len(places)
        drawn = rng.integers(0, n * n, size=missing + missing // 64 + 64)
        places = np.sort(np.concatenate([places, drawn]))  # np.unique is 20 times slower here
        places = places[np.diff(places, prepend=-1) != 0]
    kept = np.ones(len(places), dtype=np.bool_)
    kept[rng.choice(len(places), size=len(places) - n_entries, replace=False)] = False
    places = places[kept]
    row_start = np.searchsorted(places, np.arange(n + 1) * n)
    return _filled(places % n, row_start, n, rng)


def block_diagonal(n: int, block: int, *, seed: int = 0) -> Any:
    """Full `block` x `block` blocks along the diagonal; `n` is rounded up to whole blocks."""
    _require_size(n, smallest=1)
    n_block = -(-n // block)
    _require_entries(n_block * block * block, "a block-diagonal matrix")
    inside = np.tile(np.arange(block), (n_block * block, 1))
    first = np.repeat(np.arange(n_block) * block, block)[:, None]
    row_start = np.arange(n_block * block + 1) * block
    return _filled(
        (first + inside).reshape(-1), row_start, n_block * block, np.random.default_rng(seed)
    )


def rmat(n: int, entries_per_row: int, *, seed: int = 0) -> Any:
    """The adjacency matrix of a directed R-MAT graph with random weights, in which few rows are
    very long.

    `n` is rounded up to a power of two. Quadrants are drawn with the probabilities 0.57, 0.19, 0.19
    and 0.05 of the Graph 500 benchmark (Chakrabarti et al., SDM 2004), vertices have
    random numbers, and duplicate edges are merged, so a row has fewer than `entries_per_row` on
    average.
    """
    _require_size(n, smallest=2)
    scale = (n - 1).bit_length()
    n_entries = entries_per_row << scale
    _require_entries(n_entries, "a graph")
    rng = np.random.default_rng(seed)
    row, column = np.zeros((2, n_entries), np.int64)
    for _ in range(scale):
        quadrant = np.searchsorted((0.57, 0.76, 0.95), rng.random(n_entries), side="right")
        row = 2 * row + quadrant // 2
        column = 2 * column + quadrant % 2
    number = rng.permutation(1 << scale)
    places = np.unique(number[row] << scale | number[column])
    row_start = np.searchsorted(places, np.arange((1 << scale) + 1) << scale)
    return _filled(places & (1 << scale) - 1, row_start, 1 << scale, rng)


def read_matrix_market(path: str | Path) -> Any:
    """The matrix in a Matrix Market file (`.mtx`, plain or gzipped; coordinate or array).

    Symmetric, skew-symmetric and Hermitian files are expanded, the entries of pattern files are 1,
    and of complex entries only the real part is kept, so that the pattern is unchanged. Duplicate
    entries are summed. Raises KernelError, in one line, if the file breaks the format, has no
    entries, or has more than MAX_ENTRIES.
    """
    path = Path(path)
    try:
        text = _unpacked(path, _TEXT_BYTES_OF_COMMENTS, whole=False)
        n_row, n_column, n_entry, _, _, _ = scipy.io.mminfo(io.BytesIO(text))
        for what, size in (("rows", n_row), ("columns", n_column), ("entries", n_entry)):
            if not 1 <= size <= MAX_ENTRIES:
                raise KernelError(
                    f"{path}: a matrix must have 1 to {MAX_ENTRIES} {what}, got {size}"
                )
        limit = min(MAX_TEXT_BYTES, _TEXT_BYTES_OF_COMMENTS + n_entry * _TEXT_BYTES_PER_ENTRY)
        text = _unpacked(path, limit, whole=True)
        if len(text) < n_entry // 4:  # before memory is allocated for entries that do not exist
            raise KernelError(f"{path}: declares {n_entry} entries in {len(text)} bytes of text")
        _require_numbers(text, path)
        matrix = scipy.io.mmread(io.BytesIO(text.rstrip() + b"\n"))
    except KernelError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise KernelError(f"{path}: cannot be read: {one_line(error)[:300]}") from error
    except (ValueError, OverflowError, MemoryError, RuntimeError, TypeError) as error:
        raise KernelError(f"{path}: not a Matrix Market file: {one_line(error)[:300]}") from error
    return _canonical(scipy.sparse.coo_array(matrix), str(path))


def _unpacked(path: Path, limit: int, *, whole: bool) -> bytes:
    """The first `limit` bytes of the file's text; with `whole`, a longer text is an error."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        text = stream.read(limit + 1) if whole else stream.read(limit)
    if len(text) > limit:
        raise KernelError(f"{path}: holds more text than the entries that its header declares")
    return text


def _require_numbers(text: bytes, path: Path) -> None:
    """That only numbers follow the comments: after a number and another character, and at the end of a
    text that ends in a blank, SciPy's reader may leave the text."""
    begin = 0
    while text[begin : begin + 1] == b"%":
        begin = text.find(b"\n", begin) + 1 or len(text)
    for at in range(begin, len(text), _CHECKED_BYTES):
        odd = text[at : at + _CHECKED_BYTES].translate(None, _NUMERIC)
        if odd:
            raise KernelError(
                f"{path}: not a Matrix Market file: below its comments are numbers, got {odd[:20]!r}"
            )


def _canonical(matrix: Any, name: str) -> Any:
    """The matrix as CSR with sorted 32-bit indices, summed duplicates, and finite float64
    values."""
    matrix = scipy.sparse.csr_array(matrix)
    if np.iscomplexobj(matrix.data):
        matrix = scipy.sparse.csr_array(
            (np.ascontiguousarray(matrix.data.real), matrix.indices, matrix.indptr), matrix.shape
        )
    matrix.sum_duplicates()
    _require_entries(matrix.nnz, name)
    values = np.asarray(matrix.data, dtype=np.float64)
    if not np.isfinite(values).all():
        raise KernelError(f"{name}: every entry of a matrix must be finite")
    return scipy.sparse.csr_array(
        (values, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), matrix.shape
    )


def _filled(
    indices: npt.NDArray[np.int64],
    row_start: npt.NDArray[np.int64],
    n: int,
    rng: np.random.Generator,
) -> Any:
    values: FloatArray = rng.uniform(-1.0, 1.0, len(indices))
    return scipy.sparse.csr_array(
        (values, indices.astype(np.int32), row_start.astype(np.int32)), shape=(n, n)
    )


def _require_size(n: int, *, smallest: int) -> None:
    if not smallest <= n <= MAX_ENTRIES:
        raise KernelError(f"n must be from {smallest} to {MAX_ENTRIES} for this matrix, got {n}")


def _require_entries(n_entry: int, name: str) -> None:
    if not 1 <= n_entry <= MAX_ENTRIES:
        raise KernelError(f"{name}: a matrix must store 1 to {MAX_ENTRIES} entries, got {n_entry}")


_GENERATORS: dict[str, Callable[[int], Any]] = {
    "fem": lambda n: finite_element(n, cell="tet", degree=2),
    "fem-tri-p1": lambda n: finite_element(n, cell="tri", degree=1),
    "fem-tri-p2": lambda n: finite_element(n, cell="tri", degree=2),
    "fem-tet-p1": lambda n: finite_element(n, cell="tet", degree=1),
    "fem-tet-p2": lambda n: finite_element(n, cell="tet", degree=2),
    "u": lambda n: uniform_random(n, 32),
    "b": lambda n: block_diagonal(n, 32),
    "U": lambda n: uniform_random(n, 128),
    "B": lambda n: block_diagonal(n, 128),
    "graph": lambda n: rmat(n, 16),
}


KIND = "matrices"
MOST_BYTES = 2**29
"""Size of the folder above which matrices are deleted that were not used for longest."""


def kept(name: str, n: int, make: Callable[[int], Any]) -> Any:
    """make(n), a `scipy.sparse.csr_array`, from disk where an earlier run has kept it.

    A damaged file is replaced. Versions of what makes the matrix are part of the file's name.
    """
    folder = disk_cache.folder(KIND)
    if folder is None:
        return make(n)
    sources = [version("scikit-fem"), version("numpy"), _source()]
    path = folder / f"{disk_cache.fingerprint([name, str(n), *sources])}.npz"
    matrix = _load(path)
    if matrix is None:
        matrix = make(n)
        _save(path, matrix)
    return matrix


def _source() -> str:
    return Path(__file__).with_name("matrices.py").read_text(encoding="utf-8")


def _load(path: Path) -> Any:
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = (file["data"], file["indices"], file["indptr"])
            matrix = scipy.sparse.csr_array(parts, shape=tuple(file["shape"].tolist()))
        matrix.check_format(full_check=True)
        path.touch()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return matrix


def _save(path: Path, matrix: Any) -> None:
    """A folder that cannot be written is not an error: the matrix is assembled again next time."""
    arrays = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            np.savez(temporary, shape=np.array(matrix.shape), **arrays)
        disk_cache.shrink(path.parent, MOST_BYTES)

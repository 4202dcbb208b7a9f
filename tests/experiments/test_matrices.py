"""Properties of the matrices that follow from their construction, and hostile Matrix Market
files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from experiments.kernels import matrices
from experiments.kernels.spmv import spmv
from memsim.errors import KernelError


def canonical(name: str, n: int) -> scipy.sparse.csr_array:
    """A matrix, which has its form and is the same each time."""
    first, second = matrices.csr(name, n), matrices.csr(name, n)
    assert first.indices.dtype == first.indptr.dtype == np.int32
    assert first.has_canonical_format
    assert (first != second).nnz == 0
    return first


@pytest.mark.parametrize("name", ["fem-tri-p1", "fem-tri-p2", "fem-tet-p1", "fem-tet-p2"])
def test_stiffness_matrix(name: str) -> None:
    """Symmetric, with constants in its null space, non-negative definite, and about as large as
    requested."""
    stiffness = canonical(name, 700)
    assert abs(stiffness.shape[0] - 700) < 350
    largest = abs(stiffness).max()
    assert abs(stiffness - stiffness.T).max() < 1e-14 * largest
    assert abs(stiffness.sum(axis=1)).max() < 1e-13 * largest
    eigenvalues = np.linalg.eigvalsh(stiffness.toarray())
    assert abs(eigenvalues[0]) < 1e-12 * eigenvalues[-1]
    assert eigenvalues[1] > 1e-12 * eigenvalues[-1]


def test_stiffness_matrix_gives_the_energy_of_a_linear_function() -> None:
    """u = x has gradient 1, so u' A u is exactly the measure of the domain, which is about 1."""
    stiffness = matrices.finite_element(3000, cell="tri", degree=1, seed=0)
    n_side = round(stiffness.shape[0] ** 0.5)
    ramp = np.repeat(np.linspace(0.0, 1.0, n_side), n_side)
    ramps = (ramp, np.tile(np.linspace(0.0, 1.0, n_side), n_side))
    energies = [u @ (stiffness @ u) for u in ramps]
    assert energies == pytest.approx([1.0, 1.0], rel=0.05)  # vertices are moved, u is not


def test_rows_of_the_usual_stiffness_matrix_differ_in_length() -> None:
    lengths = np.diff(matrices.csr("fem", 2000).indptr)
    assert lengths.max() > 2 * lengths.min()
    assert 20 < lengths.mean() < 30


@pytest.mark.parametrize(("name", "per_row"), [("u", 32), ("U", 128)])
def test_random_matrix(name: str, per_row: int) -> None:
    matrix = canonical(name, 4000)
    assert matrix.nnz == per_row * 4000
    lengths = np.diff(matrix.indptr)
    # Row lengths are hypergeometric; the variance of a sample of 4000 is within 5 standard errors.
    variance = per_row * (1 - per_row / 4000)
    assert abs(lengths.var() - variance) < 5 * variance * (2 / 4000) ** 0.5
    # Columns are uniform: a chi-square of 40 cells, 39 degrees of freedom.
    counts = np.histogram(matrix.indices, bins=40, range=(0, 4000))[0]
    expected = matrix.nnz / 40
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 39) < 5 * (2 * 39) ** 0.5


@pytest.mark.parametrize(("name", "block"), [("b", 32), ("B", 128)])
def test_block_diagonal_matrix(name: str, block: int) -> None:
    matrix = canonical(name, 1000)
    assert matrix.shape[0] == -(-1000 // block) * block
    assert (np.diff(matrix.indptr) == block).all()
    rows = np.repeat(np.arange(matrix.shape[0]), block)
    assert (rows // block == matrix.indices // block).all()


def test_sizes_and_names_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for name in ("u", "fem", "b"):
        for n in (-3, 0, matrices.MAX_ENTRIES + 1):
            with pytest.raises(KernelError, match=f"got {n}"):
                matrices.csr(name, n)
    with pytest.raises(KernelError, match="entries"):
        matrices.csr("U", matrices.MAX_ENTRIES)
    with pytest.raises(KernelError, match=r"fem.*'febm'"):
        matrices.csr("febm", 10)
    for path in (tmp_path, tmp_path / "none.mtx"):
        with pytest.raises(KernelError, match="Matrix Market"):
            matrices.csr(str(path), 0)


HEADER = "%%MatrixMarket matrix coordinate real general\n"


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "m.mtx"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_round_trip(tmp_path: Path, packed: bool) -> None:
    expected = matrices.csr("fem-tri-p2", 200)
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, scipy.sparse.coo_array(expected), precision=17)
    if packed:
        path = tmp_path / "m.mtx.gz"
        path.write_bytes(gzip.compress((tmp_path / "m.mtx").read_bytes()))
    matrix = matrices.csr(str(path), 0)
    assert (matrix.indices == expected.indices).all()
    np.testing.assert_allclose(matrix.data, expected.data, rtol=1e-15)
    workload = spmv(matrix=str(path))
    assert len(workload.arguments["values"]) == expected.nnz


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEADER + "% note\n2 3 2\n1 3 4.5\n2 1 -1\n", [[0, 0, 4.5], [-1, 0, 0]]),
        (HEADER + "2 2 3\n1 1 1\n1 1 2\n2 2 5\n", [[3, 0], [0, 5]]),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n", [[0, 1], [1, 0]]),
        ("%%MatrixMarket matrix coordinate integer general\n1 2 1\n1 2 7\n", [[0, 7]]),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n", [[0, -3], [3, 0]]),
        ("%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 1 0\n2 1 4 2\n", [[1, 4], [4, 0]]),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", [[1, 3], [2, 4]]),
        ("%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n4\n", [[1, 2], [2, 4]]),
    ],
)  # fmt: skip
def test_kinds_of_file(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    matrix = matrices.read_matrix_market(written(tmp_path, text))
    assert matrix.data.dtype == np.float64
    np.testing.assert_array_equal(matrix.toarray(), expected)


BROKEN: dict[str, str | bytes] = {
    "empty file": "",
    "not the format": "hello\n",
    "binary": bytes(range(256)) * 10,
    "header only": HEADER,
    "negative size": HEADER + "-1 3 2\n1 1 1.0\n",
    "size beyond 64 bits": HEADER + "999999999999999999999 1 1\n1 1 1\n",
    "huge rows": HEADER + "900000000000 1 1\n1 1 1\n",
    "huge entries": HEADER + "9 9 100000000000\n1 1 1\n",
    "entries that are not there": HEADER + "9 9 150000000\n1 1 1\n",
    "huge array": "%%MatrixMarket matrix array real general\n99999999 99999999\n1\n",
    "truncated": HEADER + "3 3 2\n1 1 1.0\n",
    "too many lines": HEADER + "3 3 1\n1 1 1.0\n2 2 2.0\n",
    "index too large": HEADER + "3 3 1\n4 1 1.0\n",
    "index zero": HEADER + "3 3 1\n0 1 1.0\n",
    "words": HEADER + "3 3 1\na b c\n",
    "not a number": HEADER + "3 3 1\n1 1 nan\n",
    "infinite": HEADER + "3 3 1\n1 1 1e999\n",
    "unknown field": "%%MatrixMarket matrix coordinate quaternion general\n1 1 1\n1 1 1\n",
    "vector": "%%MatrixMarket vector coordinate real general\n3 1\n1 1\n",
    "symmetric but not square": (
        "%%MatrixMarket matrix coordinate real symmetric\n3 4 1\n1 4 1.0\n"
    ),
    "no rows": HEADER + "0 0 0\n",
    "no entries": HEADER + "3 3 0\n",
    "array of zeros": "%%MatrixMarket matrix array real general\n1 1\n0\n",
    "cut gzip": gzip.compress((HEADER + "3 3 1\n1 1 1.0\n").encode())[:30],
    "broken gzip": b"\x1f\x8b\x08\x00" + bytes(40),
    "gzip bomb": gzip.compress((HEADER + "1 1 1\n1 1 1\n").encode() + b"\n" * 40_000_000),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_hostile_file(tmp_path: Path, text: str | bytes) -> None:
    path = written(tmp_path, text)
    with pytest.raises(KernelError, match=r"m\.mtx") as caught:
        matrices.csr(str(path), 0)
    assert "\n" not in str(caught.value)


def test_complex_entries_keep_their_places(tmp_path: Path) -> None:
    text = "%%MatrixMarket matrix coordinate complex general\n2 2 2\n1 1 0 5\n2 1 4 2\n"
    assert matrices.read_matrix_market(written(tmp_path, text)).data.tolist() == [0.0, 4.0]


def test_value_beyond_float32(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "1 1 1\n1 1 1e300\n")
    assert spmv(matrix=str(path), dtype="float64").arguments["values"][0] == 1e300
    with pytest.raises(KernelError, match="float32"):
        spmv(matrix=str(path))


def test_an_assembled_matrix_is_kept_and_a_damaged_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    made = matrices.finite_element(500)
    for damage in (None, None, b"", b"PK broken"):
        for file in tmp_path.rglob("*.npz"):
            if damage is not None:
                file.write_bytes(damage)
        kept = matrices.csr("fem", 500)
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(kept, part), getattr(made, part))
            assert getattr(kept, part).dtype == getattr(made, part).dtype
    assert len(list(tmp_path.rglob("*.npz"))) == 1
    monkeypatch.setattr(matrices, "finite_element", lambda *_, **__: pytest.fail("assembled again"))
    assert (matrices.csr("fem", 500) != made).nnz == 0

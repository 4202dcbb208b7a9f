"""Polynomials of block counts: of counts that are known, and beside executions; costs by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calib.block_counts import Executions, block_report, busy_cycles, fit_exactly, requests
from experiments.kernels import graphs
from experiments.kernels.polybench import products, vectors
from experiments.kernels.rodinia import elimination
from memsim import load_machine
from memsim.errors import KernelError
from tracegen import count_blocks, trace_launches


def counts(*of: Callable[..., int]) -> Callable[[tuple[int, ...]], Any]:
    return lambda size: np.array([one(*size) for one in of])


def test_quasi_polynomials_are_found() -> None:
    """Sub-groups of rows, an unrolled loop and its remainder, a triangle, and a constant."""
    triangle = lambda n, m: sum(-(-(n - k) // 32) for k in range(n))  # noqa: E731
    of = (
        lambda n, m: n * -(-m // 32),
        lambda n, m: n * (m // 4),
        lambda n, m: n * (m % 4),
        triangle,
        lambda n, m: 7,
    )
    size = (1000, 777)
    forms = fit_exactly(counts(*of), ("n", "m"), size, 32)
    for form, count in zip(forms, of, strict=True):
        assert form.at({"n": 1000, "m": 777}) == count(*size)
        # Any size of the same residues, also one that nothing could count.
        assert form.at({"n": 1000 + 32, "m": 777 - 32}) == count(1032, 745)
    rows, unrolled, remainder, _, seven = forms
    # 777 is 9 modulo 32: 23 sub-groups hold the rest of the last one.
    assert str(rows) == "n m/32 + 23 n/32"
    assert str(unrolled) == "n m/4 - n/4"
    assert str(remainder) == "n"
    assert str(seven) == "7"
    labels = {"n": "n", "m": "m = k"}
    assert rows.where(labels) == "n = 8 mod 32, m = k = 9 mod 32"
    assert remainder.where(labels) == "n = 8 mod 32"


def test_what_is_no_polynomial_is_left_out() -> None:
    rng = np.random.default_rng(0)
    noise: dict[int, int] = {}
    of = (
        lambda n: noise.setdefault(n, int(rng.integers(100))),
        lambda n: n.bit_length(),
        lambda n: 2**n,
        lambda n: n**4,
        lambda n: n**5,
        lambda n: n if n < 200 else n + 1,  # another path, from the sixth period on
        lambda n: 3 * n,
    )
    forms = fit_exactly(counts(*of), ("n",), (4096,), 32)
    assert [k for k, form in enumerate(forms) if form] == [3, 6]
    # Constant along each size while the other one is small.
    assert fit_exactly(counts(min), ("n", "m"), (4096, 4096), 32) == [None]


@pytest.mark.parametrize(
    ("make", "size", "n_block"),
    [
        (products.gemm, {"ni": 170, "nj": 195, "nk": 183}, 17),
        (products.syrk, {"n": 200, "m": 190}, 17),  # a triangle
        (vectors.atax, {"nx": 1400, "ny": 1400}, 30),  # two launches
    ],
)
def test_polynomials_are_what_larger_executions_count(
    make: Callable[..., Any], size: dict[str, int], n_block: int
) -> None:
    runs = Executions(lambda row: make(**{name: int(value) for name, value in row.items()}))
    report = block_report(runs, [{name: str(value) for name, value in size.items()}], lambda _: {})
    executed = count_blocks(make(**size))
    assert len(report.rows) == n_block
    assert {row.method for row in report.rows} == {"exact"}
    assert [row.by_items for row in report.rows] == [(n,) for n in executed.by_items]
    assert [row.by_subgroups for row in report.rows] == [(n,) for n in executed.by_subgroups]


def test_the_matrix_product_at_sizes_that_never_ran() -> None:
    """Each of a million rows of tiles multiplies 16 numbers a turn."""
    runs = Executions(lambda row: products.gemm(**{k: int(v) for k, v in row.items()}))
    report = block_report(runs, [dict.fromkeys(("ni", "nj", "nk"), "1048576")])
    body = max(report.rows, key=lambda row: row.by_subgroups[0] or 0)
    assert body.by_subgroups == (2**60 // 32 // 16,)
    assert body.by_items == (2**60 // 16,)
    # The three are one size, as they are the same wherever a count is asked for.
    assert body.formula == "ni^3/512 for ni = nj = nk = 0 mod 32"


def test_reasons_for_learning() -> None:
    runs = Executions(lambda row: graphs.spmv(int(row["n"])))
    rows = block_report(runs, [{"n": "1000000"}]).rows
    unknown = [row for row in rows if row.method == "unknown"]
    assert all("it depends on loaded values" in row.reason for row in unknown)
    # The first block is every work-item's, and the last one every row's.
    assert (rows[0].method, rows[0].by_subgroups) == ("exact", (-(-1000000 // 128) * 4,))
    assert (rows[-1].method, rows[-1].by_items) == ("exact", (1000000,))
    assert len(unknown) > 5


def test_other_code_at_another_size_is_refused() -> None:
    def load(row: Any) -> Any:
        return products.gemm(64, 64, 64) if row["n"] == "1" else vectors.mvt(64)

    runs = Executions(load)
    runs.counts({"n": "1"})
    with pytest.raises(KernelError, match="at n=2 the kernel is compiled to other code"):
        runs.counts({"n": "2"})


@pytest.mark.parametrize("workload", [elimination.lud(32), graphs.spmv(300)], ids=["lud", "spmv"])
def test_requests_are_those_of_full_traces(workload: Any) -> None:
    """A trace has the requests with a lane; where all lanes are switched off, the code has an instruction more."""
    executed = count_blocks(workload, "a100")
    counted = requests(executed.blocks, executed.by_subgroups.tolist())
    traced = Counter[str]()
    for trace in trace_launches(workload, "a100", groups=10_000):
        traced.update(trace.sites[site].direction for site in trace.site if site >= 0)
    for direction in ("load", "store"):
        assert counted["global", direction] == traced[direction] > 0


def test_busy_cycles_by_hand() -> None:
    """A V100's core issues 64 fp32 lanes a cycle and 32 of memory: ten turns of gemm's inner loop."""
    machine = load_machine("v100")
    blocks = count_blocks(products.gemm(8, 32, 64), machine).blocks
    (body,) = [b for b in blocks if len(b.accesses) == 32]
    cycles = busy_cycles(blocks, [10.0 * (b is body) for b in blocks], machine)
    lanes = machine.subgroup_size
    # 16 products and 17 additions of addresses, which share their unit.
    assert body.work["fma"] == 33
    for unit, n, rate in (("FMA", 33, "fp32_fma"), ("load and store", 32, "load_store_lanes")):
        assert cycles[unit] == pytest.approx(10 * n * lanes / machine.throughputs[rate])

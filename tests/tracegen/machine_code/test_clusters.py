"""Blocks of clusters: values against NumPy and the twin, accesses against counts by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import memsim
import tracegen
from memsim.errors import KernelError
from memsim.trace import Trace
from tests.support import sass_runs
from tests.support.compilers import needs_nvidia
from tests.tracegen.machine_code.test_tensor_memory import image
from tracegen.executed.launches import bound_launches, checked
from tracegen.options import TraceOptions

pytestmark = needs_nvidia
TEXT = Path(__file__).parent / "clusters.cu"
TARGETS = ["h100", "b200", "rtx5090"]
RNG = np.random.default_rng(0)


def workload(
    kernel: str, arguments: Any, wanted: dict[str, Any] | None = None, **launch: Any
) -> Any:
    def check(outputs: Any) -> None:
        for name, value in (wanted or {}).items():
            np.testing.assert_array_equal(outputs[name], value, name)

    return tracegen.CudaWorkload(
        path=TEXT, kernel=kernel, arguments=arguments, check=check, **launch
    )


def added(n_blocks: int, in_cluster: int, kernel: str, **launch: Any) -> Any:
    x = RNG.integers(0, 100, (n_blocks // in_cluster, in_cluster, 256)).astype(np.float32)
    arguments = {"x": x.ravel(), "y": np.zeros(x.size, np.float32)}
    wanted = (x + np.roll(x, -1, axis=1)).ravel()
    return workload(kernel, arguments, {"y": wanted}, grid=n_blocks, block=256, **launch)


def histogram() -> Any:
    x = RNG.integers(0, 256, 5000).astype(np.int32)
    arguments = {"x": x, "bins": np.zeros(256, np.int32), "n": 5000}
    return workload("histogram", arguments, {"bins": np.bincount(x, minlength=256)}, grid=8, block=256)  # fmt: skip


def sent() -> Any:
    x = RNG.random((3, 2, 128), np.float32)
    arguments = {"x": x.ravel(), "y": np.zeros(x.size, np.float32)}
    return workload("sent", arguments, {"y": x[:, ::-1].ravel()}, grid=6, block=128)


def brought() -> Any:
    x = RNG.random((3, 1, 256), np.float32)
    both = np.repeat(x, 2, axis=1).ravel()
    arguments = {"x": x.ravel(), **{name: np.zeros(6 * 256, np.float32) for name in "yz"}}
    return workload("brought", arguments, {"y": both, "z": both}, grid=6, block=256)


KERNELS = {
    "pairs": lambda: added(6, 2, "pairs"),
    "three as launched": lambda: added(6, 3, "as_launched", cluster=3),
    "histogram": histogram,
    "sent": sent,
    "brought": brought,
}


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        (name, machine)
        for name in KERNELS
        for machine in TARGETS
        if (name, machine) != ("brought", "rtx5090")  # sm_120 has no copies to several blocks
    ],
)
def test_values_are_those_of_numpy(name: str, machine: str) -> None:
    assert "own check" in checked(KERNELS[name](), memsim.load_machine(machine), TraceOptions())


@pytest.mark.parametrize("name", KERNELS)
def test_the_twin_leaves_the_same(name: str) -> None:
    twin_is_right(KERNELS[name](), memsim.load_machine("h100"))


def twin_is_right(made: Any, machine: Any) -> None:
    (bound,) = bound_launches(made, machine, TraceOptions())
    arrays = {k: v for k, v in made.arguments.items() if isinstance(v, np.ndarray)}
    values = [k if k in arrays else np.array([v]) for k, v in made.arguments.items()]
    in_cluster = int(np.prod(bound.cluster))
    left = sass_runs.executed(
        bound.code, arrays, values, grid=made.grid, block=made.block, cluster=in_cluster, limit=10**7
    )  # fmt: skip
    made.check(left)


@pytest.mark.parametrize("machine", TARGETS)
def test_blocks_are_told_where_they_are(machine: str) -> None:
    """Clusters of three by two; a third of a block's number is no exact float."""
    out = np.zeros((4, 9, 8), np.uint32)
    y, x = np.indices(out.shape[:2])
    rank = x % 3 + 3 * (y % 2)
    wanted = np.stack([rank, 6 + 0 * x, x % 3, y % 2, x // 3, y // 2, 3 + 0 * x, 2 + 0 * x], axis=2)
    launch = {"grid": (9, 4), "block": 32, "cluster": (3, 2)}
    made = workload("told", {"out": out}, {"out": wanted}, **launch)
    checked(made, memsim.load_machine(machine), TraceOptions())


def granules(trace: Trace, array: str) -> list[set[int]]:
    """Of each group of a trace, the sectors of an array from its beginning on."""
    base = next(one.base_bytes for one in trace.arrays if one.name == array) >> 5
    found = [set() for _ in range(trace.n_groups)]
    groups = np.unique(trace.workgroup)
    for subgroup, group in enumerate(np.searchsorted(groups, trace.workgroup).tolist()):
        begin, end = trace.subgroup_offset[subgroup : subgroup + 2]
        for access in range(begin, end):
            if trace.site[access] >= 0 and trace.sites[trace.site[access]].array == array:
                first, last = trace.granule_offset[access : access + 2]
                found[group] |= {int(one) - base for one in trace.granule[first:last]}
    return found


@pytest.mark.parametrize("machine", ["h100", "b200"])
def test_what_is_brought_to_several_blocks_is_read_once(machine: str) -> None:
    """Each of six blocks brings 16 sectors to both blocks of its pair: to each half of them."""
    trace = tracegen.trace(brought(), machine)
    loads = granules(trace, "x")
    assert [len(one) for one in loads] == [16] * 6
    assert loads[0] | loads[1] == set(range(32))
    assert not loads[0] & loads[1]
    assert len(trace.granule) == 6 * (16 + 2 * 32)


def test_what_one_block_passes_on_decides_what_another_one_loads() -> None:
    """Of each block's 64 numbers, each in a sector of its own, the other block of its pair has the list."""
    order = RNG.permutation(256).astype(np.int32)
    x = RNG.random(2048, np.float32)
    swapped = order.reshape(2, 2, 64)[:, ::-1].ravel()
    arguments = {"list": order, "x": x, "y": np.zeros(256, np.float32)}
    made = workload("passed_on", arguments, {"y": x[8 * swapped]}, grid=4, block=64)
    assert "own check" in checked(made, memsim.load_machine("h100"), TraceOptions())
    loads = granules(tracegen.trace(made, "h100"), "x")
    assert loads == [set(part.tolist()) for part in swapped.reshape(4, 64)]


def test_groups_that_are_copied_or_chosen_access_the_same() -> None:
    """Of 400 blocks each loads and stores its own 32 sectors, whether all are traced or only those from the middle of a cluster on."""
    made = added(400, 2, "pairs")
    trace = tracegen.trace(made, "h100", groups=range(400))
    for array in "xy":
        assert granules(trace, array) == [set(range(32 * k, 32 * k + 32)) for k in range(400)]
    some = tracegen.trace(made, "h100", groups=[3, 4, 5, 201])
    for array in "xy":
        wanted = [set(range(32 * k, 32 * k + 32)) for k in (3, 4, 5, 201)]
        assert granules(some, array) == wanted
    per_group = np.bincount(some.workgroup, minlength=202)
    assert per_group[[3, 4, 5, 201]].tolist() == [8] * 4


def test_groups_are_numbered_cluster_by_cluster() -> None:
    """Of a grid of 4 x 4 blocks in clusters of 1 x 2, the second group is the one below the first."""
    out = np.zeros((4, 4, 8), np.uint32)
    made = workload("told", {"out": out}, grid=(4, 4), block=32, cluster=(1, 2))
    stores = granules(tracegen.trace(made, "h100"), "out")
    assert [min(one) for one in stores] == [
        4 * (2 * row + below) + column for row in (0, 1) for column in range(4) for below in (0, 1)
    ]


@pytest.mark.parametrize(
    ("made", "machine", "message"),
    [
        (lambda: workload("pairs", {"x": np.zeros(768, np.float32), "y": None}, grid=3, block=256), "h100",
         "kernel pairs runs in clusters of 2 x 1 x 1 blocks, which do not divide its grid of 3 x 1 x 1"),
        (lambda: added(8, 4, "pairs", cluster=4), "h100",
         "kernel pairs is compiled for clusters of 2 x 1 x 1 blocks, not 4 x 1 x 1"),
        (lambda: added(32, 32, "as_launched", cluster=32), "h100",
         "kernel as_launched may run in clusters of up to 16 blocks, got 32 x 1 x 1"),
        (lambda: workload("beyond", {"y": np.zeros(256, np.float32)}, grid=2, block=128), "h100",
         r"clusters.cu:\d+: access .* is out of bounds: .* local memory \(work-item 0 of group 0\)"),
        (lambda: workload("waits", {"y": np.zeros(2, np.float32)}, grid=2, block=32), "h100",
         "group 0 waits for ever"),
        (lambda: added(6, 3, "as_launched", cluster="two"), "h100", "cluster must be"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_named(made: Any, machine: str, message: str) -> None:
    with pytest.raises(KernelError, match=message) as error:
        tracegen.trace(made(), machine)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("machine", ["a100", "mi300x"])
def test_other_gpus_have_no_clusters(machine: str) -> None:
    source = 'extern "C" __global__ void k(float *y) { y[threadIdx.x] = 1; }'
    made = tracegen.CudaWorkload(
        source=source, arguments={"y": np.zeros(32, np.float32)}, grid=2, block=32, cluster=2
    )
    with pytest.raises(KernelError, match=r"kernel k: .* ha(s|ve) no clusters of "):
        tracegen.trace(made, machine)


PAIRS = Path(__file__).parent / "group_pairs.cu"


def is_right(made: Any) -> None:
    """By the interpreter, and by its twin."""
    machine = memsim.load_machine("b200")
    assert "own check" in checked(made, machine, TraceOptions())
    twin_is_right(made, machine)


def paired(n: int, swizzle: str, form: str) -> Any:
    """Two products of 256 rows and n columns, of which a block has half each."""
    depth = 16
    a, b = (RNG.integers(-4, 5, (rows, depth)) for rows in (256, n))
    wanted = (2.0 * a @ b.T).astype(np.float32)
    halves = [[image(half, form, swizzle, False) for half in np.split(one, 2)] for one in (a, b)]
    tiles = [np.concatenate([tile for tile, _ in one]) for one in halves]
    number = {"f16": 0, "bf16": 1}[form]
    arguments = {
        "a": tiles[0], "b": tiles[1], "d": np.zeros(wanted.size, np.uint32), "high_a": halves[0][0][1], "high_b": halves[1][0][1],
        "kind": 1 << 4 | number << 7 | number << 10 | n >> 3 << 17 | 256 >> 4 << 24,
        "columns": n, "n_a": tiles[0].size // 32, "n_b": tiles[1].size // 32,
    }  # fmt: skip

    def check(outputs: Any) -> None:
        np.testing.assert_array_equal(outputs["d"].view(np.float32).reshape(wanted.shape), wanted)

    return tracegen.CudaWorkload(
        path=PAIRS, kernel="product", arguments=arguments, check=check, grid=2, block=128
    )


@pytest.mark.parametrize(("n", "swizzle", "form"), [(64, "32B", "f16"), (32, "none", "bf16")])
def test_products_of_pairs(n: int, swizzle: str, form: str) -> None:
    is_right(paired(n, swizzle, form))


def test_a_product_of_a_pair_is_half_of_each() -> None:
    """256 x 64 x 16 multiply-adds, twice; the group that starts them has half, for the other one's tensor cores do the rest."""
    trace = tracegen.trace(paired(64, "32B", "f16"), "b200")
    assert trace.work is not None
    assert trace.launch.cluster_groups == 2
    kind = next(k for k, name in enumerate(trace.work_kinds) if name.startswith("tcgen05"))
    assert trace.work_table[trace.work, kind].sum() * 32 == 128 * 64 * 16 * 2


def test_copies_whose_bytes_one_group_of_a_pair_awaits() -> None:
    x = RNG.random((160, 32), np.float32)

    def check(outputs: Any) -> None:
        wanted = [np.concatenate([x[32 * k : 32 * k + 32], x[128:]]) for k in range(4)]
        np.testing.assert_array_equal(outputs["y"], np.concatenate(wanted).ravel())

    arguments = {"x": tracegen.tensor_map(x, (32, 32)), "y": np.zeros(4 * 2048, np.float32)}
    made = tracegen.CudaWorkload(
        path=PAIRS, kernel="brought", arguments=arguments, check=check, grid=4, block=128
    )
    assert "own check" in checked(made, memsim.load_machine("b200"), TraceOptions())
    loads = granules(tracegen.trace(made, "b200"), "x.elements")
    assert [len(one) for one in loads] == [128 + 64] * 4  # its own tile, and half of what both have

"""The tracer that runs nothing against the one that runs an instrumented copy: equal, array for array."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracegen
from experiments.kernels import (
    black_scholes,
    fft,
    lattice_boltzmann,
    matmul,
    stencil,
    stream,
    transpose,
)
from memsim.errors import KernelError
from memsim.machine.file import load_machine
from memsim.trace.model import COLUMN_DTYPES, Trace
from tests.support import loopy_kernels as kernels
from tests.support import random_affine
from tests.support.oclgrind import compared_kernels
from tracegen.devices import choice as opencl
from tracegen.instrumented.host import prepare
from tracegen.instrumented.run import DeviceRun
from tracegen.instrumented.source_run import launches
from tracegen.options import TraceOptions
from tracegen.polyhedral import run
from tracegen.polyhedral.conditions import NotStatic
from tracegen.polyhedral.host import static
from tracegen.polyhedral.run import PolyhedralRun
from tracegen.record import record
from tracegen.workloads.workload import Workload

Make = Callable[[], Workload]

STATIC: dict[str, Make] = {
    "matmul tiled, ragged": lambda: matmul.tiled(41),
    "stencil7": lambda: stencil.stencil7(70, 9, 4),
    "transpose naive, ragged": lambda: transpose.naive(41, 16, "float64"),
    "transpose tiled, ragged": lambda: transpose.tiled(41, pad=False),
    "fft": lambda: fft.fft(64),
    "black_scholes": lambda: black_scholes.black_scholes(1000),
    "d3q19": lambda: lattice_boltzmann.d3q19(nx=20, ny=6, nz=5, layout="aos"),
    "copy": lambda: kernels.copy(100, group=96, stride=2),
    "two_launches": lambda: kernels.two_launches(70),
    "accumulate": lambda: kernels.accumulate(70),
    "vectors": lambda: kernels.vectors(40),
    "read_twice": lambda: kernels.read_twice(40),
    "unrolled": lambda: kernels.unrolled(70),
    "called": lambda: kernels.called(8),
    "loop_of_launches": kernels.loop_of_launches,
    "total": lambda: kernels.total(9),
    "complex_product": lambda: kernels.complex_product(70),
    **{
        f"compared {name}": getattr(compared_kernels, name)
        for name in (
            *("update_in_place", "sub_word", "triangle", "invariant_in_open_loop", "stored_twice"),
        )
    },
}
REFUSED: dict[str, tuple[Make, str]] = {
    "ragged": (
        lambda: kernels.ragged([1, 2, 3]),
        r"access a\[j\] .* runs in a loop over j whose start depends on the value of start\[i\]",
    ),
    "nested": (
        lambda: kernels.nested(8),
        r"access n_columns\[\(i \+ j\) % n\] .* over j whose end depends on the value of n_rows\[i\]",
    ),
    "gather": (
        lambda: kernels.gather(40, np.zeros(40)),
        r"access x\[ind\[i\]\] .* has an index that depends on the value of ind\[i\]",
    ),
    "either": (
        lambda: kernels.either(40),
        r"access z\[i\] .* is made under a condition that depends on the value of x\[i\]",
    ),
    "histogram": (
        lambda: kernels.histogram(40),
        r"access atomic bins\[data\[i\]\] .* depends on the value of data\[i\]",
    ),
    "predicated": (
        compared_kernels.predicated,
        r"access a\[i\] .* runs under a condition that depends on the value of flag\[i\]",
    ),
}


def differences(one: Trace, other: Trace) -> list[str]:
    """The fields that two traces disagree on, provenance apart."""
    columns = [(name, getattr(one, name), getattr(other, name)) for name in COLUMN_DTYPES]
    result = [
        name
        for name, a, b in columns
        if (a is None) != (b is None) or not (a is None or np.array_equal(a, b))
    ]
    plain = ("sites", "arrays", "launch", "subgroup_size", "whole", "generated_source")
    return result + [
        name for name in (*plain, "user_source") if getattr(one, name) != getattr(other, name)
    ]


def assert_equal(one: Trace, other: Trace) -> None:
    assert differences(one, other) == []


def assert_tracers_agree(workload: Workload, context: Any, choices: Sequence[TraceOptions]) -> None:
    """Every launch, both ways, from one code generation."""
    prepared = prepare(workload, context)
    for options in choices:
        walked = record(launches(static(prepared), options, PolyhedralRun), options, every=True)
        ran = record(launches(prepared, options, DeviceRun), options, every=True)
        assert len(walked) == len(ran) > 0
        for (one,), (other,) in zip(walked, ran, strict=True):
            assert_equal(one, other)
            assert one.provenance["tracer"] == "polyhedral"
            assert other.provenance["tracer"] == "instrumented run"


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", STATIC)
def test_every_launch_of_every_static_kernel(context: Any, name: str) -> None:
    choices = [TraceOptions(subgroup_size=size) for size in (32, 64)]
    choices.append(TraceOptions(subgroup_size=32, reduced=False))
    assert_tracers_agree(STATIC[name](), context, choices)


def test_a_difference_would_be_seen(context: Any) -> None:
    walked = tracegen.trace(kernels.copy(64), tracer="polyhedral")
    for name in ("waits", "byte_mask", "lanes"):
        column = getattr(walked, name).copy()
        column[-1] -= 1
        assert differences(walked, walked.replace(**{name: column})) == [name]
    other = tracegen.trace(kernels.copy(64, stride=2), context=context)
    assert {"granule", "sites"} <= set(differences(walked, other))


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    ("make", "whole"),
    [
        (lambda: stencil.stencil7(330, 250, 66), [False] * 2),
        (STATIC["transpose naive, ragged"], [True]),
    ],
)
def test_snapshots(context: Any, make: Make, whole: list[bool]) -> None:
    machine = load_machine("v100")
    walked = tracegen.trace_snapshots(make(), machine, snapshots=2, tracer="polyhedral")
    ran = tracegen.trace_snapshots(make(), machine, snapshots=2, context=context)
    assert [trace.whole for trace in ran] == whole
    for one, other in zip(walked, ran, strict=True):
        assert_equal(one, other)
    for groups in (3, [5, 2, 7]):
        assert_equal(
            tracegen.trace(make(), machine, groups=groups, tracer="polyhedral"),
            tracegen.trace(make(), machine, groups=groups, context=context),
        )


def test_the_budget_cuts_at_the_same_group(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of `copy` requests 64 granules, so that 1500 groups fit: more than two waves of 640
    groups, fewer than four."""
    monkeypatch.setattr("tracegen.recording.snapshot.BUDGET_GRANULES", 1500 * 64 + 10)
    machine = load_machine("v100")
    walked = tracegen.trace(stream.copy(1_000_000), machine, tracer="polyhedral")
    assert walked.n_groups == 1500
    assert_equal(walked, tracegen.trace(stream.copy(1_000_000), machine, context=context))


@settings(max_examples=2)
@given(seed=st.integers(0, 2**32))
def test_random_kernels(context: Any, seed: int) -> None:
    check_random(context, seed)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=250)
@given(seed=st.integers(0, 2**32))
def test_many_random_kernels(context: Any, seed: int) -> None:
    check_random(context, seed)


def check_random(context: Any, seed: int) -> None:
    choices = [TraceOptions(subgroup_size=size) for size in (8, 32, 64)]
    choices.append(TraceOptions(subgroup_size=16, reduced=False))
    assert_tracers_agree(random_affine.workload(seed), context, choices)


@pytest.mark.parametrize("make", [STATIC["matmul tiled, ragged"], compared_kernels.triangle])
def test_in_pieces(make: Make) -> None:
    whole = tracegen.trace(make(), tracer="polyhedral")
    for memory_bytes in (64, 5000):
        pieces = tracegen.trace(make(), tracer="polyhedral", memory_bytes=memory_bytes)
        assert_equal(whole, pieces)


def one_item(n: int) -> tracegen.Workload:
    """One work-item that adds the products of two arrays: 2 n loads and a store."""
    kernel = kernels.make(
        "{[i, j]: 0 <= i < 1 and 0 <= j < n}",
        "out[i] = sum(j, a[j] * b[j])",
        "n: i4; a, b: f4[n]; out: f4[1] out",
    )
    kernel = lp.tag_inames(kernel, "i:g.0")
    zeros = np.zeros(n, np.float32)
    return tracegen.Workload(kernel, {"n": np.int32(n), "a": zeros, "b": zeros})


def test_memory_is_bounded_whatever_one_work_item_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The room for accesses stays as large as memory_bytes allows, and the walk stops inside the work-item."""
    rooms: list[int] = []
    room = run.room

    def recorded(*lengths: int) -> Any:
        made = room(*lengths)
        rooms.append(sum(column.nbytes for column in made))
        return made

    monkeypatch.setattr(run, "room", recorded)
    memory = 1 << 18
    trace = tracegen.trace(one_item(100_000), tracer="polyhedral", memory_bytes=memory)
    assert trace.n_access == 200_001
    assert np.bincount(trace.site).tolist() == [100_000, 100_000, 1]
    assert len(rooms) == 1
    assert rooms[0] < memory


def test_a_trace_keeps_no_room_that_it_does_not_use() -> None:
    """Hundreds of launches are kept at once; reserved memory counts against limits as used memory does."""
    trace = tracegen.trace(one_item(100), tracer="polyhedral")
    for name in COLUMN_DTYPES:
        column = getattr(trace, name)
        if column is not None:
            assert column.base is None or column.base.nbytes < 100_000, name


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, match = REFUSED[name]
    with pytest.raises(NotStatic, match=match) as caught:
        tracegen.trace(make(), tracer="polyhedral")
    assert "\n" not in str(caught.value)


def test_auto_runs_what_needs_a_run_and_nothing_else(context: Any) -> None:
    def tracer(workload: Workload, **options: Any) -> Any:
        return tracegen.trace(workload, **options).provenance["tracer"]

    assert tracer(REFUSED["gather"][0]()) == "instrumented run"
    assert tracer(kernels.copy(64)) == "polyhedral"
    assert tracer(kernels.copy(64), tracer="instrumented") == "instrumented run"
    assert tracer(kernels.copy(64), context=context) == "instrumented run"
    with pytest.raises(
        KernelError, match="tracer must be one of auto, polyhedral, instrumented, machine, got 'x'"
    ):
        tracer(kernels.copy(64), tracer="x")


def mixed_launches() -> Workload:
    """A static launch, then one that gathers."""
    kernel = kernels.make(
        "{[i, j]: 0 <= i, j < 64}",
        """
        middle[i] = 3 * a[i] {id=scale}
        ... gbarrier {id=meet, dep=scale}
        b[j] = middle[ind[j]] {dep=meet}
        """,
        "a, middle, b: f4[64]; ind: i4[64]",
    )
    kernel = kernels.groups_of(kernels.groups_of(kernel, 32), 32, "j")
    zeros = np.zeros(64, np.float32)
    return Workload(kernel, {"a": zeros, "ind": np.arange(64, dtype=np.int32), "middle": zeros})


def test_one_launch_of_several(context: Any) -> None:
    first = tracegen.trace(mixed_launches(), launch=0)
    assert first.provenance["tracer"] == "polyhedral"
    assert_equal(first, tracegen.trace(mixed_launches(), launch=0, context=context))
    assert tracegen.trace(mixed_launches(), launch=1).provenance["tracer"] == "instrumented run"
    assert [t.provenance["tracer"] for t in tracegen.trace_launches(mixed_launches())] == [
        "instrumented run"
    ] * 2
    with pytest.raises(NotStatic, match=r"access middle\[ind\[j\]\]"):
        tracegen.trace_launches(mixed_launches(), tracer="polyhedral")
    with pytest.raises(KernelError, match="has several launches"):
        tracegen.trace(mixed_launches(), tracer="polyhedral")
    with pytest.raises(KernelError, match="has no launch 2"):
        tracegen.trace(mixed_launches(), tracer="polyhedral", launch=2)


def shifted(shift: int, columns: int = 0) -> Workload:
    """y[i] = x[at], or x[i, at], where at is an integer variable that Loopy's check cannot see."""
    shape, index = ("n", "at") if not columns else (f"n, {columns}", "i, at")
    value = "i" if not columns else "i % 3"
    kernel = kernels.make(
        "{[i]: 0 <= i < n}",
        f"""
        <int32> at = {value} + {shift}
        y[i] = x[{index}]
        """,
        f"x: f4[{shape}]; y: f4[n] out; n: i4",
    )
    x = np.zeros((40, columns) if columns else 40, np.float32)
    return Workload(kernels.groups_of(kernel, 64), {"x": x})


@pytest.mark.parametrize(
    ("workload", "match"),
    [
        (shifted(1), r"x\[at\] is out of bounds: index 40 in array x of shape \(40,\)"),
        (shifted(-1), r"x\[at\] is out of bounds: index -1 in array x of shape \(40,\)"),
        (shifted(1, 3), r"x\[i, at\] is out of bounds: index 3 of axis 1 in array x of shape"),
        (shifted(-1, 3), r"x\[i, at\] is out of bounds: index -1 of axis 1 in array x of shape"),
    ],
)
def test_out_of_bounds(context: Any, workload: Workload, match: str) -> None:
    messages = []
    for options in ({"tracer": "polyhedral"}, {"context": context}):
        with pytest.raises(KernelError, match=match) as caught:
            tracegen.trace(workload, **options)  # type: ignore[arg-type]
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_just_inside(context: Any) -> None:
    walked = tracegen.trace(shifted(0, 3), tracer="polyhedral")
    assert_equal(walked, tracegen.trace(shifted(0, 3), context=context))


def test_arguments_that_loopy_refuses(context: Any) -> None:
    good = kernels.copy(64)
    wrong = [
        Workload(good.kernel, {**good.arguments, "x": np.zeros(63, np.float32)}),
        kernels.copy(0),
    ]
    for workload in wrong:
        with pytest.raises(KernelError) as ran:
            tracegen.trace(workload, context=context)
        with pytest.raises(KernelError) as walked:
            tracegen.trace(workload, tracer="polyhedral")
        assert str(walked.value) == str(ran.value)


WITHOUT_OPENCL = """
import json, sys
import pyopencl as cl

def refuse(*_, **__):
    raise AssertionError("OpenCL was called")

for name in ("get_platforms", "create_some_context", "Context", "CommandQueue", "Program", "Buffer"):
    setattr(cl, name, refuse)

import tracegen
workload = tracegen.load_kernel(sys.argv[1] + ":tiled", {"n": "80"})
print(json.dumps(tracegen.trace(workload, "v100", tracer="polyhedral").granule.tolist()))
"""


def test_nothing_of_opencl_is_called(tmp_path: Path, context: Any) -> None:
    absent = {"OCL_ICD_VENDORS": str(tmp_path), "OCL_ICD_FILENAMES": ""}
    environment = {**os.environ, **absent, opencl.VARIABLE: "a platform that is not there"}
    command = [sys.executable, "-c", WITHOUT_OPENCL, transpose.__file__]
    child = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert child.returncode == 0, child.stderr
    ran = tracegen.trace(transpose.tiled(80), load_machine("v100"), context=context)
    assert json.loads(child.stdout) == ran.granule.tolist()


@pytest.mark.parametrize("tracer", ["polyhedral", "instrumented"])
def test_lanes_that_rely_on_lockstep_are_a_race_here(tracer: str) -> None:
    """Loopy is told to leave out the barrier; the same kernel with one is no race."""
    for sync, races in ((",nosync=w@local", 1), ("", 0)):
        local = lp.TemporaryVariable("t", np.float32, 32, address_space=lp.AddressSpace.LOCAL)
        kernel = kernels.make(
            "{[i]: 0 <= i < 32}",
            f"t[i] = x[i] {{id=w}}\ny[i] = t[31 - i] {{dep=w{sync}}}",
            [*kernels.declared("x: f4[32]; y: f4[32] out"), local],
        )
        made = Workload(lp.tag_inames(kernel, "i:l.0"), {"x": np.ones(32, np.float32)})
        trace = tracegen.trace(made, tracer=tracer)
        said = trace.provenance.get("compiler", {}).get("stand_ins", [])
        assert len(said) == races
        assert all(one.startswith("t passes from lane to lane") for one in said)

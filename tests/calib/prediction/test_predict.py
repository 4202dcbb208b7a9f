"""memsim predict: consistent numbers, complete pictures and pages, and errors of one line."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from calib.prediction.launch_time import time_data
from calib.prediction.options import PredictOptions
from calib.prediction.prediction import (
    Prediction,
    as_json,
    predict,
    predict_changed,
    program_of,
)
from calib.prediction.report import blocks_table, page
from calib.prediction.time_model import Timing
from calib.prediction.what_if import WhatIfError, parse
from experiments.kernels import matmul, stencil, stream
from memsim.errors import MemsimError, ReplayError
from memsim.machine import Machine, load_machine
from memsim.machine.parts import Translation
from memsim.report import bound, read_time, seconds
from memsim.trace import Trace
from tests.support import cuda_kernels
from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.kernel_matrix import SCALE, SCALE_ARGS

KERNELS = Path(matmul.__file__).parent
TILED = f"{KERNELS / 'matmul.py'}:tiled"
SMALL = ("--set", "n=64", "--trials", "4", "--jobs", "1")
V100 = load_machine("v100")


COUNTED = """
__global__ void turns(float *y, const float *x, int n) {
  float sum = 0;
  #pragma unroll 1
  for (int turn = 0; turn < n; ++turn) { %s }
  y[threadIdx.x] = sum;
}
"""
STORE_FIRST = "y[threadIdx.x] = sum; sum += x[threadIdx.x];"
LOAD_FIRST = "float value = x[threadIdx.x]; y[threadIdx.x] = sum; sum += value;"
TURNS = 20


def traced(workload: Any, machine: Machine = V100, **options: Any) -> list[Trace]:
    return tracegen.trace_snapshots(workload, machine, snapshots=1, **options)


def predicted(traces: list[Trace], machine: Machine = V100, **settings: Any) -> Prediction:
    return predict(traces, machine, PredictOptions(**{"trials": 4, "jobs": 1, **settings}))


@functools.cache
def copied(n: int, block_size: int = 256) -> list[Trace]:
    return traced(stream.copy(n=n, block_size=block_size))


@pytest.mark.parametrize(
    ("machine", "body", "waits"),
    [
        pytest.param("mi210", STORE_FIRST, TURNS + 1, marks=needs_amd),
        pytest.param("mi210", LOAD_FIRST, 1, marks=needs_amd),
        pytest.param("rx7900xtx", STORE_FIRST, 1, marks=needs_amd),
        pytest.param("v100", STORE_FIRST, 1, marks=needs_nvidia),
    ],
)
def test_stores_are_waited_for_where_a_counter_has_them_among_the_loads(
    machine: str, body: str, waits: int
) -> None:
    """Cycles that each cycle of a store's wait adds: in each turn before gfx10, if the load that is waited for follows the store;
    else, and on other GPUs, for the last store alone."""
    arrays = np.zeros(64, np.float32), np.ones(64, np.float32)
    given = cuda_kernels.workload(COUNTED % body, *arrays, np.int32(TURNS), block=64)
    on = load_machine(machine)
    traces = traced(given, on)
    one, two = (
        predicted(traces, on.replace(store_wait_cycles=cycles)).seconds.mean * on.clock_hz
        for cycles in (1000.0, 2000.0)
    )
    assert two - one == pytest.approx(waits * 1000)


def test_a_kernel_is_traced_and_changed_by_name() -> None:
    """The same numbers as from a trace, and as from the text of a what-if."""
    ours = predict(matmul.tiled(64), "v100", trials=4, jobs=1)
    assert ours.seconds.mean == pytest.approx(predict(ours.traces, V100, ours.options).seconds.mean)
    assert ours.limited_by == ours.timing.binds
    expected = predict_changed(ours, ours.traces, ours.options, parse("l1=64KiB,no-barriers", V100))
    assert ours.what_if(l1="64 KiB", barriers=False).seconds == expected.seconds
    assert ours.what_if(l1_size="64 KiB", barriers=False).seconds == expected.seconds
    assert re.match(r"<\S+ on \S+: [\d.]+ [mu]?s .*; limited by .*>$", repr(expected))
    assert ours.what_if("l1=64KiB", barriers=False).seconds == expected.seconds
    with pytest.raises(WhatIfError, match="no change"):
        ours.what_if(l9="2x")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One prediction of the tiled product with everything that can be written."""
    from memsim.commands.cli import main

    folder = tmp_path_factory.mktemp("predict")
    out = {name: folder / f"p.{name}" for name in ("json", "html", "png")}
    code = main(
        [
            *("predict", TILED, "-m", "v100", *SMALL),
            *("--what-if", "blocks_per_core=1,l1=64KiB,no-barriers", "--what-if", "no-latency"),
            *(word for name, path in out.items() for word in (f"--{name}", str(path))),
        ]
    )
    assert code == 0
    return {"folder": folder, **json.loads(out["json"].read_text())}


def test_the_parts_make_the_whole(document: Any) -> None:
    time = document["time_s"]
    low, high = time["ci95"]
    assert low <= time["mean"] <= high
    # A block ends at each of two barriers a tile; the compiled code may wait for the loads of both tiles apart,
    # or for none of them.
    assert 2 * 64 / 16 + 1 <= document["nbb"] <= 4 * 64 / 16 + 1
    assert sum(block["runs"] for block in document["blocks"]) == document["nbb"] + 1  # the start
    for floor in document["floors_s"].values():
        assert 0 < floor <= time["mean"]
    residency = document["residency"]
    assert (residency["tlp"], residency["blp"], residency["nb"]) == (8, 1, 16)
    # 16 groups of 8 x 32 work-items on 80 cores: one on each, which could hold 2048.
    assert (residency["limited_by"], residency["occupancy"]) == ("launch", 256 / 2048)
    assert {row["site"] for row in document["accesses"]} == {
        "a[a_dim_0 + 16*i_outer, a_dim_1 + 16*k_outer]",
        "b[b_dim_0 + 16*k_outer, b_dim_1 + 16*j_outer]",
    }
    for row in document["accesses"]:
        assert row["runs"] == 4
        assert 0 <= row["not_hidden"] <= 1
        assert row["visible_cycles"] == pytest.approx(4 * row["latency_cycles"] * row["not_hidden"])


def test_what_if_changes_the_time_in_the_expected_direction(document: Any) -> None:
    first, second = document["what_if"]
    assert first["changes"] == "blocks_per_core=1,l1=64KiB,no-barriers"
    assert first["time_s"]["mean"] < document["time_s"]["mean"]  # barriers cost something
    saved = document["time_s"]["mean"] - second["time_s"]["mean"]
    assert saved == pytest.approx(document["saved_without_s"]["latency"], rel=0.01)


def test_the_page_is_self_contained(document: Any) -> None:
    page = (document["folder"] / "p.html").read_text()
    assert "<svg" in page
    assert "<code>matmul_tiled</code> on" in page
    for outside in ("http://", "https://", "src="):
        assert outside not in page
    for title in ("What limits the time", "What if", "Timeline", "Basic blocks", "visible latency"):
        assert title in page
    assert (document["folder"] / "p.png").read_bytes().startswith(b"\x89PNG")


def test_a_note_names_an_translation_of_unmeasured_duration_that_takes_much_time() -> None:
    """Pages of 256 bytes and one entry: nearly every request misses."""
    slow = Translation(entries=1, page_bytes=256, miss_cycles=500.0)
    traces = traced(stream.triad(n=1 << 16))
    key = "translation.miss_cycles"

    def noted(machine: Any) -> list[str]:
        notes = predicted(traces, machine).notes
        return [note for note in notes if "missed address translations alone take" in note]

    for standing in ("fitted", "assumed"):
        told = {**V100.sources, key: f"{standing}: so"}
        (note,) = noted(V100.replace(translation=slow, sources=told))
        assert f"the duration of one is {standing}" in note
    known = {**V100.sources, key: "measured"}
    assert not noted(V100.replace(translation=slow, sources=known))
    assert not noted(V100)


def test_the_terminal_shows_what_limits_the_time(run_memsim: RunMemsim) -> None:
    """Also of a trace without machine code."""
    ended = run_memsim("predict", TILED, "-m", "v100", "--tracer", "polyhedral", *SMALL)
    assert re.match(
        r"\w+-bound: [\d.]+ (?:± [\d.]+ )?[nu]s, at least .*\n(Try first: .*\n(?:.*\n)?)?matmul_tiled on v100: ",
        ended.out,
    )
    for text in (
        "model ± ",
        " per group, ",
        " per core (limited by ",
        "basic blocks per sub-group",
        "what if",
        "without latency",
        "not hidden",
        "the registers per work-item are unknown",
        "note: the trace has no machine code: arithmetic is not counted",
    ):
        assert text in ended.out


@pytest.mark.parametrize(
    ("options", "interval"),
    [(("--mode", "paper"), False), (("--trials", "1"), False), (("--solver", "equation"), True)],
)
def test_other_ways_to_predict(
    run_memsim: RunMemsim, options: tuple[str, ...], interval: bool
) -> None:
    words = ("predict", TILED, "-m", "v100", "--tracer", "polyhedral", *SMALL, *options)
    time = json.loads(run_memsim(*words, "--json", "-").out)["time_s"]
    assert (time["ci95"] is not None) == interval
    assert time["mean"] > 0


def test_predictions_repeat_and_depend_on_the_seed() -> None:
    traces = traced(stencil.stencil7(nx=64, ny=64, nz=64))
    one, two, other = (predicted(traces, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.timing.seconds, two.timing.seconds)
    assert (one.timing.seconds != other.timing.seconds).any()
    assert one.seconds.half_width > 0


def test_reuse_in_caches_is_what_the_paper_leaves_out() -> None:
    """A naive product reads each row and column repeatedly: caches serve nearly all of it."""
    traces = traced(matmul.naive(n=256), tracer="polyhedral")
    fed, printed = (predicted(traces, mode=mode, trials=1) for mode in ("simulated", "paper"))
    assert printed.seconds.mean > 3 * fed.seconds.mean


@pytest.mark.parametrize(
    ("machine", "mode", "ends_with_barrier"),
    [("v100", "simulated", True), ("v100", "paper", False), ("c1060", "paper", True)],
)
def test_machines_on_which_a_group_ends_with_a_barrier(
    machine: str, mode: Any, ends_with_barrier: bool
) -> None:
    """Section 2.5: a group ends with an implicit barrier on compute capability 1.x, not later."""
    program, _ = program_of(copied(1 << 12), load_machine(machine), mode)
    assert program.blocks[-1].barrier == ends_with_barrier


@pytest.mark.parametrize("kernel", [stream.copy(n=1 << 12), matmul.tiled(n=64)])
@pytest.mark.parametrize("tracer", ["machine", "polyhedral"])
def test_the_end_of_a_group_is_no_barrier_and_costs_no_instruction(
    kernel: Any, tracer: str
) -> None:
    """Neither with machine code nor without it."""
    found = predicted(traced(kernel, tracer=tracer), trials=1)
    listed = [row[-1] for row in blocks_table(found)[1]]
    assert (listed[0], listed[-1]) == ("(start of a group)", "(end of the group)")
    has_barrier = kernel.kernel.default_entrypoint.name == "matmul_tiled"
    assert any("barrier" in text for text in listed) == has_barrier
    operations = [name for block in found.program.blocks for name in block.operations]
    assert has_barrier or not any("barrier" in name for name in operations)


def test_a_launch_takes_time_beside_its_groups() -> None:
    """Three microseconds, which bind a copy of 4 KiB."""
    without, launched = (
        predicted(copied(1024), V100.replace(launch_us=us)).timing for us in (0.0, 3.0)
    )
    assert launched.estimate.mean == pytest.approx(without.estimate.mean + 3e-6)
    assert launched.floor_means_s == pytest.approx(without.floor_means_s)
    assert launched.parts_s["launch"] == 3e-6
    assert "launch" not in without.parts_s
    assert (launched.binds, without.binds) == ("launch", "latency")


def test_the_machine_starts_so_many_groups_and_sub_groups_a_cycle() -> None:
    """2048 groups of 512, 16 sub-groups each: whichever of their rates is slower. It adds to what binds the groups."""
    n = 1 << 20
    traces = copied(n, 512)
    replay = predicted(traces).replay

    def timing(**rates: float) -> Timing:
        return predict(traces, V100.replace(**rates), trials=4, jobs=1, replay=replay).timing

    def floor_cycles(**rates: float) -> float:
        return float(timing(**rates).floor_means_s["starts of groups"] * V100.clock_hz)

    assert floor_cycles(subgroup_starts_per_cycle=0.25) == pytest.approx(n / 32 / 0.25)
    assert floor_cycles(group_starts_per_cycle=0.25) == pytest.approx(n / 512 / 0.25)
    both = {"group_starts_per_cycle": 0.25, "subgroup_starts_per_cycle": 0.25}
    assert floor_cycles(**both) == pytest.approx(n / 32 / 0.25)
    beside = timing(launch_us=3.0, group_starts_per_cycle=0.25)
    assert beside.parts_s["launch"] > 0.1 * beside.estimate.mean
    assert beside.binds != "launch"


def test_fewer_trials_than_snapshots_move_as_many_bytes() -> None:
    """The start of a launch is traced, but replayed only where it gets a trial."""
    few = predict(stream.copy(n=1 << 23), V100, trials=2, jobs=1)
    more = predict(few.traces, V100, trials=8, jobs=1)
    assert len(few.traces) > 2
    floors = [one.timing.floor_means_s["DRAM"] for one in (few, more)]
    assert floors[0] == pytest.approx(floors[1], rel=0.03)


TRIAD = "c[i] = a[i] + 2 * b[i];"


@needs_nvidia
def test_a_triad_takes_as_long_in_any_language() -> None:
    """Its bytes, its instructions but for a few, and what it would take without latency, are the same."""
    n = 1 << 22
    arrays = [np.ones(n, np.float32) for _ in range(3)]
    parameters = ("const float *{0} a", "const float *{0} b", "float *{0} c")
    cuda = ", ".join(one.format("__restrict__") for one in parameters)
    opencl = ", ".join(f"__global {one.format('restrict')}" for one in parameters)
    made = [
        stream.triad(n=n),
        tracegen.CudaWorkload(
            source=f"__global__ void k({cuda}) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; {TRIAD} }}",
            kernel="k",
            arguments=arrays,
            grid=n // 256,
            block=256,
        ),
        tracegen.OpenCLWorkload(
            source=f"__kernel void k({opencl}) {{ int i = get_global_id(0); {TRIAD} }}",
            kernel="k",
            arguments=arrays,
            global_size=n,
            local_size=256,
        ),
    ]
    least = 3 * 4 * n / (V100.dram.usable_bandwidth_bytes_per_cycle * V100.clock_hz)
    settings = PredictOptions(trials=2, jobs=1)
    times, hidden = [], []
    for workload in made:
        traces = tracegen.trace_snapshots(workload, V100, snapshots=1)
        prediction = predict(traces, V100, settings)
        assert not any("arithmetic is not counted" in note for note in prediction.notes)
        assert prediction.timing.binds == "DRAM"
        assert float(prediction.timing.floors_s["DRAM"].mean()) == pytest.approx(least, rel=0.05)
        counted = Counter[str]()
        for number, runs in prediction.program.occurrences().items():
            for name, count in prediction.program.blocks[number].operations.items():
                counted[name] += runs * count  # type: ignore[assignment]
        assert counted["issued_access"] == 3
        times.append(prediction.timing.estimate.mean)
        changed = predict_changed(prediction, traces, settings, parse("no-latency", V100))
        hidden.append(changed.timing.estimate.mean)
    assert times == pytest.approx([times[0]] * 3, rel=0.03)
    assert hidden == pytest.approx([hidden[0]] * 3, rel=0.03)
    assert max(hidden) <= min(times)


def test_only_loopy_kernels_have_an_order_of_the_source(
    run_memsim: RunMemsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cl").write_text(SCALE)
    (tmp_path / "args.py").write_text(SCALE_ARGS)
    kernel = ("scale.cl:scale", "--args", "args.py:scale", "-m", "v100", "--tracer", "instrumented")
    for command, words in (
        ("predict", ("--set", "n=64")),
        ("advise", ("--set", "n=64")),
        ("sweep", ("--set", "n=64,128", "--jobs", "1")),
        ("tune", ("--over", "n=64,128", "--jobs", "1")),
    ):
        assert "reads Loopy kernels" in run_memsim.refused(command, *kernel, *words)


def test_registers_change_the_resident_groups() -> None:
    prediction = predict(matmul.tiled(n=256), V100, trials=2, jobs=1, registers=32)
    after = prediction.what_if("registers=128").occupancy
    assert prediction.timing.residents.groups_per_core == 4
    assert prediction.occupancy.limited_by == "items"
    assert (after.groups_per_core, after.limited_by) == (2, "registers")


def test_an_l1_of_twice_the_bandwidth_delivers_a_row_of_doubles_in_half_the_time() -> None:
    """32 doubles: each of 32 banks twice, or each of 64 once."""
    prediction = predict(stencil.stencil7(64, 16, 4, dtype="float64"), V100, trials=2, jobs=1)
    before, after = (one.costs.pipe_cycles for one in (prediction, prediction.what_if("l1=2x")))
    assert (before.max(), after.max()) == (2, 1)


def test_a_group_too_large_for_a_core_is_refused_with_the_excess() -> None:
    with pytest.raises(ReplayError, match="81920, there are 65536, 16384 too few"):
        predicted(traced(matmul.tiled(n=64, tile=32)), registers=80)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ((TILED,), "--machine NAME or --model FILE is required"),
        ((TILED, "-m", "v101"), "v101"),
        (("no-such.py:k", "-m", "v100"), "no-such.py"),
        ((TILED, "-m", "v100", "--solver", "magic"), "--solver"),
        ((TILED, "-m", "v100", "--tracer", "magic"), "--tracer"),
        ((TILED, "-m", "v100", "--compiler", "none"), "--compiler"),
        (
            (TILED, "-m", "v100", "--plot", "x.jpg"),
            "--plot must end in .png, .svg, .pdf, got x.jpg",
        ),
        ((TILED, "-m", "v100", "--what-if", "l9=1KiB"), "no change 'l9=1KiB' is possible on v100"),
        ((TILED, "-m", "v100", *SMALL, "--what-if", "blocks_per_core=99"), "between 1 and 8"),
        ((TILED, "-m", "c1060", *SMALL, "--set", "tile=32"), "exceeds the 512 that c1060 allows"),
        ((TILED, "-m", "v100", "--model", "m.json"), "--model cannot be combined with --machine"),
    ],
)
def test_a_mistake_is_one_line(
    run_memsim: RunMemsim,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    culprit: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert culprit in run_memsim.refused("predict", *arguments)


def test_a_mode_without_caches_has_no_warm_ones() -> None:
    with pytest.raises(MemsimError, match="in mode paper there are no caches"):
        PredictOptions(warm=True, mode="paper")


def test_an_interrupted_prediction_has_no_numbers(
    run_memsim: RunMemsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import memsim

    replay = memsim.replay

    def interrupted(*arguments: Any, **options: Any) -> Any:
        found = replay(*arguments, **options)
        found.dataset.attrs["interrupted"] = 1
        return found

    monkeypatch.setattr(memsim, "replay", interrupted)
    out = tmp_path / "out.json"
    ended = run_memsim("predict", TILED, "-m", "v100", *SMALL, "--json", str(out), code=130)
    assert ended.out == ""
    assert ended.err.splitlines()[-1] == "memsim: interrupted"
    assert not out.exists()


def test_a_prediction_shows_itself_in_a_notebook() -> None:
    """The times of its JSON, and names escaped, as on its page; in mode `paper` there are no accesses."""
    traces = traced(stream.triad(1 << 12))
    for mode in ("simulated", "paper"):
        found = predicted(traces, mode=mode)
        shown = found._repr_html_()
        assert bound(read_time(as_json(found))) in shown
        assert seconds(found.timing.estimate.mean) in shown
        assert "limited by the launch" in shown, "32 groups for 80 cores"
        assert ("visible latency" in shown) == (mode == "simulated")
        hostile = dataclasses.replace(
            found, kernel="<script>alert(1)</script>", notes=["a < b & c"]
        )
        for html in (hostile._repr_html_(), page(hostile, time_data(hostile))):
            assert "<script>alert" not in html
            assert "a &lt; b &amp; c" in html

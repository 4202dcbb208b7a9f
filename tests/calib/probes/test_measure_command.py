"""`memsim machines measure` on a device whose parameters are known, and on the actual one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calib.commands import measure
from calib.probes import device as device_module
from calib.probes import survey as survey_module
from calib.probes.bench import Bench
from calib.probes.device import Local, OpenCLDevice, compiler_target
from calib.probes.dram_groups import dram_groups
from calib.probes.survey import Survey
from calib.probes.traffic import batches_ns
from memsim.errors import OpenCLError
from memsim.machine.file import load_machine
from memsim.trace.file import read_trace
from tests.support.command_line import RunMemsim
from tests.support.random_machines import MB, small_cpu
from tests.support.simulated_device import SimulatedDevice

KERNEL = "experiments/kernels/matmul.py:naive"


@pytest.fixture
def simulated(
    monkeypatch: pytest.MonkeyPatch, made_and_said: tuple[Survey, tuple[str, ...]]
) -> None:
    """The command measures a simulated device, of which all but a kernel's groups is measured once."""

    def measured(device: SimulatedDevice, **asked: Any) -> Survey:
        assert asked["seed"] == 0
        made, said = made_and_said
        for name in said:
            asked["progress"](name)
        if asked["groups"] is not None:
            surveyor = survey_module._Surveyor(Bench(device, 0, device.clock), asked["progress"])
            assert made.hierarchy is not None
            surveyor.memory(made.hierarchy.levels, asked["groups"])
            surveyor.book.findings = {**made.book.findings, **surveyor.book.findings}
            made = dataclasses.replace(made, book=surveyor.book)
        return dataclasses.replace(made, busy=asked["busy"])

    monkeypatch.setattr(survey_module, "survey", measured)
    monkeypatch.setattr(
        device_module, "OpenCLDevice", lambda *_: SimulatedDevice(*small_cpu(), MB, 1)
    )


@pytest.mark.usefixtures("simulated")
def test_its_page_begins_with_the_levels_and_its_machine_file_traces_and_replays(
    tmp_path: Path, run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, page, trace = (str(tmp_path / name) for name in ("my.toml", "my.html", "k.trace"))
    command = ("machines", "measure", "-o", mine, "--memory", "8")
    monkeypatch.setattr(measure, "load", lambda: (7.3, 2))
    ended = run_memsim(*command, "--html", page)
    assert "pointer chase" in ended.err
    text = Path(page).read_text()
    headline = re.search(r"<p class=.headline.>([^<]*)</p>", text)
    assert headline
    levels = "; ".join(rf"L{n} [\d.]+\s[KM]iB, [\d.]+\sns" for n in (1, 2))
    assert re.match(rf"{levels}; DRAM [\d.]+\sns, [\d.]+\sGB/s(;|$)", headline[1])
    said = "busy: 7.3 processes on 2 cores in the minute before"
    (line,) = (line for line in ended.err.splitlines() if "busy: " in line)
    assert all(said in where for where in (line, text, Path(mine).read_text()))
    assert "<svg" in text
    assert "1 times" not in text
    assert "write_back" not in text
    run_memsim("machines", mine)
    run_memsim("trace", KERNEL, "--set", "n=64", "--machine", mine, "-o", trace)
    run_memsim("replay", trace, "--machine", mine, "--trials", "2")
    # The groups that this very replay has in flight, on the same device.
    monkeypatch.setattr(measure, "load", lambda: (0.9, 2))
    ended = run_memsim(*command, "--trace", trace, "--trace-machine", mine)
    text = Path(mine).read_text()
    assert "# kernel_memory_ns: " in text
    assert "busy: " not in ended.err + text
    assert not measure._busy(0.9, 2)
    assert measure._busy(1.0, 2)


def test_interrupted_it_writes_what_is_done(
    tmp_path: Path, run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch, surveyed: Survey
) -> None:
    half = dataclasses.replace(surveyed, interrupted="L1 stores allocate")
    monkeypatch.setattr(survey_module, "survey", lambda *_, **__: half)
    monkeypatch.setattr(device_module, "OpenCLDevice", lambda *_: None)
    mine = tmp_path / "my.toml"
    run_memsim("machines", "measure", "-o", str(mine), "--memory", "8", code=130)
    assert load_machine(mine).levels[0].size_bytes == 16384


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "no/such/my.toml"), "there is no folder"),
        (
            ("-o", "my.toml", "--trace", "k.trace"),
            "--trace and --trace-machine must be given together",
        ),
        (("-o", "my.toml", "--memory", "0"), "--memory"),
        (("-o", "my.toml", "--trace", "none.trace", "--trace-machine", "v100"), "none.trace"),
    ],
)
def test_bad_input_is_named(
    arguments: tuple[str, ...],
    message: str,
    run_memsim: RunMemsim,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in run_memsim.refused("machines", "measure", *arguments)


def test_the_kernels_do_what_the_probes_take_them_for(context: Any) -> None:
    """On the real device, by hand: rings are linked and walked in order, stores and loads land."""
    device = OpenCLDevice(context, MB)
    bench = Bench(device, 0)
    order = bench.rng.permutation(5000)[:997]
    bench.ring(order)
    for steps in (8, 16, 1000):
        assert device.run("chase", 1, 1, int(order[3]), steps) > 0
        assert device.result(1)[0] == order[(3 + steps) % 997]
    starts = order[[5, 9]].astype(np.uint32)
    device.run("walks", 2, 1, starts, 7)
    assert device.result(2).tolist() == [order[12], order[16]]
    device.run("prepared", 1, 1, int(order[0]), 10, int(order[1]), 0, 0, 3, 1, starts)
    assert device.result(1)[0] == order[30] + order[1]  # thirty steps; no step of the small ring
    device.run("stores", 1, 1, 101, 16, 9)
    there = np.empty(MB // 4, np.uint32)
    device.cl.enqueue_copy(device.queue, there, device.data)
    assert (there[: 101 * 16 : 16] == 8).all()
    data = there.astype(np.uint64)
    address, offset = np.arange(0, 40, dtype=np.uint32), np.array([0, 3, 40], np.uint32)
    device.run("batches", 4, 4, address, offset, 2, Local(16))
    lanes = [
        np.bitwise_or.reduce(data[lane:3:4], initial=0)
        + np.bitwise_or.reduce(data[3 + lane : 40 : 4])
        for lane in range(4)
    ]
    assert device.result(4).tolist() == lanes


@pytest.mark.parametrize("granted", [4 * MB, 0])
def test_a_smaller_buffer_is_tried_where_one_is_refused(
    granted: int, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device out of memory: the buffer is halved until it is there; without 1 MB there is an error."""
    import pyopencl as cl

    real = cl.Buffer

    def refusing(context: Any, flags: int, size: int = 0, hostbuf: Any = None) -> Any:
        if max(size, 0 if hostbuf is None else hostbuf.nbytes) > granted:
            raise MemoryError
        return real(context, flags, size, hostbuf)

    monkeypatch.setattr(cl, "Buffer", refusing)
    if not granted:
        with pytest.raises(OpenCLError, match="cannot allocate a buffer of 1 MB"):
            OpenCLDevice(context, 16 * MB)
        return
    device = OpenCLDevice(context, 16 * MB)
    assert device.bytes == granted
    assert Bench(device, 0).chase_ns(np.arange(64)).min() > 0


def test_groups_of_a_replay_have_the_addresses_of_its_requests(
    tmp_path: Path, run_memsim: RunMemsim
) -> None:
    trace_path = tmp_path / "k.trace"
    run_memsim("trace", KERNEL, "--set", "n=256", "--machine", "v100", "-o", str(trace_path))
    trace, machine = read_trace(trace_path), load_machine("v100")
    groups = dram_groups(trace, machine, seed=1)
    assert groups.offset[0] == 0
    assert groups.offset[-1] == len(groups.address_bytes)
    assert (np.diff(groups.offset) > 0).all()
    assert int(np.diff(groups.offset).max()) <= machine.n_cores * machine.subgroup_size
    touched = np.unique(trace.granule // 8)
    base = touched.min() * 256
    assert np.isin((groups.address_bytes + base) // 256, touched).mean() > 0.5


def test_a_batch_takes_as_long_as_its_slowest_request() -> None:
    """The simulated device serves them by memsim.hierarchy.dram: alone, each takes the unloaded latency."""
    machine, hidden = small_cpu()
    bench = Bench(SimulatedDevice(machine, hidden, MB, 1), 1)
    latency_ns = machine.dram.latency_cycles / machine.clock_hz * 1e9
    burst_ns = (
        machine.dram.burst_bytes
        * machine.dram.n_channels
        / machine.dram.bandwidth_bytes_per_cycle
        / machine.clock_hz
        * 1e9
    )
    hit_ns = machine.levels[0].latency_cycles / machine.clock_hz * 1e9
    far = 256 * machine.dram.n_channels
    one = batches_ns(bench, far * np.arange(1, 65), np.arange(65), hit_ns=hit_ns).min()
    four = batches_ns(bench, far * np.arange(1, 65), np.arange(0, 65, 4), hit_ns=hit_ns).min()
    assert one == pytest.approx(latency_ns, rel=0.1)
    assert latency_ns < four <= latency_ns + 4 * burst_ns + 0.1 * latency_ns


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_this_cpu_has_the_caches_that_its_kernel_reports(
    tmp_path: Path, run_memsim: RunMemsim, context: Any
) -> None:
    """L1d and L2 capacity, and the line. Other programs disturb; nothing else may run beside it."""
    caches = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        kind = (index / "type").read_text().strip()
        level = (index / "level").read_text().strip()
        if kind != "Instruction":
            size = (index / "size").read_text().strip()
            scale = {"K": 1 << 10, "M": 1 << 20}[size[-1]]
            line = int((index / "coherency_line_size").read_text())
            caches[level] = int(size[:-1]) * scale, line
    if not {"1", "2"} <= caches.keys() or not OpenCLDevice(context, MB).is_cpu:
        pytest.skip("this CPU or its kernel does not report its caches")
    mine = tmp_path / "my.toml"
    run_memsim("machines", "measure", "-o", str(mine))
    first, second, *_ = load_machine(mine).levels
    assert (first.size_bytes, first.line_bytes) == caches["1"]
    assert (second.size_bytes, second.line_bytes) == caches["2"]


@pytest.mark.parametrize(
    ("name", "facts", "target"),
    [
        ("gfx90a:sramecc+:xnack-", {}, "gfx90a"),
        ("pthread-haswell", {}, ""),
        (
            "Tesla V100-PCIE-16GB",
            {"compute_capability_major_nv": 7, "compute_capability_minor_nv": 0},
            "sm_70",
        ),
    ],
)
def test_what_compilers_call_a_device_follows_from_what_its_driver_reports(
    name: str, facts: dict[str, int], target: str
) -> None:
    extensions = "cl_khr_fp64" + " cl_nv_device_attribute_query" * bool(facts)
    assert compiler_target(SimpleNamespace(name=name, extensions=extensions, **facts)) == target

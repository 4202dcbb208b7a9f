"""Captures: through OpenCL on the host's CPU, CUDA C on a CuPy made for the test, an ncu made for it too."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib.timing.trials import device_title, find_context
from experiments.hardware import capture as capturing
from experiments.hardware import capture_kernels
from experiments.hardware import captured as comparing
from experiments.hardware.capture_counters import METRICS, counted
from experiments.hardware.capture_cuda import CudaRun, cuda_launch, cupy_module
from experiments.hardware.capture_file import read_capture
from experiments.hardware.captured import captured
from experiments.hardware_validation import main
from memsim.errors import KernelError, MemsimError
from memsim.report.counters.definitions import known

FAKES = Path(__file__).parent / "fake_cupy"
N = 1 << 16
COUNTERS = {  # of the triad of N floats, by hand: two arrays read and one written, in 32-byte sectors
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": ("Ksector", N / 4 / 1000),
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": ("sector", N / 8),
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": ("request", N / 16),
    "lts__t_sectors_srcunit_tex_op_read.sum": ("sector", N / 4),
    "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct": ("%", 0.0),
}
NCU = """#!{python}
import subprocess, sys
from pathlib import Path
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2024.3.0.0 (fake)")
    sys.exit()
log = Path({log!r})
log.write_text((log.read_text() if log.exists() else "") + " ".join(sys.argv[1:]) + "\\n")
if {forbidden}:
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU"
          " Performance Counters on the target device 0.")
    sys.exit(1)
child = sys.argv[sys.argv.index(sys.executable):]
print("==PROF== Connected to process 1")
subprocess.run(child, check=True)
function = sys.argv[sys.argv.index("--kernel-name") + 1]
counters = {counters!r}
def row(*cells): print(",".join('"%s"' % cell for cell in cells))
row("ID", "Kernel Name", "Block Size", "Grid Size", *counters)
row("", "", "", "", *[unit for unit, _ in counters.values()])
row("0", function + "(const float *, const float *, float *)", "(256, 1, 1)", "(256, 1, 1)",
    *[value for _, value in counters.values()])
"""


@pytest.fixture(autouse=True)
def no_cupy_afterwards() -> Iterator[None]:
    """Other tests' libraries ask whether there is one."""
    yield
    sys.modules.pop("cupy", None)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes the tests' CuPy importable, here and in children; its device is OpenCL's."""
    if shutil.which("g++") is None:
        pytest.skip("the tests' CuPy compiles with g++")
    name = device_title(find_context()).split(": ", 1)[1]
    monkeypatch.setenv("FAKE_CUDA_DEVICE", name)
    monkeypatch.setenv("PYTHONPATH", f"{FAKES}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.syspath_prepend(str(FAKES))
    return name


def fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, *, forbidden: bool = False) -> Path:
    """An ncu on PATH; returns the file where it notes how it was called."""
    folder.mkdir()
    log, script = folder / "log", folder / "ncu"
    script.write_text(
        NCU.format(python=sys.executable, log=str(log), forbidden=forbidden, counters=COUNTERS)
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def no_opencl_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has: OpenCL has no GPU, and there is no ncu."""
    monkeypatch.setattr(capturing, "is_gpu", lambda context: False)
    monkeypatch.setattr("shutil.which", lambda name: None)


def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor CuPy."""
    no_opencl_gpu(monkeypatch)
    monkeypatch.setitem(sys.modules, "cupy", None)


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.json")
    return path


def on_cpu(folder: Path, *more: str) -> None:
    """Captures on the device that everything else here runs on."""
    device = device_title(find_context()).replace(": ", ":")
    fixed = ["--capture", "--quick", "--trials", "3", "--out", str(folder), "--device", device]
    main([*fixed, *more])


@pytest.mark.parametrize("name", capture_kernels.BENCHMARKS)
def test_cuda_source_and_arguments_compute_what_the_kernel_should(name: str, gpu: str) -> None:
    """Compiled as C++ and run over grid and block; the kernel's own check is the judge."""
    sizes = capture_kernels.sizes(name, quick=True)
    if "tiled" in name:  # whose work-items are threads
        sizes = {"n": 48}
    work = capture_kernels.workload(name, sizes)
    run = CudaRun(cupy_module(), cuda_launch(work))
    assert run.once() > 0
    assert work.check is not None
    work.check(run.arguments)


def test_cuda_without_a_device_or_without_cupy(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CUDA_COUNT", "0")
    with pytest.raises(MemsimError, match="no CUDA device"):
        cupy_module()
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MemsimError, match=r"pip install memsim\[cuda\]"):
        cupy_module()


def test_times_through_cuda_where_opencl_has_no_gpu(
    tmp_path: Path, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_opencl_gpu(monkeypatch)
    main(["--capture", "--quick", "--trials", "3", "--kernel", "spmv fem", "--out", str(tmp_path)])
    found = read_capture(only_file(tmp_path))
    assert (found.way, found.device, found.n_cores) == ("cuda", f"CUDA: {gpu}", 80)
    assert len(found.kernels[0].times_s) == 3
    assert "not on PATH" in found.not_collected[0]


def test_counters_and_comparison_end_to_end(
    tmp_path: Path, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_ncu(tmp_path / "bin", monkeypatch)
    on_cpu(tmp_path / "found", "--machine", "v100", "--kernel", "stream triad")
    assert "--csv --page raw --clock-control none" in log.read_text()
    found = read_capture(only_file(tmp_path / "found"))
    assert found.finished
    assert found.not_collected == ()
    assert found.versions["ncu"] == "Version 2024.3.0.0 (fake)"
    (kernel,) = found.kernels
    (launch,) = kernel.launches
    assert launch.n_groups == N / 256
    assert launch.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == N / 4
    figure = captured(tmp_path, True, tmp_path / "found")
    cases = {case.quantity: case for case in figure.cases}
    assert len(cases) == len(COUNTERS) + 1
    for quantity in ("L1 sectors of loads", "L1 sectors of stores", "L2 sectors read by L1"):
        assert cases[quantity].ours == pytest.approx(cases[quantity].reference, rel=1e-6)
    assert cases["L1 load hit ratio"].ours == 0.0
    assert cases["time"].reference == pytest.approx(float(np.median(kernel.times_s)))
    assert (cases["time"].ours or 0) > 0
    assert any("points off" in finding for finding in figure.findings)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in figure.pictures)


def test_forbidden_counters_are_said_once(
    tmp_path: Path, gpu: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = fake_ncu(tmp_path / "bin", monkeypatch, forbidden=True)
    on_cpu(tmp_path / "found", "--kernel", "stream triad", "--kernel", "gather")
    assert len(log.read_text().splitlines()) == 1
    found = read_capture(only_file(tmp_path / "found"))
    assert [len(kernel.times_s) for kernel in found.kernels] == [3, 3]
    (reason,) = found.not_collected
    assert "ERR_NVGPUCTRPERM: this user may not read" in reason
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '==WARNING== No kernels were profiled.'", "holds no counters.*No kernels were"),
        ("echo '==ERROR== Failed to find metric'; exit 9", "exit code 9: ==ERROR== Failed to find"),
        ("echo 'Other Error: x' >&2; exit 1", "exit code 1: Other Error: x"),
        ("echo '\"ID\",\"Kernel Name\"'; echo '0,other'", "ncu counted no launch of triad"),
        ("echo '\"ID\",\"Kernel Name\"'; echo '0,other,3'", "a row must have 2 columns"),
    ],
)
def test_what_ncu_complains_of_is_said(script: str, said: str) -> None:
    with pytest.raises(MemsimError, match=said) as failed:
        counted(["sh", "-c", script], "triad")
    assert "\n" not in str(failed.value)


def test_what_cannot_be_predicted_keeps_its_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise MemsimError("cpu has no throughput of atomics")

    monkeypatch.setattr(comparing, "_prediction", refuse)
    (tmp_path / "a.json").write_text(GOOD)
    (case,) = captured(tmp_path, True, tmp_path).cases
    assert (case.case, case.reference, case.ours) == ("v100 gather", 1e-3, None)
    assert case.note == "not predicted: cpu has no throughput of atomics"


def test_counters_of_another_device_are_refused(
    tmp_path: Path, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("FAKE_CUDA_DEVICE", "Another GPU")
    on_cpu(tmp_path / "found", "--kernel", "gather")
    (reason,) = read_capture(only_file(tmp_path / "found")).not_collected
    assert reason.endswith("what ncu would count runs on CUDA: Another GPU")


def test_no_gpu_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_gpu(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["--capture", "--out", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert "OpenCL has no GPU" in line
    assert "pip install memsim[cuda]" in line


def test_an_interrupt_and_a_failure_keep_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed = capturing.time_kernel

    def failing(kernel: Any, *args: Any, **more: Any) -> Any:
        if kernel.default_entrypoint.name == "transpose_naive":
            raise KernelError("kernel transpose_naive cannot be run: out of memory")
        if kernel.default_entrypoint.name == "transpose_tiled":
            raise KeyboardInterrupt
        return timed(kernel, *args, **more)

    no_gpu(monkeypatch)
    monkeypatch.setattr(capturing, "time_kernel", failing)
    with pytest.raises(SystemExit) as ended:
        on_cpu(tmp_path)
    assert ended.value.code == 130
    found = read_capture(only_file(tmp_path))
    assert not found.finished
    assert [(one.name, len(one.times_s)) for one in found.kernels] == [
        ("stream triad", 3),
        ("transpose naive", 0),
    ]
    assert found.not_collected[0] == "counters: ncu (Nsight Compute) is not on PATH"
    assert "out of memory" in found.not_collected[1]
    assert found.not_collected[2].startswith("interrupted: transpose tiled, matmul naive, ")
    assert "wrote" in capsys.readouterr().out
    figure = captured(tmp_path, True, tmp_path)
    assert figure.cases == []
    assert any("not compared: no machine file" in finding for finding in figure.findings)


def test_without_captures_one_line_says_so(tmp_path: Path) -> None:
    (finding,) = captured(tmp_path, True, tmp_path / "none").findings
    assert finding.startswith("no captures in ")


GOOD = """{"schema": "memsim-capture", "version": 1, "device": "d", "driver": "d", "system": "s",
 "date": "2026-11-21", "way": "cuda", "is_gpu": true, "n_cores": 80, "machine": "v100",
 "versions": {"numpy": "2"}, "not_collected": [], "finished": true,
 "kernels": [{"name": "gather", "sizes": {"n": 64, "n_table": 64}, "times_s": [0.001],
  "clock": "event", "launches": [{"n_groups": 256, "counters": {"dram__bytes_read.sum": 1e6}}]}]}"""


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ((), [], "must be an object"),
        (("schema",), "other", "schema must be"),
        (("version",), 2, "version must be 1"),
        (("machine",), "../../etc/passwd", "machine must be a shipped one"),
        (("device",), "x" * 2000, "device must be a line"),
        (("device",), "two\nlines", "device must be a line"),
        (("is_gpu",), 1, "is_gpu must be true or false"),
        (("n_cores",), 10**400, "int too large"),
        (("versions",), {"a\nb" * 999: 1}, "versions.a b"),
        (("device",), "\ud800", "device must be a line"),
        (("kernels", 0, "sizes"), {"a\nb": 1}, "sizes n, n_table, got a b"),
        (("n_cores",), True, "n_cores must be a number"),
        (("not_collected",), [""] * 1001, "at most 1000 items"),
        (("not_collected",), [1], "not_collected 0 must be a text"),
        (("kernels", 0, "name"), "mystery", r"kernels\[0\].name must be one of"),
        (("kernels", 0, "sizes", "n"), 1 << 40, "gather: n must be 1 to 16777216"),
        (("kernels", 0, "sizes", "n"), 1.5, "gather: n must be 1 to"),
        (("kernels", 0, "sizes"), {"n": 64}, "gather must have the sizes n, n_table"),
        (("kernels", 0, "times_s"), [0.0], r"times_s 0 must be 1e-12 to"),
        (("kernels", 0, "times_s"), [float("nan")], "must be 1e-12 to"),
        (("kernels", 0, "launches", 0, "counters"), {"rm -rf": 1}, "is no counter of Nsight's"),
        (("kernels", 0, "launches", 0, "n_groups"), -1, "n_groups must be 1 to"),
        (("kernels", 0, "launches", 0, "counters", "dram__bytes_read.sum"), "1", "a number"),
    ],
)
def test_hostile_files_are_refused(
    place: tuple[str | int, ...], value: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(GOOD)
    record: Any = json.loads(GOOD)
    assert read_capture(path).machine == "v100"
    at = record
    for key in place[:-1]:
        at = at[key]
    if place:
        at[place[-1]] = value
    path.write_text(json.dumps(record if place else value))
    with pytest.raises(MemsimError, match=said) as refused:
        read_capture(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    assert captured(tmp_path, True, tmp_path).findings[0].startswith("left out: ")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff", " " * (4 << 20) + "{}", "1e999"])
def test_what_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(MemsimError, match=r"a\.json: "):
        read_capture(path)


def test_devices_and_their_machines() -> None:
    assert capturing.machine_of("NVIDIA CUDA: Tesla V100-PCIE-16GB", 80) == ("v100", "")
    assert capturing.machine_of("CUDA: NVIDIA H100 80GB HBM3", 132) == ("h100", "")
    assert capturing.machine_of("CUDA: NVIDIA A100-SXM4-40GB", 108) == ("a100", "")
    machine, why = capturing.machine_of("NVIDIA CUDA: NVIDIA H100 PCIe", 114)
    assert machine is None
    assert "h100 has 132 cores, not 114" in why
    assert capturing.machine_of("CUDA: NVIDIA GH200 480GB", 132)[0] is None
    assert capturing.machine_of("CUDA: NVIDIA TITAN Xp", 30)[0] is None


def test_what_is_asked_of_ncu_is_known_to_the_comparison() -> None:
    assert set(METRICS) <= {name for counter in known("nsight") for name in counter.names}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--capture", "--kernel", "nothing"], "no kernel 'nothing': choose from stream triad"),
        (["--capture", "--machine", "abacus"], "--machine must be a shipped one"),
        (["--capture", "--trials", "0"], "--trials must be 1 to 1000"),
        (["--only", "captured"], "--out DIR is wanted"),
    ],
)
def test_wrong_options_end_in_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err

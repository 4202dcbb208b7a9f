"""`memsim tune`, from kernels in files to tables and files that other tools read."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calib import tuning
from calib.tuning import EFFORTS, Outcome
from calib.tuning.kernel_tuner import cache
from calib.tuning.page import tuning_page
from calib.tuning.results import ranking
from calib.tuning.search import Found
from memsim.commands import EXIT_INTERRUPTED
from memsim.report import without_equal
from tests.support.command_line import RunMemsim
from tests.support.cuda_kernels import needs_clang
from tests.support.worker_tasks import die
from tracegen.commands import KernelSpec
from tracegen.own_process import Limits

KERNEL = """
import loopy as lp
import numpy as np

import tracegen


def copy(n: int = 4096, group: int = 64, stride: int = 1) -> tracegen.Workload:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}", "b[i] = a[stride * i]", lang_version=(2018, 2), assumptions="n > 0"
    )
    knl = lp.fix_parameters(knl, n=n, stride=stride)
    if group == 13:
        raise ValueError("13 brings bad luck")
    knl = lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    return tracegen.Workload(knl, {"a": np.ones(n * stride, np.float32)})
"""

CUDA = """
__global__ void scale(const float *x, float *y) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * EACH;
#pragma unroll
  for (int k = 0; k < EACH; ++k) y[i + k] = 2 * x[i + k];
}
"""

ARGS = """
import numpy as np

import tracegen


def scale(block: int = 64) -> tracegen.CudaWorkload:
    x = np.ones(1 << 14, np.float32)
    return tracegen.CudaWorkload(arguments=[x, x.copy()], grid=8, block=block)
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.py").write_text(KERNEL)
    somebodys_own = '{"device_name": "A100", "cache": {}}'
    (tmp_path / "measured.json").write_text(somebodys_own)
    return "copy.py:copy"


def test_strided_copies_are_slower(kernel: str, run_memsim: RunMemsim) -> None:
    """The page, the tables and the files agree; the parameter that costs bandwidth decides."""
    ended = run_memsim(
        *("tune", kernel, "-m", "v100", "--set", "n=65536", "--over", "stride=8,1"),
        *("--over", "group=64,13,128", "--where", "group != 64 or stride < 8", "--jobs", "1"),
        *("--json", "out.json", "--csv", "out.csv", "--html", "out.html"),
        *("--kernel-tuner", "kt.json", "--t4", "t4.json"),
    )
    assert "stride=1 group=" in ended.out.splitlines()[0]
    rows = json.loads(Path("out.json").read_text())["machines"]["v100"]["configurations"]
    times = {tuple(row["configuration"].values()): row.get("time_s") for row in rows}
    assert times.keys() == {(1, 64), (1, 128), (8, 128), (1, 13), (8, 13)}
    assert times[1, 128] < times[8, 128]
    assert times[1, 13] is times[8, 13] is None
    best = rows[0]
    assert best["interval_s"][0] <= best["time_s"] <= best["interval_s"][1]
    assert best["effort"] == EFFORTS[-1].name
    table = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert [row["time_s"] for row in table] == [str(row.get("time_s", "")) for row in rows]
    # Kernel Tuner's dashboard takes a file that ends otherwise for one that is still being written.
    assert Path("kt.json").read_text().strip().endswith("}\n}")
    entries = json.loads(Path("kt.json").read_text())["cache"]
    assert entries["1,128"]["time"] == pytest.approx(1e3 * times[1, 128])
    assert entries["1,13"]["time"] == "CompilationFailedConfig"
    results = json.loads(Path("t4.json").read_text())["results"]
    assert sum(one["invalidity"] == "correct" for one in results) == 3
    page = Path("out.html").read_text()
    assert "Response to each parameter" in page
    assert "13 brings bad luck" in page
    assert "13 brings bad luck" in ended.out


def tuned(**fields: tuple[Any, Any]) -> tuning.Tuned:
    """Two configurations, the second twice as slow. fields : name -> that of each outcome"""
    space = tuning.parse_space(["bx=16,32"])
    nothing = {"read_bytes": {"DRAM": 1.0}, "write_bytes": {"DRAM": 1.0}}
    outcomes = tuple(
        Outcome(
            configuration=one, machine="v100", effort=2, time_s=1e-4 * (k + 1), **nothing,
            **{name: values[k] for name, values in fields.items()},
        )
        for k, one in enumerate(space.configurations())
    )  # fmt: skip
    found = {"v100": Found(outcomes=outcomes, spread={}, complete=True)}
    subject = tuning.Subject(kernel=KernelSpec("k.py:knl", {}, None), limits=Limits())
    return tuning.Tuned(
        subject=subject, space=space, n_configurations=2, found=found, interrupted=False
    )


@pytest.mark.parametrize(("binds", "left"), [("DRAM", ["limited by"]), ("latency", [])])
def test_only_words_are_aligned_to_the_left(binds: str, left: list[str]) -> None:
    """Where all configurations have the same limit, its column is left out; no number takes its place."""
    html = tuning_page(tuned(binds=("latency", binds), occupancy=(0.5, 1.0)))
    table = html[html.index("Fastest configurations</h2>") :]
    heads = re.findall(r'<th class="l"[^>]*>([^<]+)</th>', table[: table.index("</thead>")])
    assert heads == left


def test_the_page_says_why_the_fastest_is_fast_and_how_many_groups_were_traced() -> None:
    """Here it leaves less time that no resource explains, and needs no less of any."""
    floors = {"L1": 9e-5}
    made = tuned(binds=("L1", "L1"), floors_s=(floors, floors), traced_groups=(45, 4711))
    html = tuning_page(made).replace("\N{NO-BREAK SPACE}", " ")
    text = "what no resource explains: 10.00 us, where the median configuration has 110.0 us"
    assert text in html
    head, rows = ranking(made, "v100")
    assert [row[head.index("groups traced")] for row in rows] == ["45", "4711"]


@needs_clang
def test_a_parameter_that_the_arguments_lack_is_a_macro_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_memsim: RunMemsim
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.cu").write_text(CUDA)
    Path("args.py").write_text(ARGS)
    line = ("tune", "scale.cu:scale", "--args", "args.py:scale", "-m", "v100", "--json", "-")
    ended = run_memsim(*line, "--over", "EACH=1,4", "--over", "block=64", "--jobs", "1")
    rows = json.loads(ended.out)["machines"]["v100"]["configurations"]
    read = {r["configuration"]["EACH"]: r["read_bytes"]["DRAM"] for r in rows}
    assert read[4] == pytest.approx(4 * read[1], rel=0.01)
    error = run_memsim.refused(*line, "--over", "OTHER=1,4", "--jobs", "1")
    assert "scale has no parameter OTHER" in error


OPENCL = """\
__kernel void scale(__global const float *x, __global float *y)
{
  int i = get_global_id(0);
  for (int k = 0; k < EACH; ++k) y[i * EACH + k] = 2 * x[i * EACH + k];
}
"""
OPENCL_ARGS = """\
import numpy as np
import tracegen

def scale(n: int = 1 << 16, EACH: int = 1, group: int = 64) -> tracegen.OpenCLWorkload:
    x, y = np.ones(n, np.float32), np.zeros(n, np.float32)
    return tracegen.OpenCLWorkload(
        arguments=[x, y], global_size=n // EACH, local_size=group, build_options=f"-DEACH={EACH}"
    )
"""


def test_opencl_c_is_tuned_over_build_options_on_two_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_memsim: RunMemsim
) -> None:
    """However many elements a work-item has, the launch reads each once; neighbours coalesce with one."""
    monkeypatch.chdir(tmp_path)
    Path("scale.cl").write_text(OPENCL)
    Path("args.py").write_text(OPENCL_ARGS)
    ended = run_memsim(
        *("tune", "scale.cl:scale", "--args", "args.py:scale", "-m", "v100", "-m", "mi210"),
        *("--over", "EACH=1,8", "--json", "-", "--jobs", "1"),
    )
    machines = json.loads(ended.out)["machines"]
    assert list(machines) == ["v100", "mi210"]
    for found in machines.values():
        rows = found["configurations"]
        looked = [row["read_bytes"]["DRAM"] for row in rows if row["read_bytes"]]
        assert looked == pytest.approx([4 << 16] * len(looked), rel=0.02)
        assert looked
        assert [row["configuration"]["EACH"] for row in rows] == [1, 8], "fastest first"


FORTRAN = """\
subroutine shift(n, a, b)
  implicit none
  integer n, i
  real*8 a(n), b(n)

  do i = 1, n - 1
    b(i) = a(i + 1) - a(i)
  end do
end

!$loopy begin
! shift = lp.parse_fortran(SOURCE, FILENAME)
! shift = lp.split_iname(shift, "i", 64, outer_tag="g.0", inner_tag="l.0")
! RESULT = [shift]
!$loopy end
"""


def test_fortran_is_tuned_over_its_integers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_memsim: RunMemsim
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shift.floopy").write_text(FORTRAN)
    line = ("tune", "shift.floopy:shift", "-m", "v100", "--jobs", "1", "--json", "-")
    ended = run_memsim(*line, "--over", "n=65536,131072")
    rows = json.loads(ended.out)["machines"]["v100"]["configurations"]
    read = {row["configuration"]["n"]: row["read_bytes"]["DRAM"] for row in rows}
    assert read == pytest.approx({n: 8 * n for n in (65536, 131072)}, rel=0.02)
    error = run_memsim.refused(*line, "--over", "block=32,64", "--set", "n=65536")
    assert "has no scalar argument block; it has n" in error


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("--over group", "--over must be NAME=VALUE"),
        ("--over group=64 --where n>1", "n is not among the parameters group"),
        ("--over group=64 --where group>64", "no combination satisfies"),
        ("--over group=64 --set group=32", "in both --set and --over"),
        ("--over group=64 -m v100", "'v100' is given twice"),
        ("--over group=64 -m v1000", "unknown machine 'v1000'"),
        ("--over group=64 --json a --csv a", "--csv must not be a"),
        ("--over group=64 --store copy.py", "no store of outcomes"),
        ("--over group=64 --csv copy.py", "--csv must not replace copy.py"),
        ("--over group=64 --t4 measured.json", "--t4 v100 must not replace measured.json"),
        ("--over group=64 --kernel-tuner measured.json", "must not replace measured.json"),
        ("--over group=13 --json a --jobs 1", "none of 1 configurations can be predicted"),
        ("--over groups=64 --json a --jobs 2", "copy has no parameter groups"),
        ("--over group=64,x --json a --jobs 1", "must be an integer, got 'x'"),
    ],
)
def test_wrong_command_lines(kernel: str, run_memsim: RunMemsim, words: str, rule: str) -> None:
    ended = run_memsim("tune", kernel, "-m", "v100", *words.split(), code=2)
    *progress, error = ended.err.strip().split("\n")
    assert ended.out == ""
    assert error.startswith("memsim: ")
    assert rule in error
    assert all("glance" in line for line in progress), "of a run that takes long"
    assert not Path("a").exists()
    assert Path("copy.py").read_text() == KERNEL


def test_an_interrupt_keeps_what_is_done_and_the_store_goes_on_from_it(
    kernel: str, run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = ("tune", kernel, "-m", "v100", "--over", "stride=1,2", "--jobs", "1", "--store", "s")
    add = tuning.OutcomeStore.add

    def interrupted(store: tuning.OutcomeStore, task: tuning.Task, outcome: Outcome) -> None:
        add(store, task, outcome)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tuning.OutcomeStore, "add", interrupted)
        ended = run_memsim(*line, code=EXIT_INTERRUPTED)
    assert "interrupted" in ended.out
    added = []
    monkeypatch.setattr(
        tuning.OutcomeStore, "add", lambda store, task, outcome: added.append(task.configuration)
    )
    run_memsim(*line)
    assert {"stride": "1"} not in added[:1]


def test_where_nothing_can_be_predicted_a_later_run_tries_again(
    kernel: str, run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason may lie outside of the kernel: here the memory; a compiler may be missing."""
    line = ("tune", kernel, "-m", "v100", "--over", "group=64", "--jobs", "1", "--store", "s")
    with monkeypatch.context() as patched:
        patched.setattr("calib.tuning.evaluation._predicted", _no_memory)
        assert "does not fit into memory" in run_memsim(*line, code=2).err
    run_memsim(*line)


def _no_memory(_: tuning.Task) -> Outcome:
    raise MemoryError


def test_results_do_not_depend_on_the_number_of_processes(
    kernel: str, run_memsim: RunMemsim
) -> None:
    """The kernel's file has the name of one of Python's own modules, which the workers import."""
    line = ("tune", kernel, "-m", "v100", "--over", "stride=1,2", "--json", "-")
    first, second = (run_memsim(*line, "--jobs", jobs) for jobs in ("1", "2"))
    assert first.out == second.out


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_results(kernel: str, run_memsim: RunMemsim) -> None:
    distributed = pytest.importorskip("distributed")
    spec = str(Path(kernel).absolute())
    line = ("tune", spec, "-m", "v100", "--over", "stride=1:3", "--json", "-")
    local = run_memsim(*line, "--jobs", "1")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=False
    ) as cluster:
        ended = run_memsim(*line, "--scheduler", cluster.scheduler_address)
    assert ended.out == local.out


def test_kernel_tuner_runs_from_the_cache(tmp_path: Path) -> None:
    """Its own simulation mode, in a process of its own, finds the fastest."""
    pytest.importorskip("kernel_tuner")
    space = tuning.parse_space(["bx=16,32,64", "kind=a,b"])
    outcomes = [
        Outcome(configuration=one, machine="v100", effort=2, time_s=1e-3 * (k + 1), registers=32)
        for k, one in enumerate(space.configurations())
    ]
    failed = Outcome(
        configuration=outcomes[0].configuration, machine="v100", effort=0, failure="no"
    )
    found = Found(outcomes=(*outcomes[1:], failed), spread={}, complete=True)
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(cache("k", space, "v100", found)))
    best = _tuned_by_kernel_tuner(path)
    assert {name: best[name] for name in ("bx", "kind")} == {"bx": 16, "kind": "b"}
    assert best["time"] == pytest.approx(2.0)


def _tuned_by_kernel_tuner(path: Path) -> dict[str, Any]:
    script = f"""
import json, numpy as np, kernel_tuner
space = json.load(open({str(path)!r}))["tune_params"]
results, _ = kernel_tuner.tune_kernel("k", "__global__ void k(float *a) {{}}", 1, [np.zeros(1)], space,
    cache={str(path)!r}, simulation_mode=True, quiet=True)
print(json.dumps(min((r for r in results if isinstance(r["time"], float)), key=lambda r: r["time"]), default=str))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True
    )
    best: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return best


@pytest.mark.weekly(2)
@pytest.mark.parametrize(
    "command", [("tune", "--over", "group=64"), ("sweep", "--set", "n=64,128")]
)
def test_a_worker_that_dies_is_one_line(
    kernel: str, run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("calib.tuning.pool.evaluate", die)
    name, *words = command
    words += ("--jobs", "2", "--json", "a")
    ended = run_memsim(name, kernel, "-m", "v100", *words, code=2)
    assert ended.out == ""
    assert ended.err.splitlines()[-1] == (
        "memsim: a process that predicted a configuration died: it was killed, perhaps because memory"
        " ran out"
    )
    assert not Path("a").exists()


def test_columns_that_are_equal_in_all_rows_are_one_sentence() -> None:
    head = ["", "b", "time", "registers", "occupancy"]
    rows = [["1", "32", "1 us", "23", "50 %"], ["2", "32", "1 us", "23", "100 %"]]
    left, words = without_equal((head, rows), 3)
    assert left == (["", "b", "time", "occupancy"], [[*row[:3], row[4]] for row in rows])
    assert words == "In all: registers 23."
    assert without_equal((head, rows[:1]), 3) == ((head, rows[:1]), "")

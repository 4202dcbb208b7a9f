"""Counters of one benchmark from Nsight Compute, run on this very command restricted to that kernel."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from memsim.errors import MemsimError, TraceError
from memsim.formats import Launch, read_counters
from memsim.report import base_name

_L1, _L2 = "l1tex__t_sectors_pipe_lsu_mem_global_op", "lts__t_sectors_srcunit_tex_op"
METRICS = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    f"{_L1}_ld.sum",
    f"{_L1}_ld_lookup_hit.sum",
    f"{_L1}_st.sum",
    "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    f"{_L2}_read.sum",
    f"{_L2}_read_lookup_hit.sum",
    f"{_L2}_write.sum",
    "lts__t_sector_op_read_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
)
OPTIONS = ("--csv", "--page", "raw", "--clock-control", "none", "--target-processes", "all")
"""Clocks stay as they are. Nsight Compute's default empties the caches before each of its passes."""
MOST_OUTPUT_BYTES = 16 << 20
LIMIT_S = 900.0
_COMPLAINT = re.compile(r"==(ERROR|WARNING)==|hardware_validation: |Error: ")
FORBIDDEN = "ERR_NVGPUCTRPERM"


class CountersForbidden(MemsimError):
    """The driver keeps counters from this user: no kernel will have any."""


def ncu_path() -> str:
    """Where Nsight Compute is; raises MemsimError where it is not on PATH."""
    found = shutil.which("ncu")
    if found is None:
        raise MemsimError("ncu (Nsight Compute) is not on PATH")
    return found


def ncu_version(ncu: str) -> str:
    """The last line of `ncu --version`."""
    try:
        done = subprocess.run(
            [ncu, "--version"], capture_output=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MemsimError(f"{ncu} cannot be run: {error}") from error
    lines = done.stdout[:4096].decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "unknown")


def command(ncu: str, name: str, function: str, quick: bool) -> list[str]:
    """What is run for a benchmark whose kernel function has that name."""
    module = ["-m", "experiments.hardware_validation", "--capture", "--launch-once", "--kernel"]
    return [
        *(ncu, *OPTIONS, "--kernel-name", function, "--metrics", ",".join(METRICS)),
        *(sys.executable, *module, name, *(["--quick"] if quick else [])),
    ]


def counted(arguments: Sequence[str], function: str) -> tuple[Launch, ...]:
    """Runs ncu and reads what it printed; the launches of the kernel.

    Raises CountersForbidden where the driver forbids counters, MemsimError with ncu's own words else.
    """
    with tempfile.TemporaryDirectory(prefix="memsim-ncu-") as folder:
        target, errors = Path(folder) / "counters.csv", Path(folder) / "errors.txt"
        with target.open("wb") as output, errors.open("wb") as error_output:
            try:
                done = subprocess.run(
                    arguments, stdout=output, stderr=error_output,
                    stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise MemsimError(f"ncu took longer than {LIMIT_S:.0f} s") from None
            except OSError as error:
                raise MemsimError(f"{arguments[0]} cannot be run: {error}") from error
        if max(target.stat().st_size, errors.stat().st_size) > MOST_OUTPUT_BYTES:
            raise MemsimError(f"ncu printed more than {MOST_OUTPUT_BYTES >> 20} MiB")
        text = target.read_text(errors="replace") + "\n" + errors.read_text(errors="replace")
        if FORBIDDEN in text:
            raise CountersForbidden(
                f"{FORBIDDEN}: this user may not read the GPU's counters; an administrator allows"
                " it (https://developer.nvidia.com/ERR_NVGPUCTRPERM)"
            )
        said = sorted(filter(_COMPLAINT.search, text.splitlines()), key=lambda line: "WARN" in line)
        why = f": {said[0].strip()[:200]}" if said else ""
        if done.returncode:
            raise MemsimError(f"ncu ended with exit code {done.returncode}{why}")
        try:
            launches = read_counters(target).launches
        except TraceError as error:
            rest = str(error).removeprefix(str(target)).lstrip(":")
            raise MemsimError(f"ncu's CSV cannot be read:{rest}{why}") from None
    found = tuple(one for one in launches if base_name(one.kernel) == function and one.counters)
    if not found:
        raise MemsimError(f"ncu counted no launch of {function}{why}")
    return tuple(
        dataclasses.replace(
            one, counters={name: one.counters[name] for name in METRICS if name in one.counters}
        )
        for one in found
    )

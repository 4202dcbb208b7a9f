"""Measures the benchmark kernels on the GPU that is here, and keeps what was found as one file.

Times are those of events: through OpenCL, or through CUDA where OpenCL has no GPU. Counters are Nsight
Compute's, which profiles CUDA alone, so they need CuPy whichever way took the times. What cannot be had is
said, and kept in the file; what is done when an interrupt comes is kept.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calib.timing import (
    TRIALS,
    WARMUP,
    Timing,
    device_title,
    driver,
    find_context,
    is_gpu,
    time_kernel,
)
from experiments.hardware import capture_counters, capture_cuda, capture_kernels
from experiments.hardware.capture_file import (
    Capture,
    CapturedKernel,
    CapturedLaunch,
    write_capture,
)
from memsim.errors import KernelError, MemsimError, OpenCLError
from memsim.machine import load_machine, machine_names
from tracegen.workloads import Workload

FOLDER = Path(__file__).parent.parent / "data" / "captures"
PACKAGES = ("memsim", "numpy", "loopy", "pyopencl")
DEVICE_NAMES = {
    "a100": r"\bA100",
    "c1060": r"Tesla C1060",
    "c2050": r"Tesla C2050",
    "h100": r"\bH100",
    "h200": r"\bH200",
    "k40c": r"\bK40c",
    "mi210": r"\bMI210",
    "mi250x": r"\bMI250X",
    "mi300x": r"\bMI300X",
    "r9_fury": r"R9 Fury",
    "titan_v": r"TITAN V\b",
    "titan_x": r"GTX TITAN X\b",
    "v100": r"\bV100",
}
"""Shipped machine -> how drivers call it; the number of cores must agree too (an H100 PCIe has 114)."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A device and how times are taken on it."""

    name: str
    facts: dict[str, Any]
    time: Callable[[Workload, int], Timing]


def machine_of(device: str, n_cores: int) -> tuple[str | None, str]:
    """The shipped machine that a device is, or None and why not."""
    for machine, pattern in DEVICE_NAMES.items():
        if re.search(pattern, device, re.IGNORECASE):
            ours = load_machine(machine).n_cores
            if ours == n_cores:
                return machine, ""
            return (
                None,
                f"no machine file for this device: {machine} has {ours} cores, not {n_cores}",
            )
    return None, f"no machine file for this device ({device})"


def find_way(device: str) -> Way:
    """OpenCL on the device named, or on a GPU; CUDA where OpenCL has none.

    Raises MemsimError where there is neither, saying what is.
    """
    try:
        context = find_context(device)
    except OpenCLError as error:
        if device:
            raise
        context, missing = None, str(error)
    if context is not None and (device or is_gpu(context)):
        return Way(
            name="opencl",
            facts={
                "device": device_title(context),
                "driver": driver(context),
                "n_cores": int(context.devices[0].max_compute_units),
                "is_gpu": is_gpu(context),
            },
            time=lambda workload, trials: time_kernel(
                workload.kernel, workload.arguments, trials=trials, context=context
            ),
        )
    if context is not None:
        missing = f"OpenCL has no GPU, only {device_title(context)}"
    try:
        cupy = capture_cuda.cupy_module()
    except MemsimError as error:
        raise MemsimError(
            f"no GPU: {missing}; {error}; --device NAME captures on any OpenCL device"
        ) from None
    facts = capture_cuda.cuda_device(cupy)
    return Way(
        name="cuda",
        facts=facts,
        time=lambda workload, trials: capture_cuda.CudaRun(
            cupy, capture_cuda.cuda_launch(workload)
        ).timing(trials, WARMUP, facts["device"]),
    )


def launch_once(name: str, quick: bool) -> None:
    """One launch through CUDA, for Nsight Compute to watch."""
    workload = capture_kernels.workload(name, capture_kernels.sizes(name, quick))
    capture_cuda.CudaRun(capture_cuda.cupy_module(), capture_cuda.cuda_launch(workload)).once()


def capture(
    *,
    out: Path = FOLDER,
    kernels: Sequence[str] = (),
    device: str = "",
    machine: str | None = None,
    trials: int = TRIALS,
    quick: bool = False,
    echo: Callable[[str], object] = print,
) -> Capture:
    """Runs the kernels one by one, writing what there is after each.

    machine : the shipped machine that the device is, where its name does not tell

    Raises MemsimError where nothing can be measured; KeyboardInterrupt once what is done is kept.
    """
    names = capture_kernels.checked_names(list(kernels))
    if machine is not None and machine not in machine_names():
        raise MemsimError(f"--machine must be a shipped one, got {machine}")
    if not 1 <= trials <= 1000:
        raise MemsimError(f"--trials must be 1 to 1000, got {trials}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MemsimError(f"--out must be a folder, got {out}: {error.strerror}") from error
    way = find_way(device)
    missing: list[str] = []
    if machine is None:
        machine, why = machine_of(way.facts["device"], way.facts["n_cores"])
        if why:
            echo(f"not to be compared: {why}; --machine names one")
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["python"] = platform.python_version()
    ncu = ""
    try:
        ncu = _counting(way.facts["device"], versions)
    except MemsimError as error:
        missing.append(f"counters: {error}")
    now = datetime.datetime.now(datetime.UTC)
    slug = re.sub(r"[^a-z0-9]+", "-", way.facts["device"].lower()).strip("-")[:60]
    state = Capture(
        **way.facts,
        system=platform.platform(),
        date=now.isoformat(timespec="seconds"),
        way=way.name,
        machine=machine,
        versions=versions,
        path=out / f"{slug}-{now:%Y%m%dT%H%M%SZ}.json",
    )
    echo(f"{state.device} ({state.driver}), through {way.name}")
    done: list[CapturedKernel] = []
    finished = False
    try:
        for name in names:
            found, reasons, ncu = _one(name, way, ncu, trials, quick)
            done.append(found)
            missing += reasons
            echo(_line(found))
            write_capture(_with(state, done, missing))
        finished = True
    except KeyboardInterrupt:
        missing.append(f"interrupted: {', '.join(names[len(done) :])} not run")
        raise
    finally:
        state = dataclasses.replace(_with(state, done, missing), finished=finished)
        if done:
            write_capture(state)
            echo(f"wrote {state.path}")
        for reason in missing:
            echo(f"not collected: {reason}")
    return state


def _counting(device: str, versions: dict[str, str]) -> str:
    """The ncu to use; its version and CuPy's go into `versions`. Raises MemsimError where it cannot be."""
    ncu = capture_counters.ncu_path()
    cupy = capture_cuda.cupy_module()
    other = capture_cuda.cuda_device(cupy)["device"]
    if other.removeprefix("CUDA: ") not in device:
        raise MemsimError(f"times are of {device}, and what ncu would count runs on {other}")
    versions |= {"ncu": capture_counters.ncu_version(ncu), "cupy": str(cupy.__version__)}
    return ncu


def _with(state: Capture, done: Sequence[CapturedKernel], missing: Sequence[str]) -> Capture:
    reasons = tuple(" ".join(reason.split())[:1000] for reason in missing)
    return dataclasses.replace(state, kernels=tuple(done), not_collected=reasons)


def _one(
    name: str, way: Way, ncu: str, trials: int, quick: bool
) -> tuple[CapturedKernel, list[str], str]:
    """One kernel, what could not be had of it, and the ncu to use from now on ("": none)."""
    sizes = capture_kernels.sizes(name, quick)
    found, missing = CapturedKernel(name=name, sizes=sizes), []
    workload = capture_kernels.workload(name, sizes)
    try:
        timing = way.time(workload, trials)
        times = tuple(float(value) for value in timing.seconds)
        found = dataclasses.replace(found, times_s=times, clock=timing.clock)
    except (MemsimError, MemoryError) as error:
        missing.append(f"times of {name}: {error}")
    if ncu:
        try:
            function = capture_cuda.cuda_launch(workload).name
            arguments = capture_counters.command(ncu, name, function, quick)
            launches = tuple(
                CapturedLaunch(n_groups=one.n_groups, counters=dict(one.counters))
                for one in capture_counters.counted(arguments, function)
            )
            found = dataclasses.replace(found, launches=launches)
        except capture_counters.CountersForbidden as error:
            return found, [*missing, f"counters: {error}"], ""
        except (KernelError, MemsimError) as error:
            missing.append(f"counters of {name}: {error}")
    return found, missing, ncu


def _line(found: CapturedKernel) -> str:
    """A kernel in one line: its median time, how many counters."""
    times = f"{np.median(found.times_s):.4g} s" if found.times_s else "no times"
    counters = sorted({name for launch in found.launches for name in launch.counters})
    return f"  {found.name:18s} {times:>12s}, {len(counters)} counters"

"""A workload through Loopy's CUDA target and CuPy: its source, its launch, its times.

Written without a GPU at hand: source and arguments are tested, on a CPU; CuPy's own part is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
from loopy.diagnostic import LoopyError
from loopy.schedule.tools import get_subkernel_arg_info
from pymbolic import evaluate

from calib.counting import sizes_of
from calib.timing import Timing
from memsim.errors import KernelError, MemsimError
from tracegen.workloads import Workload

INSTALL = "pip install memsim[cuda]"


@dataclass(frozen=True, kw_only=True)
class CudaLaunch:
    """A kernel in CUDA C with what it is launched with: arrays, and numbers of the C types' width.

    grid, block : extents along x, y and z
    """

    name: str
    source: str
    arguments: Mapping[str, Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]


def cuda_launch(workload: Workload) -> CudaLaunch:
    """Raises KernelError where Loopy makes no CUDA of it, or no single launch."""
    t_unit = workload.kernel.copy(target=lp.CudaTarget())
    (name,) = t_unit.entrypoints
    try:
        t_unit = lp.preprocess_program(lp.infer_unknown_types(t_unit))
        kernel = lp.get_one_linearized_kernel(t_unit[name], t_unit.callables_table)
        source = lp.generate_code_v2(t_unit).device_code()
        info = get_subkernel_arg_info(kernel, name)
        extents = kernel.get_grid_size_upper_bounds_as_exprs(t_unit.callables_table)
    except (LoopyError, KeyError) as error:
        raise KernelError(f"kernel {name}: no CUDA: {' '.join(str(error).split())}") from error
    known = sizes_of(workload)
    grid, block = (
        (*(int(evaluate(extent, known)) for extent in shape), 1, 1, 1)[:3] for shape in extents
    )
    arguments: dict[str, Any] = {}
    for argument in info.passed_names:
        declared = kernel.arg_dict[argument]
        dtype = declared.dtype.numpy_dtype
        given = workload.arguments.get(argument, known.get(argument))
        if isinstance(declared, lp.ValueArg):
            if given is None:
                raise KernelError(f"kernel {name}: nothing tells its argument {argument}")
            arguments[argument] = dtype.type(given)
        elif given is None:
            shape = tuple(int(evaluate(extent, known)) for extent in declared.shape)
            arguments[argument] = np.zeros(shape, dtype)
        else:
            arguments[argument] = np.ascontiguousarray(given, dtype)
    return CudaLaunch(name=name, source=source, arguments=arguments, grid=grid, block=block)


def cupy_module() -> Any:
    """CuPy with a device; raises MemsimError that says which of the two is missing."""
    try:
        import cupy
    except ImportError as error:
        raise MemsimError(f"CuPy cannot be imported ({error}): {INSTALL}") from None
    try:
        found = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MemsimError(f"CuPy finds no CUDA device: {error}") from None
    if not found:
        raise MemsimError("CuPy finds no CUDA device")
    return cupy


def cuda_device(cupy: Any) -> dict[str, Any]:
    """Name, driver and number of cores of CuPy's device."""
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    name = properties["name"]
    return {
        "device": f"CUDA: {name.decode() if isinstance(name, bytes) else name}",
        "driver": f"CUDA driver API {cupy.cuda.runtime.driverGetVersion()}, runtime"
        f" {cupy.cuda.runtime.runtimeGetVersion()}",
        "n_cores": int(properties["multiProcessorCount"]),
        "is_gpu": True,
    }


class CudaRun:
    """A launch with its arrays on the device. Raises KernelError where it cannot be built or run."""

    def __init__(self, cupy: Any, launch: CudaLaunch) -> None:
        self.cupy, self.launch = cupy, launch
        with _as_kernel_error(launch.name):
            self.arguments = {
                name: cupy.asarray(value) if isinstance(value, np.ndarray) else value
                for name, value in launch.arguments.items()
            }
            self.function = cupy.RawKernel(launch.source, launch.name)

    def once(self) -> float:
        """One launch; seconds between events before and behind it."""
        with _as_kernel_error(self.launch.name):
            start, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            start.record()
            self.function(self.launch.grid, self.launch.block, tuple(self.arguments.values()))
            end.record()
            end.synchronize()
            return float(self.cupy.cuda.get_elapsed_time(start, end)) * 1e-3

    def timing(self, trials: int, warmup: int, device: str) -> Timing:
        """As calib.timing.trials.time_kernel."""
        for _ in range(warmup):
            self.once()
        seconds = np.array([self.once() for _ in range(trials)])
        return Timing(seconds=seconds, clock="event", device=device)


@contextlib.contextmanager
def _as_kernel_error(name: str) -> Iterator[None]:
    """CuPy's errors of builds, of launches and of memory share no root."""
    try:
        yield
    except Exception as error:
        why = " ".join(str(error).split())
        raise KernelError(f"kernel {name} cannot be run: {type(error).__name__}: {why}") from error

"""The key under which a recording would store a kernel's launch, without running the kernel."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

from calib.history import hooks
from calib.history.errors import HistoryError
from calib.history.key import Key, device_title, kernel_fingerprint
from memsim.errors import KernelError, one_line


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch's key in a history, and the bytes of its buffers."""

    key: Key
    size_bytes: int


def launch_of(workload: Any, context: Any) -> Launch:
    """The launch of a Loopy kernel with its arguments on a context's device.

    The kernel is built and passes every step but its execution, so its key is the one under which
    `record` stores it.

    workload : a tracegen.Workload;  context : a pyopencl.Context

    Raises HistoryError for a kernel with several launches, which have no common key; KernelError where
    the kernel cannot be built or arguments are missing.
    """
    import loopy as lp
    import numpy as np
    import pyopencl as cl
    import pyopencl.array as cl_array
    from loopy.diagnostic import LoopyError

    if not isinstance(workload.kernel, lp.TranslationUnit):
        raise KernelError(
            f"only a Loopy kernel's launch has a key before it runs, got a"
            f" {type(workload.kernel).__name__}"
        )
    (name,) = workload.kernel.entrypoints

    queue = cl.CommandQueue(context)
    arguments = {
        name: cl_array.to_device(queue, value) if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    try:
        with hooks.dry_run() as launches, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Loopy's hints about arguments
            _executor(workload.kernel, context)(queue, **arguments)
    except (LoopyError, cl.Error) as error:
        raise KernelError(f"kernel {name}: {one_line(error)}") from error
    if len(launches) != 1:
        raise HistoryError(
            f"kernel {name} has {len(launches)} launches: a history has a key for each launch, but none"
            " for all of them together"
        )
    _, kernel, grid, group, slots = launches[0]
    key = Key(
        kernel=kernel_fingerprint(kernel),
        device=device_title(queue),
        driver=queue.device.driver_version,
        layout=hooks.layout_of(slots, tuple(grid), tuple(group) if group is not None else None),
    )
    return Launch(key=key, size_bytes=hooks.bytes_of(slots))


@functools.lru_cache(maxsize=64)
def _executor(kernel: Any, context: Any) -> Any:
    import loopy as lp

    return lp.set_options(kernel, return_dict=True, no_numpy=True).executor(context)

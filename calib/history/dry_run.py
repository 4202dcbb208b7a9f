"""The key of a kernel's launch, as a recording would name it, without running the kernel."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from typing import Any

from calib.history import hooks as launches
from calib.history.errors import HistoryError
from calib.history.key import Key, device_title, kernel_fingerprint
from memsim.errors import KernelError


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What the history calls a launch, and the bytes of its buffers."""

    key: Key
    size_bytes: int


def launch_of(workload: Any, context: Any) -> Launch:
    """The launch of a Loopy kernel with its arguments on a context's device.

    The kernel is built and goes all the way to the enqueueing, which is left out: so its key is the
    very one under which `record` stores it.

    workload : a tracegen.Workload;  context : a pyopencl.Context
    Raises HistoryError where the kernel makes several launches: no key stands for them together;
    KernelError where it cannot be built, or arguments are missing.
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
        with launches.pretending() as noted, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Loopy's hints about arguments
            _executor(workload.kernel, context)(queue, **arguments)
    except (LoopyError, cl.Error) as error:
        raise KernelError(f"kernel {name}: {' '.join(str(error).split())}") from error
    if len(noted) != 1:
        raise HistoryError(
            f"kernel {name} makes {len(noted)} launches: a history has a key for each, none for all"
        )
    _, kernel, grid, group, told = noted[0]
    key = Key(
        kernel=kernel_fingerprint(kernel),
        device=device_title(queue),
        driver=queue.device.driver_version,
        layout=launches.layout_of(told, tuple(grid), tuple(group) if group is not None else None),
    )
    return Launch(key=key, size_bytes=launches.bytes_of(told))


@functools.lru_cache(maxsize=64)
def _executor(kernel: Any, context: Any) -> Any:
    import loopy as lp

    return lp.set_options(kernel, return_dict=True, no_numpy=True).executor(context)

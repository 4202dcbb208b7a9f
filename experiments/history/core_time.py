"""Processor time of launches, measured one launch at a time.

The times of an OpenCL event include the time during which another program has the core; the
processor time of this process does not. It includes the waking and waiting of its own threads, some
0.1 ms a launch. With tiles of 512, whose launches take 3 ms and more, this is a few percent.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.history import Store
from experiments.history import lu_kernels
from experiments.history.workers import Worker, WorkerDevice, dominant, worker_devices, workers
from memsim.errors import OpenCLError


def measure(
    tile: int, n_launches: int
) -> tuple[Sequence[WorkerDevice], Mapping[tuple[str, int], npt.NDArray[np.float64]]]:
    """Both workers, and (kind, worker) -> (n_launches,) seconds of processor time.

    Raises OpenCLError if a worker is not a CPU, because other devices use no processor time.
    """
    import pyopencl as cl

    where = worker_devices()
    for place in where:
        if not place.device.type & cl.device_type.CPU:
            raise OpenCLError(f"processor time is known for CPUs only, not for {place.title}")
    times = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "history.db") as store,
        workers(where, tile, store) as at,
    ):
        for worker in at:
            worker.queue.recorder.stop()  # the processor time of its thread would be included
        for number, worker in enumerate(at):
            for kind in lu_kernels.KINDS:
                times[kind, number] = _times(worker, kind, tile, n_launches)
    return where, times


def _times(worker: Worker, kind: str, tile: int, n_launches: int) -> npt.NDArray[np.float64]:
    import pyopencl as cl

    matrix = dominant(2, tile)
    tiles = [matrix.tiles[at] for at in ((0, 0), (1, 0), (0, 1))][: lu_kernels.N_TILES[kind]]
    buffers = [
        cl.Buffer(worker.queue.context, cl.mem_flags.READ_WRITE, part.nbytes) for part in tiles
    ]
    grid = lu_kernels.grid(kind, tile, fast=worker.place.fast)
    seconds = np.empty(n_launches)
    for launch in range(n_launches):
        # Fresh data for every launch: numbers that are solved repeatedly become denormal.
        for buffer, part in zip(buffers, tiles, strict=True):
            cl.enqueue_copy(worker.queue, buffer, part)
        start = time.process_time()
        event = worker.kernels[kind](worker.queue, grid, lu_kernels.group(kind), *buffers)
        event.wait()
        seconds[launch] = time.process_time() - start
    return seconds

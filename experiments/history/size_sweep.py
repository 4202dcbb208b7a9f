"""Times of one kernel at several tile widths on both workers, for Figure 7."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.history import Key, Record, Store
from experiments.history import lu_kernels
from experiments.history.workers import Worker, dominant, worker_devices, workers

KIND = lu_kernels.TRSM_UPPER
WIDTHS = (32, 64, 96, 128, 192, 256, 384, 512)
QUICK_WIDTHS = (32, 64, 128, 192, 256)
LAUNCHES = 25


def sweep(
    widths: Sequence[int],
) -> tuple[list[Record], Mapping[Key, npt.NDArray[np.float64]]]:
    """Records and samples of KIND: LAUNCHES launches at each width on each worker, one worker at a
    time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "history.db", keep_samples=True) as store,
    ):
        where = worker_devices()
        for width in widths:
            with workers(where, width, store) as at:
                for worker in at:
                    _launch(worker, width)
        records = store.records(kernel=KIND)
        return records, {record.key: store.samples(record.key) for record in records}


def _launch(worker: Worker, width: int) -> None:
    import pyopencl as cl

    matrix = dominant(2, width)
    factor, panel = matrix.tiles[0, 0], matrix.tiles[1, 0]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(worker.queue.context, flags, hostbuf=part) for part in (factor, panel)]
    grid = lu_kernels.grid(KIND, width, fast=worker.place.fast)
    with worker.queue.recorder.laid_out(factor, panel):
        for _ in range(LAUNCHES):
            # Fresh data for every launch: numbers that are solved repeatedly become denormal.
            cl.enqueue_copy(worker.queue, buffers[1], panel)
            worker.kernels[KIND](worker.queue, grid, lu_kernels.group(KIND), *buffers).wait()

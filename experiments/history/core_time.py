"""How long launches have a core: the processor's time of this process, with one launch at a time.

An event's times go on while another program has the core. The processor's time does not. Waking and
waiting of this process's threads are in it too, some 0.1 ms a launch: of tiles of 512, whose launches
take 3 ms and more, it is a few percent.
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
from experiments.history.workers import Place, Worker, dominant, places, workers
from memsim.errors import OpenCLError


def measure(
    tile: int, n_launches: int
) -> tuple[Sequence[Place], Mapping[tuple[str, int], npt.NDArray[np.float64]]]:
    """Both workers, and (kind, worker) -> (n_launches,) seconds on a core.

    Raises OpenCLError where a worker is no CPU: what another device does costs no processor time.
    """
    import pyopencl as cl

    where = places()
    for place in where:
        if not place.device.type & cl.device_type.CPU:
            raise OpenCLError(f"time on a core is known of CPUs only, not of {place.title}")
    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(Path(folder) / "history.db") as store,
        workers(where, tile, store) as at,
    ):
        for worker in at:
            worker.queue.recorder.stop()  # its thread's time would count
        for number, worker in enumerate(at):
            for kind in lu_kernels.KINDS:
                found[kind, number] = _times(worker, kind, tile, n_launches)
    return where, found


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
        # Anew each time: solved again and again the numbers would shrink to denormal ones.
        for buffer, part in zip(buffers, tiles, strict=True):
            cl.enqueue_copy(worker.queue, buffer, part)
        start = time.process_time()
        event = worker.kernels[kind](worker.queue, grid, lu_kernels.group(kind), *buffers)
        event.wait()
        seconds[launch] = time.process_time() - start
    return seconds

"""The workers of the factorisation: a device with a queue, tiles, and recorded launches.

The workers are two OpenCL devices, or else two halves of one CPU, of which the second is slowed
down by plainer kernels.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.history import Key, RecordingQueue, Store, layout_hash
from experiments.history import lu_kernels
from experiments.history.task_graph import Task, Tile
from memsim.errors import OpenCLError
from tracegen.devices import survey

SIMULATORS = ("Oclgrind",)
"""Platforms that are too slow to schedule on."""


@dataclass(frozen=True, kw_only=True)
class WorkerDevice:
    """A device and its set of kernels, fast or plain; `title` is the full name of the device."""

    name: str
    title: str
    device: Any
    fast: bool


@functools.cache
def worker_devices() -> tuple[WorkerDevice, WorkerDevice]:
    """The devices of two different workers. The result is cached, because every device is tried in
    a subprocess.

    Raises OpenCLError if there is only one device and it cannot be split.
    """
    import pyopencl as cl

    usable = [c for c in survey() if c.ok and not any(s in c.platform for s in SIMULATORS)]
    platforms = cl.get_platforms()
    devices = [platforms[c.platform_index].get_devices()[c.device_index] for c in usable]
    if len({(c.platform, c.device) for c in usable}) >= 2:
        first, second = (
            WorkerDevice(
                name=f"device {number}", title=usable[number].title, device=device, fast=True
            )
            for number, device in enumerate(devices[:2])
        )
        return first, second
    for candidate, device in zip(usable, devices, strict=True):
        units = device.max_compute_units
        if units < 2:
            continue
        with contextlib.suppress(cl.Error):
            parts = device.create_sub_devices([cl.device_partition_property.EQUALLY, units // 2])
            half = f"{units // 2} of {units} units of {candidate.title}"
            return (
                WorkerDevice(name="vector", title=half, device=parts[0], fast=True),
                WorkerDevice(name="plain", title=half, device=parts[1], fast=False),
            )
    raise OpenCLError("two kinds of workers need two OpenCL devices, or one that can be split")


@dataclass(kw_only=True)
class Worker:
    """One device. Before a task it fetches from the matrix the tiles that another worker has
    written.

    versions : versions of the tiles in its buffers
    """

    place: WorkerDevice
    queue: Any
    kernels: dict[str, Any]
    tile: int
    buffers: dict[Tile, Any] = field(default_factory=dict)
    versions: dict[Tile, int] = field(default_factory=dict)

    def key(self, kind: str) -> Key:
        """The key of this kind of task on this worker in the history."""
        blank = np.broadcast_to(np.float32(0), (self.tile, self.tile))
        n_tiles = lu_kernels.N_TILES[kind]
        return Key(
            kernel=kind,
            device=self.place.name,
            driver=self.queue.device.driver_version,
            layout=layout_hash([blank] * n_tiles),
        )

    def forget(self) -> None:
        """Forget the tiles in the buffers, before another matrix."""
        self.versions.clear()

    def run(self, task: Task, matrix: Matrix) -> float:
        """Run a task and copy its result to the matrix; returns the seconds of the kernel."""
        import pyopencl as cl

        for tile in task.tiles:
            if self.versions.get(tile, -1) != matrix.versions[tile]:
                self._fetch(tile, matrix)
        written = task.tiles[-1]
        arguments = [self.buffers[tile] for tile in task.tiles]
        grid = lu_kernels.grid(task.kind, self.tile, fast=self.place.fast)
        blank = [np.broadcast_to(np.float32(0), (self.tile, self.tile))] * len(arguments)
        with self.queue.recorder.laid_out(*blank):
            event = self.kernels[task.kind](
                self.queue, grid, lu_kernels.group(task.kind), *arguments
            )
        cl.enqueue_copy(self.queue, matrix.tiles[written], self.buffers[written])
        matrix.versions[written] += 1
        self.versions[written] = matrix.versions[written]
        return float(event.profile.end - event.profile.start) * 1e-9

    def _fetch(self, tile: Tile, matrix: Matrix) -> None:
        import pyopencl as cl

        if tile not in self.buffers:
            self.buffers[tile] = cl.Buffer(
                self.queue.context, cl.mem_flags.READ_WRITE, matrix.tiles[tile].nbytes
            )
        cl.enqueue_copy(self.queue, self.buffers[tile], matrix.tiles[tile])
        self.versions[tile] = matrix.versions[tile]


@contextlib.contextmanager
def workers(where: Sequence[WorkerDevice], tile: int, store: Store) -> Iterator[list[Worker]]:
    """Workers on these devices, which record into the store inside the `with` block."""
    import pyopencl as cl

    with contextlib.ExitStack() as stack:
        created = []
        for place in where:
            context = cl.Context([place.device])
            queue = RecordingQueue(
                context,
                store=store,
                kernel_name=lambda kernel: str(kernel.function_name),
                device_name=functools.partial(_named, place.name),
            )
            stack.enter_context(queue)
            source = lu_kernels.FAST if place.fast else lu_kernels.PLAIN
            program = cl.Program(context, source).build(options=[f"-DB={tile}", "-cl-mad-enable"])
            kernels = {kind: cl.Kernel(program, kind) for kind in lu_kernels.KINDS}
            worker = Worker(place=place, queue=queue, kernels=kernels, tile=tile)
            _warm_up(worker)
            created.append(worker)
        yield created


def _named(name: str, _: object) -> str:
    return name


def _warm_up(worker: Worker) -> None:
    """Run every kernel once on another queue, without recording: the driver compiles at the first
    launch."""
    import pyopencl as cl

    queue = cl.CommandQueue(worker.queue.context)
    matrix = dominant(1, worker.tile)
    buffers = [
        cl.Buffer(
            queue.context,
            cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
            hostbuf=matrix.tiles[0, 0],
        )
        for _ in range(3)
    ]
    for kind, kernel in worker.kernels.items():
        grid = lu_kernels.grid(kind, worker.tile, fast=worker.place.fast)
        kernel(queue, grid, lu_kernels.group(kind), *buffers[: lu_kernels.N_TILES[kind]])
    queue.finish()


@dataclass(kw_only=True)
class Matrix:
    """A tiled matrix on the host; a tile's version is the number of times that it was written."""

    tiles: dict[Tile, npt.NDArray[np.float32]]
    versions: dict[Tile, int]
    n_tiles: int

    def whole(self) -> npt.NDArray[np.float32]:
        """The whole matrix, (n, n) float32."""
        n = range(self.n_tiles)
        return np.block([[self.tiles[i, j] for j in n] for i in n])


def dominant(n_tiles: int, tile: int, seed: int = 0) -> Matrix:
    """A random diagonally dominant matrix, so that its LU factorisation needs no pivoting."""
    rng = np.random.default_rng(seed)
    tiles = {}
    for i in range(n_tiles):
        for j in range(n_tiles):
            tiles[i, j] = rng.random((tile, tile), dtype=np.float32) - np.float32(0.5)
            if i == j:
                tiles[i, j] += np.float32(n_tiles * tile) * np.eye(tile, dtype=np.float32)
    return Matrix(tiles=tiles, versions=dict.fromkeys(tiles, 0), n_tiles=n_tiles)

"""The workers that factorise: a device each, its own queue and tiles, and its launches recorded.

Two real OpenCL devices where there are two; else the CPU split into two parts, the second of which
runs the plain kernels: a slowed device.
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
"""Platforms that are no devices to schedule on."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A device, and which of the two sets of kernels it runs.

    title : of the device, in full
    """

    name: str
    title: str
    device: Any
    fast: bool


@functools.cache
def places() -> tuple[Place, Place]:
    """Two workers of different kinds; found once a process, for every device is tried in a child.

    Raises OpenCLError where there is one device and it cannot be split in two.
    """
    import pyopencl as cl

    usable = [c for c in survey() if c.ok and not any(s in c.platform for s in SIMULATORS)]
    platforms = cl.get_platforms()
    devices = [platforms[c.platform_index].get_devices()[c.device_index] for c in usable]
    if len({(c.platform, c.device) for c in usable}) >= 2:
        first, second = (
            Place(name=f"device {number}", title=usable[number].title, device=device, fast=True)
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
                Place(name="vector", title=half, device=parts[0], fast=True),
                Place(name="plain", title=half, device=parts[1], fast=False),
            )
    raise OpenCLError("two kinds of workers need two OpenCL devices, or one that can be split")


@dataclass(kw_only=True)
class Worker:
    """One device at work. Tiles that another one wrote are fetched from the matrix before a task.

    versions : of the tiles that its buffers hold
    """

    place: Place
    queue: Any
    kernels: dict[str, Any]
    tile: int
    buffers: dict[Tile, Any] = field(default_factory=dict)
    versions: dict[Tile, int] = field(default_factory=dict)

    def key(self, kind: str) -> Key:
        """What the history calls this kind of task on this worker."""
        blank = np.broadcast_to(np.float32(0), (self.tile, self.tile))
        n_tiles = lu_kernels.N_TILES[kind]
        return Key(
            kernel=kind,
            device=self.place.name,
            driver=self.queue.device.driver_version,
            layout=layout_hash([blank] * n_tiles),
        )

    def forget(self) -> None:
        """Before another matrix."""
        self.versions.clear()

    def run(self, task: Task, matrix: Matrix) -> float:
        """Runs a task to its end, its result back in the matrix; returns the kernel's seconds."""
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
def workers(where: Sequence[Place], tile: int, store: Store) -> Iterator[list[Worker]]:
    """Workers at these places, recording into the store until the block is left."""
    import pyopencl as cl

    with contextlib.ExitStack() as stack:
        made = []
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
            made.append(worker)
        yield made


def _named(name: str, _: object) -> str:
    return name


def _warm_up(worker: Worker) -> None:
    """Runs every kernel once on another queue, unrecorded: the driver compiles at the first launch."""
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
    """A matrix in tiles on the host, and how often each was written."""

    tiles: dict[Tile, npt.NDArray[np.float32]]
    versions: dict[Tile, int]
    n_tiles: int

    def whole(self) -> npt.NDArray[np.float32]:
        """(n, n) float32, put together."""
        n = range(self.n_tiles)
        return np.block([[self.tiles[i, j] for j in n] for i in n])


def dominant(n_tiles: int, tile: int, seed: int = 0) -> Matrix:
    """A random matrix whose diagonal outweighs its rows: its LU needs no pivots."""
    rng = np.random.default_rng(seed)
    tiles = {}
    for i in range(n_tiles):
        for j in range(n_tiles):
            tiles[i, j] = rng.random((tile, tile), dtype=np.float32) - np.float32(0.5)
            if i == j:
                tiles[i, j] += np.float32(n_tiles * tile) * np.eye(tile, dtype=np.float32)
    return Matrix(tiles=tiles, versions=dict.fromkeys(tiles, 0), n_tiles=n_tiles)

"""The device that runs the kernels of `sources` and reports their times."""

from __future__ import annotations

import contextlib
import mmap
import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calib.probes import sources
from memsim.errors import OpenCLError

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Local:
    """A kernel argument: local memory of this many bytes for each group."""

    n_bytes: int


Argument = int | Words | Local
OUT_BYTES = 4 << 20
LARGE_PAGE_BYTES = 2 << 20
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Device(Protocol):
    """A device with one large buffer of words.

    bytes : size of the buffer;  n_units : compute units that the driver reports
    keeps_caches : whether the contents of the first level survive from launch to launch
    tick_s : resolution of times
    """

    title: str
    is_cpu: bool
    keeps_caches: bool
    bytes: int
    n_units: int
    max_group_items: int
    tick_s: float

    def run(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        """Seconds of a launch of a kernel of `sources`, from its start on the device to its end."""
        ...

    def host_s(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        """Seconds of a launch from the host's call to its return."""
        ...

    def result(self, n: int) -> Words:
        """The first n words of the output of the last launch."""
        ...

    def facts(self) -> dict[str, Any]:
        """The properties that the driver reports."""
        ...


class OpenCLDevice:
    """The device of a pyopencl.Context.

    wanted_bytes : size of the buffer, which is halved until the device can allocate it

    Raises OpenCLError where the device cannot allocate 1 MB.
    """

    def __init__(self, context: Any, wanted_bytes: int = 256 << 20) -> None:
        import pyopencl as cl

        self.cl = cl
        self.context = context
        self.device = context.devices[0]
        self.title = f"{self.device.platform.name.strip()}: {self.device.name.strip()}"
        self.is_cpu = bool(self.device.type & cl.device_type.CPU)
        self.keeps_caches = self.is_cpu
        self.n_units = max(int(self.device.max_compute_units), 1)
        self.max_group_items = int(self.device.max_work_group_size)
        self.tick_s = max(int(self.device.profiling_timer_resolution) * 1e-9, 1e-6)
        self.queue = self._queue()
        self.bytes, self.data = self._buffer(wanted_bytes)
        self.out = cl.Buffer(context, cl.mem_flags.READ_WRITE, OUT_BYTES)
        self._kernels: dict[str, Any] = {}

    def _queue(self) -> Any:
        cl = self.cl
        try:
            profiling = cl.command_queue_properties.PROFILING_ENABLE
            return cl.CommandQueue(self.context, properties=profiling)
        except cl.Error:
            return cl.CommandQueue(self.context)

    def _buffer(self, wanted: int) -> tuple[int, Any]:
        granted = min(wanted, self.device.max_mem_alloc_size // 2, self.device.global_mem_size // 4)
        size = 1 << max(int(granted).bit_length() - 1, 20)
        while True:
            try:
                data = self._memory(size)
                # The fill makes the driver allocate the memory.
                self.cl.enqueue_fill_buffer(self.queue, data, np.uint32(0), 0, size)
                self.queue.finish()
                return size, data
            except (self.cl.Error, MemoryError):
                if size <= 1 << 20:
                    raise OpenCLError(f"{self.title} cannot allocate a buffer of 1 MB") from None
                size //= 2

    def _memory(self, size: int) -> Any:
        """A buffer; on a CPU it is host memory in large pages, where the system has them.

        In large pages a cache that is indexed by physical addresses has an edge at its capacity.
        """
        flags = self.cl.mem_flags
        if not self.is_cpu:
            return self.cl.Buffer(self.context, flags.READ_WRITE, size)
        whole = mmap.mmap(-1, size + LARGE_PAGE_BYTES, flags=PRIVATE)
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or without large pages
            whole.madvise(mmap.MADV_HUGEPAGE)
        memory = np.frombuffer(whole, np.uint8)
        begin = -memory.ctypes.data % LARGE_PAGE_BYTES
        host = memory[begin : begin + size]
        return self.cl.Buffer(self.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=host)

    def _kernel(self, name: str) -> Any:
        if name not in self._kernels:
            program = self.cl.Program(self.context, getattr(sources, name.upper())).build()
            self._kernels[name] = self.cl.Kernel(program, name)
        return self._kernels[name]

    def _launch(
        self, name: str, items: int, group: int, arguments: tuple[Argument, ...]
    ) -> tuple[Any, float]:
        """The event of a finished launch, and the seconds that the host waited for it."""
        kernel = self._kernel(name)
        given = [self._given(value) for value in arguments]
        kernel.set_args(self.data, *given, self.out)
        self.queue.finish()
        begun = time.perf_counter()
        event = self.cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (group,))
        event.wait()
        return event, time.perf_counter() - begun

    def _given(self, value: Argument) -> Any:
        if isinstance(value, Local):
            return self.cl.LocalMemory(value.n_bytes)
        if isinstance(value, np.ndarray):
            flags = self.cl.mem_flags.READ_ONLY | self.cl.mem_flags.COPY_HOST_PTR
            words = np.ascontiguousarray(value, np.uint32)
            return self.cl.Buffer(self.context, flags, hostbuf=words)
        return np.uint32(value)

    def run(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        event, waited = self._launch(name, items, group, arguments)
        try:
            spent = float(event.profile.end - event.profile.start) * 1e-9
        except self.cl.Error:  # without profiling: the host's clock around the launch
            return waited
        return spent if spent > 0 else waited

    def host_s(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        return self._launch(name, items, group, arguments)[1]

    def result(self, n: int) -> Words:
        words = np.empty(n, np.uint32)
        self.cl.enqueue_copy(self.queue, words, self.out)
        self.queue.finish()
        return words

    def facts(self) -> dict[str, Any]:
        device = self.device
        target = compiler_target(device)
        return {
            **({"compiler target": target} if target else {}),
            "compute units": self.n_units,
            "clock, MHz": int(device.max_clock_frequency),
            "global memory, bytes": int(device.global_mem_size),
            "local memory, bytes": int(device.local_mem_size),
            "largest group, work-items": self.max_group_items,
            "cache, bytes": int(device.global_mem_cache_size),
            "cache line, bytes": int(device.global_mem_cacheline_size),
            "driver": str(device.driver_version).strip(),
            "buffer of the probes, bytes": self.bytes,
        }


def compiler_target(device: Any) -> str:
    """What compilers call the device, "" where its driver does not say."""
    if device.name.startswith("gfx"):  # AMD's: `gfx90a:sramecc+:xnack-`
        return str(device.name.partition(":")[0])
    if "cl_nv_device_attribute_query" not in device.extensions.split():
        return ""
    return f"sm_{device.compute_capability_major_nv}{device.compute_capability_minor_nv}"

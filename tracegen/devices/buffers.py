"""The device buffers that probes write to, kept between launches, because first accesses to new memory are slow."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError, one_line


class Buffers:
    """Named buffers of one context that grow."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.by_name: dict[str, Any] = {}

    def get(self, name: str, size_bytes: int) -> Any:
        """A buffer of at least size_bytes; its content is undefined."""
        buffer = self.by_name.get(name)
        if buffer is None or buffer.size < size_bytes:
            self.by_name.pop(name, None)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            try:
                buffer = cl.Buffer(self.context, flags, max(size_bytes, 64))
            except (cl.Error, OverflowError) as error:
                raise KernelError(
                    f"the OpenCL device has no memory for {size_bytes} bytes: {one_line(error)}"
                ) from error
            self.by_name[name] = buffer
        return buffer

    def put(self, queue: Any, name: str, array: npt.NDArray[Any]) -> Any:
        """A buffer that begins with the array."""
        buffer = self.get(name, array.nbytes)
        if array.nbytes:
            cl.enqueue_copy(queue, buffer, np.ascontiguousarray(array))
        return buffer

    @contextmanager
    def mapped(self, queue: Any, name: str, count: int, dtype: Any) -> Iterator[npt.NDArray[Any]]:
        """The first elements of a buffer as an array, without a copy where the device is the host."""
        if count == 0:
            yield np.empty(0, dtype)
            return
        array, _ = cl.enqueue_map_buffer(
            queue, self.by_name[name], cl.map_flags.READ, 0, (count,), dtype
        )
        try:
            yield array
        finally:
            array.base.release(queue)


@functools.lru_cache(maxsize=2)
def buffers(context: Any) -> Buffers:
    """The buffers of a context, the same ones at each call."""
    return Buffers(context)

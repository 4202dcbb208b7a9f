"""The device buffers that probes write to, kept between launches, because first accesses to new memory are slow."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError
from memsim.trace import Columns, room


class Buffers:
    """Named buffers of one context that grow, and the columns that the merge fills."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.by_name: dict[str, Any] = {}
        self.columns: Columns | None = None

    def get(self, name: str, size_bytes: int) -> Any:
        """A buffer of at least size_bytes; its content is undefined."""
        buffer = self.by_name.get(name)
        if buffer is None or buffer.size < size_bytes:
            self.by_name.pop(name, None)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            try:
                buffer = cl.Buffer(self.context, flags, max(size_bytes, 64))
            except (cl.Error, OverflowError) as error:
                why = " ".join(str(error).split())
                raise KernelError(
                    f"the OpenCL device has no memory for {size_bytes} bytes: {why}"
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

    def room(self, n_subgroup: int, n_access: int, n_granule: int) -> Columns:
        """Columns of at least the given lengths."""
        have = self.columns
        lengths = (0, 0, 0) if have is None else (len(have[0]), len(have.site), len(have.granule))
        wanted = (n_subgroup, n_access, n_granule)
        if have is None or any(a < b for a, b in zip(lengths, wanted, strict=True)):
            self.columns = room(*(max(a, b) for a, b in zip(lengths, wanted, strict=True)))
        assert self.columns is not None
        return self.columns


@functools.lru_cache(maxsize=2)
def buffers(context: Any) -> Buffers:
    """The buffers of a context, the same ones at each call."""
    return Buffers(context)

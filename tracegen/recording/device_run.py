"""A launch that runs on an OpenCL device: its buffers, and its kernels with probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyopencl as cl

from memsim.errors import KernelError
from tracegen.devices.buffers import Buffers, buffers
from tracegen.probes.tokens import FAULT_WORDS, TokenEncoding
from tracegen.recording import snapshot
from tracegen.recording.launch import DeviceLaunch, fault_of
from tracegen.recording.passes import LaunchRun


class DeviceRun(LaunchRun):
    """The runs of one launch on an OpenCL device."""

    launch: DeviceLaunch

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.buffers: Buffers = buffers(self.prepared.context)
        self.queue = self.launch.queue

    def _reserve(self, name: str, size_bytes: int) -> None:
        self.buffers.get(name, size_bytes)

    def _mapped(self, name: str, count: int, dtype: Any) -> AbstractContextManager[Any]:
        return self.buffers.mapped(self.queue, name, count, dtype)

    def _run(
        self, groups: snapshot.Groups, places: npt.NDArray[np.int64], encoding: TokenEncoding | None
    ) -> None:
        if len(groups) == 0:
            return
        pool, queue, launch = self.buffers, self.queue, self.launch
        n_item = len(groups) * launch.group_items
        buffers = [
            pool.get("tokens", 64),
            pool.put(queue, "offsets", places),
            pool.get("counts", n_item * 4),
            pool.put(queue, "groups", groups.astype(np.uint32)),
            pool.put(queue, "fault", np.zeros(FAULT_WORDS, np.int64)),
        ]
        kernel = launch.kernel_for(encoding)
        shape = launch.group_shape or (1,)
        items = (len(groups) * shape[0], *shape[1:])
        enqueue(launch, kernel, launch.probe_arguments(buffers), items)
        with pool.mapped(queue, "fault", FAULT_WORDS, np.int64) as fault:
            if fault[0]:
                raise fault_of(launch, fault, int(groups[fault[5]]))

    def _copies(self, name: str) -> list[tuple[Any, Any]]:
        copies = []
        for k, buffer in enumerate(self.launch.written_and_read()):
            copy = self.buffers.get(f"{name} {k}", buffer.size)
            cl.enqueue_copy(self.queue, copy, buffer, byte_count=buffer.size)
            copies.append((buffer, copy))
        return copies

    def _paste(self, copies: list[tuple[Any, Any]]) -> None:
        for buffer, copy in copies:
            cl.enqueue_copy(self.queue, buffer, copy, byte_count=buffer.size)

    def device(self) -> Mapping[str, Any]:
        device = self.prepared.context.devices[0]
        return {
            "platform": device.platform.name.strip(),
            "platform_version": device.platform.version.strip(),
            "device": device.name.strip(),
        }


def enqueue(
    launch: DeviceLaunch, kernel: Any, further: Sequence[Any], global_size: tuple[int, ...]
) -> None:
    """Enqueues a kernel with the launch's arguments and further ones behind them."""
    try:
        n_own = launch.set_arguments(kernel)
        for position, value in enumerate(further, n_own):
            kernel.set_arg(position, value)
        shape = launch.group_shape or (1,)
        cl.enqueue_nd_range_kernel(launch.queue, kernel, global_size, shape)
    except cl.Error as error:
        text = " ".join(str(error).split())
        raise KernelError(f"kernel {launch.name} cannot be run: {text}") from error

"""Prepares a workload in OpenCL C: preprocess, parse, instrument, bind its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memsim.errors import KernelError
from tracegen.devices.builds import Builds
from tracegen.opencl_c.arguments import Argument, bound
from tracegen.opencl_c.instrument import instrument
from tracegen.opencl_c.launch import LARGEST_ACCESS_BYTES, ProbedSource, SourceLaunch
from tracegen.opencl_c.parse import parse
from tracegen.opencl_c.preprocess import preprocess
from tracegen.recording.launch import Observer
from tracegen.workloads.opencl import OpenCLWorkload

MOST_ARRAYS = 60


@dataclass(frozen=True)
class PreparedSource:
    """An OpenCL C kernel with probes, its arguments and the shape of its launch."""

    program: ProbedSource
    arguments: Sequence[Argument]
    grid: tuple[int, ...]
    group_shape: tuple[int, ...]
    context: Any
    registers_per_item: int | None

    @property
    def name(self) -> str:
        return self.program.probed.program.name

    @property
    def source(self) -> str:
        """The preprocessed program, without probes."""
        return self.program.text.text

    @property
    def build_options(self) -> list[str]:
        return list(self.program.text.options)

    @property
    def launch_names(self) -> tuple[str, ...]:
        return (self.name,)

    def user_place(self, line: int) -> str:
        return str(self.program.text.place(line))

    def run(self, observer: Observer) -> dict[str, Any]:
        """Calls observer with the launch; returns the arrays that the kernel may write."""
        launch = SourceLaunch(
            self.program, self.arguments, self.context, self.grid, self.group_shape
        )
        observer(launch)
        launch.queue.finish()
        return launch.outputs()


def prepare(workload: OpenCLWorkload, context: Any) -> PreparedSource:
    """Instruments a workload's kernel and binds its arguments.

    Raises KernelError for a program that does not compile, with the user's lines; an unknown
    kernel; arguments that do not fit; what cannot be traced.
    """
    source, name = source_of(workload)
    device = context.devices[0]
    text = preprocess(source, name, workload.build_options, device.extensions.split())
    parsed = parse(text)
    kernel = parsed.named(workload.kernel)
    arguments, owners = bound(kernel, workload.arguments)
    if len(set(owners.values())) > MOST_ARRAYS:
        raise KernelError(f"kernel {kernel.spelling} has more than {MOST_ARRAYS} global arrays")
    near = {a.name: a.near_bytes for a in arguments if a.kind in ("local", "constant")}
    probed = instrument(parsed, kernel, owners, near)
    largest = max((access.size_bytes for access in probed.accesses), default=0)
    if largest > LARGEST_ACCESS_BYTES:
        raise KernelError(
            f"kernel {kernel.spelling} accesses {largest} bytes at once; at most"
            f" {LARGEST_ACCESS_BYTES} can be traced"
        )
    grid, group_shape = _shape(workload, kernel.spelling)
    builds = Builds(context, probed.source, [kernel.spelling], text.options)
    return PreparedSource(
        program=ProbedSource(text, source, probed, builds),
        arguments=arguments,
        grid=grid,
        group_shape=group_shape,
        context=context,
        registers_per_item=workload.registers_per_item,
    )


def source_of(workload: OpenCLWorkload) -> tuple[str, str]:
    """The program's text, and the name of its file."""
    if workload.source is not None:
        return workload.source, str(workload.path or "kernel.cl")
    if workload.path is None:
        raise KernelError("an OpenCLWorkload needs a path or a source")
    return _text(Path(workload.path)), str(workload.path)


def _text(path: Path) -> str:
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _shape(workload: OpenCLWorkload, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups along each axis, and work-items along each axis of a group."""
    items, group = axes(workload.global_size), axes(workload.local_size)
    if len(items) != len(group) or not 1 <= len(items) <= 3:
        raise KernelError(
            f"global_size and local_size of kernel {name} must have the same one to three axes,"
            f" got {items} and {group}"
        )
    for axis, (all_of, one) in enumerate(zip(items, group, strict=True)):
        if one < 1 or all_of < 1 or all_of % one:
            raise KernelError(
                f"local_size of kernel {name} must divide global_size along each axis, got"
                f" {one} and {all_of} along axis {axis}"
            )
    return tuple(a // b for a, b in zip(items, group, strict=True)), group


def axes(size: Any) -> tuple[int, ...]:
    listed = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(extent) for extent in listed)

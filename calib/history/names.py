"""Names of a program's kernels and devices, as a history keeps them."""

from __future__ import annotations

from typing import Any

from calib.history.key import fingerprint


def kernel_fingerprint(kernel: Any) -> str:
    """A kernel's name with a fingerprint of its program's source and build options."""
    import pyopencl

    program = kernel.program
    try:
        source = program.get_info(pyopencl.program_info.SOURCE)
    except pyopencl.Error:
        source = ""
    if not source:  # made from a binary or from SPIR-V
        binaries = program.get_info(pyopencl.program_info.BINARIES)
        source = "".join(bytes(part).hex() for part in binaries)
    devices = program.get_info(pyopencl.program_info.DEVICES)
    options = program.get_build_info(devices[0], pyopencl.program_build_info.OPTIONS)
    return fingerprint(kernel.function_name, source, options)


def device_title(queue: Any) -> str:
    """The platform, name and compute units of a queue's device: a part of a device is another one."""
    device = queue.device
    return f"{device.platform.name}: {device.name} ({device.max_compute_units} units)"

"""The device that passed its trial in an earlier run: it is not tried again while nothing has changed.

A trial takes as long as tracing a kernel. What decides its outcome is compared first: the platforms that
are installed, the environment, and what the device says of itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from memsim import disk_cache

KIND = "opencl"
_VENDORS = "/etc/OpenCL/vendors"
_FIELDS = ("platform", "platform_version", "device", "driver_version")


def key(wanted: str) -> str:
    """A fingerprint of what decides which device is chosen; wanted : the value of MEMSIM_OPENCL."""
    return disk_cache.fingerprint(
        ["1", wanted, sys.executable, version("pyopencl"), *_environment(), *_installed()]
    )


def _environment() -> Iterator[str]:
    for name, value in sorted(os.environ.items()):
        if name.startswith(("OCL", "OPENCL", "POCL", "CUDA", "ROCR", "HIP", "LD_")):
            yield f"{name}={value}"


def _installed() -> Iterator[str]:
    """The files that name platforms, with their times and sizes."""
    folder = Path(os.environ.get("OCL_ICD_VENDORS") or _VENDORS)
    files = sorted(folder.glob("*.icd")) if folder.is_dir() else [folder]
    for file in filter(Path.is_file, files):
        status = file.stat()
        yield f"{file} {status.st_mtime_ns} {status.st_size}"


def load(key: str) -> Any:
    """The pyopencl.Device that was saved under this key; None where it is not the same device now."""
    import pyopencl as cl

    record = disk_cache.load(KIND, key)
    if record is None:
        return None
    try:
        platform = cl.get_platforms()[record["platform_index"]]
        device = platform.get_devices()[record["device_index"]]
        now = (platform.name, platform.version, device.name, device.driver_version)
        if [text.strip() for text in now] == [record[field] for field in _FIELDS]:
            return device
    except (cl.Error, LookupError, TypeError):
        pass
    return None


def save(key: str, record: dict[str, Any]) -> None:
    """Remembers a device that has passed its trial: the fields of a Candidate."""
    disk_cache.save(KIND, key, record)

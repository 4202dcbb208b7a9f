"""Lists OpenCL devices and tries one: builds a small kernel, runs it, compares the numbers.

It runs as a program of its own (`python -P trial.py DEVICE`), because a broken platform may
abort or hang instead of reporting an error; `tracegen.devices.choice` starts it and reads its lines. Its
lines begin with MARK and continue in JSON; whatever else drivers print is ignored.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

MARK = "memsim-opencl "

# Everything that an instrumented kernel relies on: local memory, a barrier, a data-dependent loop,
# 64-bit integers, a global atomic. With 64 items the result is known in closed form.
SOURCE = """
__kernel void memsim_trial(__global int *total, __global const int *in, __global long *wide)
{
  __local int tile[32];
  int const lane = get_local_id(0);
  int const item = get_global_id(0);
  tile[lane] = in[item];
  barrier(CLK_LOCAL_MEM_FENCE);
  int sum = 0;
  for (int j = 0; j < tile[lane]; ++j)
    sum += tile[(lane + j) % 32];
  atomic_add(total, sum);
  wide[item] = ((long) sum << 32) | (long) item;
}
"""


def rank(device: dict[str, Any]) -> tuple[int, int, int]:
    """Sort key of a device: vendor GPU, PoCL, Intel's CPU, anything else, Oclgrind (slow) last."""
    name = f"{device['platform']} {device['platform_version']}".lower()
    types = device["types"]
    if "oclgrind" in name:
        place = 4
    elif "pocl" in name or "portable computing language" in name:
        place = 1
    elif "gpu" in types:
        place = 0
    elif "intel" in name and "cpu" in types:
        place = 2
    else:
        place = 3
    return (place, device["platform_index"], device["device_index"])


def matches(device: dict[str, Any], wanted: str) -> bool:
    """Whether `platform` or `platform:device` names this device; a device may go by its number."""
    platform, _, part = wanted.lower().partition(":")
    if platform not in f"{device['platform']} {device['platform_version']}".lower():
        return False
    part = part.strip()
    return part in device["device"].lower() or part == str(device["device_index"])


def list_devices() -> list[dict[str, Any]]:
    """Every device of every platform, in the loader's order, as plain values."""
    import pyopencl as cl

    records: list[dict[str, Any]] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # the loader's report that there is none
        return records
    kinds = {"cpu": cl.device_type.CPU, "gpu": cl.device_type.GPU}
    for platform_index, platform in enumerate(platforms):
        try:
            devices = platform.get_devices()
        except cl.Error:  # its report that a platform has no device
            continue
        for device_index, device in enumerate(devices):
            records.append(
                {
                    "platform_index": platform_index,
                    "device_index": device_index,
                    "platform": platform.name.strip(),
                    "platform_version": platform.version.strip(),
                    "device": device.name.strip(),
                    "driver_version": device.driver_version.strip(),
                    "types": [kind for kind, bit in kinds.items() if device.type & bit],
                }
            )
    return records


def try_device(platform_index: int, device_index: int) -> str:
    """Why the device cannot be used; empty where the trial computed correct numbers."""
    import numpy as np
    import pyopencl as cl

    n_item, n_lane = 64, 32
    values = np.arange(n_item, dtype=np.int32) % 7
    tiles = values.reshape(-1, n_lane)
    sums = np.array(
        [
            sum(int(tile[(i + j) % n_lane]) for j in range(tile[i]))
            for tile in tiles
            for i in range(n_lane)
        ]
    )
    try:
        device = cl.get_platforms()[platform_index].get_devices()[device_index]
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        program = cl.Program(context, SOURCE).build(cache_dir=False)
        read, write, copy = (
            cl.mem_flags.READ_ONLY,
            cl.mem_flags.READ_WRITE,
            cl.mem_flags.COPY_HOST_PTR,
        )
        total, wide = np.zeros(1, np.int32), np.zeros(n_item, np.int64)
        buffers = [
            cl.Buffer(context, flag | copy, hostbuf=host)
            for flag, host in ((write, total), (read, values), (write, wide))
        ]
        program.memsim_trial(queue, (n_item,), (n_lane,), *buffers)
        cl.enqueue_copy(queue, total, buffers[0])
        cl.enqueue_copy(queue, wide, buffers[2])
        queue.finish()
    except cl.Error as error:
        return first_lines(str(error))
    if int(total[0]) != int(sums.sum()) or np.any(wide != (sums << 32) + np.arange(n_item)):
        return "the trial kernel ran but its numbers are wrong"
    return ""


def first_lines(text: str, limit: int = 240) -> str:
    """The first line of a driver's message and its lines with errors, joined and shortened."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = lines[:1] + [line for line in lines[1:] if "error" in line.lower()]
    joined = "; ".join(telling)
    return joined if len(joined) <= limit else joined[: limit - 3] + "..."


def say(**record: Any) -> None:
    sys.stdout.write(f"\n{MARK}{json.dumps(record)}\n")
    sys.stdout.flush()


def main(device: list[int] | None) -> None:
    """Says why a device cannot be used; for None, lists all devices in order of rank."""
    warnings.simplefilter("ignore")
    try:
        if device is None:
            say(devices=sorted(list_devices(), key=rank))
        else:
            say(reason=try_device(*device))
    except Exception as error:  # a failed import or a broken loader is reported in one line
        say(error=first_lines(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

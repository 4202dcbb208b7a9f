"""As much of CuPy as a capture uses, on the CPU: CUDA C is compiled as C++ and its threads run in turn,
or at once where they meet at barriers. The device is called what FAKE_CUDA_DEVICE says."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

__version__ = "13.0.0"  # xarray reads it

PRELUDE = """
#define __global__
#define __launch_bounds__(n)
#define __shared__ static
struct Index { int x, y, z; };
static thread_local Index blockIdx, threadIdx;
template <class T> T atomicAdd(T *at, T value) { return __sync_fetch_and_add(at, value); }
"""
BARRIERS = """
#include <barrier>
#include <memory>
#include <thread>
#include <vector>
static std::unique_ptr<std::barrier<>> together;
#define __syncthreads() together->arrive_and_wait()
"""
DRIVER = """
extern "C" void drive(const int *grid, const int *block, %(parameters)s) {
  const int items = block[0] * block[1] * block[2];
  for (int g = 0; g < grid[0] * grid[1] * grid[2]; ++g) {
    auto item = [=](int i) {
      blockIdx = {g %% grid[0], g / grid[0] %% grid[1], g / grid[0] / grid[1]};
      threadIdx = {i %% block[0], i / block[0] %% block[1], i / block[0] / block[1]};
      %(name)s(%(names)s);
    };
    %(run)s
  }
}
"""
IN_TURN = "for (int i = 0; i < items; ++i) item(i);"
AT_ONCE = """
    together = std::make_unique<std::barrier<>>(items);
    std::vector<std::thread> threads;
    for (int i = 0; i < items; ++i) threads.emplace_back(item, i);
    for (auto &thread : threads) thread.join();
"""


class RawKernel:
    def __init__(self, code: str, name: str) -> None:
        (parameters,) = re.findall(rf"\b{name}\((.*?)\)\s*\{{", code, re.DOTALL)
        names = ", ".join(re.findall(r"(\w+)\s*(?:,|$)", parameters))
        self.sent = [text.strip() for text in parameters.split(",")]
        driver = DRIVER % {
            "parameters": parameters,
            "name": name,
            "names": names,
            "run": AT_ONCE if "__syncthreads" in code else IN_TURN,
        }
        prelude = PRELUDE + (BARRIERS if "__syncthreads" in code else "")
        with tempfile.TemporaryDirectory(prefix="fake-cupy-") as folder:
            (Path(folder) / "kernel.cpp").write_text(prelude + code + driver)
            subprocess.run(
                ["g++", "-std=c++20", "-w", "-shared", "-fPIC", "-pthread", "kernel.cpp"],
                cwd=folder,
                check=True,
            )
            self.library = ctypes.CDLL(f"{folder}/a.out")

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: Any) -> None:
        sent: list[Any] = [(ctypes.c_int * 3)(*extents) for extents in (grid, block)]
        for text, value in zip(self.sent, arguments, strict=True):
            element = {"float": "f", "double": "d", "int": "i"}[text.split()[0]]
            assert value.dtype.char == element, (text, value.dtype)
            if isinstance(value, np.ndarray):
                assert "*" in text
                sent.append(ctypes.c_void_p(value.ctypes.data))
            else:
                assert "*" not in text
                sent.append(ctypes.c_int(int(value)))
        self.library.drive(*sent)


class Event:
    def record(self) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        pass


class CUDARuntimeError(RuntimeError):
    pass


def asarray(values: Any) -> Any:
    return np.array(values)


cuda = SimpleNamespace(
    Event=Event,
    get_elapsed_time=lambda start, end: (end.at - start.at) * 1e3,
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=lambda: int(os.environ.get("FAKE_CUDA_COUNT", "1")),
        getDeviceProperties=lambda number: {
            "name": os.environ.get("FAKE_CUDA_DEVICE", "Fake GPU").encode(),
            "multiProcessorCount": 80,
        },
        driverGetVersion=lambda: 12040,
        runtimeGetVersion=lambda: 12020,
    ),
)

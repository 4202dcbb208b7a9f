"""HIP without headers compiled for AMD's GPUs, and its machine code run on this computer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memsim.files import temporary_folder
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.model import MachineCode
from tracegen.execution.code import Code
from tracegen.execution.run import Execution, Launch, Region
from tracegen.machine_code.binding_amd import AmdCode
from tracegen.machine_code.binding_memory import Memory
from tracegen.machine_code.binding_values import Shape
from tracegen.machine_code.gcn_lowering import lower
from tracegen.tools.process import run
from tracegen.tools.toolchain import amd_tools


def compiled(
    text: str, target: str, names: Sequence[str], options: Sequence[str] = ()
) -> dict[str, MachineCode]:
    """The machine code of kernels with C names."""
    flags = [
        "-x",
        "hip",
        "--cuda-device-only",
        f"--offload-arch={target}",
        "-nogpuinc",
        "-nogpulib",
    ]
    with temporary_folder() as folder:
        (folder / "k.hip").write_text(text, encoding="utf-8")
        command = [str(amd_tools().clang.path), *flags, "-O3", "-S", "-w", *options]
        done = run([*command, "k.hip", "-o", "k.s"], folder)
        assert done.status == 0, done.errors
        listing = (folder / "k.s").read_text(encoding="utf-8")
    return {
        name: MachineCode(
            kernel=name,
            target=target,
            blocks=read_gcn(listing, name)[0],
            registers_per_item=0,
            listing=listing,
        )
        for name in names
    }


def executed(
    code: MachineCode,
    arrays: Mapping[str, Any],
    values: Sequence[Any],
    *,
    grid: int = 1,
    block: int = 64,
    lowered: Code | None = None,
) -> dict[str, Any]:
    """The arrays that a launch leaves. values : the arguments, arrays by their names;  lowered : the code, or a part of it"""
    bound = AmdCode(code)
    memory = Memory(dict(arrays), bound.variables)
    names = {name: name for name in bound.variables}
    machine = bound.machine(memory, names, values, Shape((grid,), (block,)), 0, {})
    lowered = lower(code) if lowered is None else lowered
    assert not lowered.unknown, lowered.unknown
    regions = [Region(extent=one, content=data, hidden=True) for one, data in machine.hidden]
    regions += [Region(extent=one, content=memory.views[one.name]) for one in memory.extents]
    addresses = {
        f"{name}@{half}": memory.bases[name] >> shift & 0xFFFFFFFF
        for name in names
        for half, shift in (("lo", 0), ("hi", 32))
    }
    launch = Launch(
        grid=(grid,),
        group_shape=(block,),
        regions=regions,
        banks=machine.banks,
        specials={**machine.specials, **addresses},
        local_bytes=machine.local_bytes,
        private_bytes=machine.private_bytes,
    )
    Execution(lowered, launch).run(np.arange(grid), record=False)
    return {name: memory.array(name) for name in arrays}

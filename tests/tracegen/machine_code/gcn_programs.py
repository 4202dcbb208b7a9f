"""AMD's assembly of a few lines, lowered and run by the interpreter and its readable twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from memsim.trace import ArrayExtent
from tests.twins.execution import Group, Launch, Memory, run_group
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.model import MachineCode
from tracegen.execution import run as run_
from tracegen.execution.code import Code
from tracegen.machine_code.gcn_lowering import lower

ARGUMENTS = 1 << 40
_TEXT = """
\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"
k:
{body}
\ts_endpgm
.Lfunc_end0:
\t.amdhsa_kernel k
\t\t.amdhsa_user_sgpr_count 8
\t\t.amdhsa_user_sgpr_dispatch_ptr 1
\t\t.amdhsa_user_sgpr_private_segment_buffer 1
\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t\t.amdhsa_system_sgpr_workgroup_id_x 1
\t\t.amdhsa_system_sgpr_workgroup_id_y 1
\t\t.amdhsa_system_vgpr_workitem_id {axes}
\t\t.amdhsa_float_denorm_mode_32 3
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .name:           k
    .private_segment_fixed_size: 64
    .vgpr_count:     64
...
\t.end_amdgpu_metadata
"""
WORDS = np.array(
    [0, 1, 2, 3, 7, 0x7F, 0x80, 0xFFFF, 0x8000, 0x12345678, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF],
    np.uint32,
)
FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.5, 0.1, 3e38, -1e-38, 1e-45, np.inf, -np.inf, 2.5, 1e10, -7.25], np.float32
)


def machine_code(body: str, target: str = "gfx90a", axes: int = 0) -> MachineCode:
    """A kernel `k` with these instructions. s[6:7] is the address of its arguments, s8 and s9 its group's place."""
    text = _TEXT.format(target=target, body=body, axes=axes)
    blocks, _ = read_gcn(text, "k")
    return MachineCode(
        kernel="k", target=target, blocks=blocks, registers_per_item=64, listing=text
    )


def lanes(values: Any, shift: int = 0, n: int = 64) -> Any:
    """(n,) the values again and again, from another one on."""
    return np.resize(np.roll(values, -shift), n)


def run(
    body: str,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    target: str = "gfx90a",
    items: tuple[int, int, int] = (64, 1, 1),
    place: tuple[int, int, int] = (0, 0, 0),
    axes: int = 0,
) -> list[Any]:
    """Registers `outputs` after the instructions, (n,) uint32 of each work-item: the same in both.

    inputs : register -> (n,) of 32 bits, or a number for a scalar register. v60 and v61 are taken.
    """
    n = int(np.prod(items))
    packed = axes > 0 and target != "gfx803"
    lines = ["v_and_b32_e32 v60, 0x3ff, v0" if packed else "v_mov_b32_e32 v60, v0"]
    lines.append("v_lshlrev_b32_e32 v60, 2, v60")
    data = np.zeros((len(inputs) + len(outputs), n), np.uint32)
    for k, (register, value) in enumerate(inputs.items()):
        data[k] = np.asarray(value).view(np.uint32) if np.ndim(value) else np.uint32(value)
        at = k * 4 * n
        if register[0] == "v":
            lines.append(f"global_load_dword {register}, v60, s[6:7] offset:{at}")
        else:
            lines.append(f"s_load_dword {register}, s[6:7], {at:#x}")
    lines += body.strip().splitlines()
    for k, register in enumerate(outputs):
        at = (len(inputs) + k) * 4 * n
        lines.append(f"v_mov_b32_e32 v61, {register}")
        lines.append(f"global_store_dword v60, v61, s[6:7] offset:{at}")
    text = "\n".join(line.strip() if line[-1] == ":" else f"\t{line.strip()}" for line in lines)
    code, given = lower(machine_code(text, target, axes)), data.copy()
    execute(code, data.view(np.uint8).reshape(-1), items, place)
    if place == (0, 0, 0):
        interpret(code, given.view(np.uint8).reshape(-1), items)
        floats = (one.view(np.float32) for one in (given[len(inputs) :], data[len(inputs) :]))
        same = (given == data)[len(inputs) :] | np.logical_and(*map(np.isnan, floats))
        assert same.all(), text
    return list(data[len(inputs) :])


def execute(
    code: Code, data: Any, items: tuple[int, int, int], place: tuple[int, int, int] = (0, 0, 0)
) -> Group:
    """Runs a group whose arguments are `data`."""
    memory = Memory(arrays=[("data", ARGUMENTS, data)], local_bytes=1024, private_bytes=256)
    return run_group(code, Launch(items, arguments=ARGUMENTS), place, memory)


def interpret(code: Code, data: Any, items: tuple[int, int, int]) -> None:
    """The same by the interpreter."""
    extent = ArrayExtent(name="data", base_bytes=ARGUMENTS, size_bytes=len(data))
    launch = run_.Launch(
        grid=(1,),
        group_shape=items,
        regions=[run_.Region(extent=extent, content=data)],
        specials={
            "arguments_low": ARGUMENTS & 0xFFFFFFFF,
            "arguments_high": ARGUMENTS >> 32,
            "dispatch_low": 0,
            "dispatch_high": 0,
        },
        local_bytes=1024,
        private_bytes=256,
    )
    run_.Execution(code, launch).run(np.zeros(1, np.int64), record=False)

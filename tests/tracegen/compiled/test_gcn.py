"""AMD assembly is read into blocks; `small.gfx90a.s` is what clang 14 writes for kernels of test_sass.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsim.errors import KernelError
from tests.support.compiled_code import access, instructions_of, only, opcodes
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.amd.gcn_metadata import Parameter, Resources, read_resources
from tracegen.compiled.loops import loops
from tracegen.compiled.model import Instruction, Location, MachineCode

SMALL = (Path(__file__).parent / "listings" / "small.gfx90a.s").read_text()


def assembly(*lines: str, arguments: int = 2) -> str:
    """A kernel `k` with this code; its parameters point to arrays."""
    entry = """\
      - .address_space:  global
        .offset:         {offset}
        .size:           8
        .value_kind:     global_buffer
"""
    entries = "".join(entry.format(offset=8 * index) for index in range(arguments))
    code = "\n".join(line if line.endswith(":") else f"\t{line}" for line in lines)
    return f"""\
	.amdgcn_target "amdgcn-amd-amdhsa--gfx906"
k:
{code}
	.amdhsa_kernel k
		.amdhsa_user_sgpr_private_segment_buffer 1
		.amdhsa_user_sgpr_dispatch_ptr 1
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
	.end_amdhsa_kernel
.Lfunc_end0:
	.amdgpu_metadata
amdhsa.kernels:
  - .args:
{entries}    .name:           k
	.end_amdgpu_metadata
"""


def instructions(*lines: str, arguments: int = 2) -> tuple[Instruction, ...]:
    return tuple(instructions_of(read_gcn(assembly(*lines, arguments=arguments), "k")[0]))


def test_blocks_of_a_loop() -> None:
    blocks, notes = read_gcn(SMALL, "row_sums")

    assert [block.successors for block in blocks] == [(5, 1), (4, 2), (3,), (3, 4), (5,), ()]
    assert [block.label for block in blocks] == ["", "", "", ".LBB0_3", ".LBB0_4", ".LBB0_5"]
    assert opcodes(blocks[3]) == [
        "global_load_dwordx2", "s_add_i32", "v_add_co_u32_e32", "v_addc_co_u32_e32", "s_cmp_eq_u32",
        "s_waitcnt", "v_add_f64", "s_cbranch_scc0",
    ]  # fmt: skip
    assert blocks[3].instructions[-1].predicated
    assert opcodes(blocks[5]) == ["s_endpgm"]
    assert notes == ()
    assert only(blocks, "global_load_dwordx2").location == Location(8, 12)
    assert access(only(blocks, "global_store_dwordx2")) == ("global", "store", 8)
    with pytest.raises(KernelError, match="no kernel 'columns'"):
        read_gcn(SMALL, "columns")


def test_local_memory_barriers_and_pipes() -> None:
    blocks, _ = read_gcn(SMALL, "reversed")
    (block,) = blocks
    pipes = {instruction.opcode: instruction.pipe for instruction in block.instructions}
    assert pipes["s_barrier"] == "barrier"
    assert pipes["s_waitcnt"] == "wait"
    assert pipes["s_load_dwordx4"] == "scalar"
    assert pipes["v_lshlrev_b64"] == "alu"
    assert pipes["ds_write_b32"] == pipes["global_load_dword"] == "load_store"
    assert pipes["s_endpgm"] == "branch"
    assert access(only(blocks, "ds_write_b32")) == ("local", "store", 4)


def test_resources() -> None:
    assert read_resources(SMALL, "row_sums") == Resources(
        registers_per_item=8,
        scalar_registers=10,
        private_bytes=0,
        local_memory_bytes=0,
        spill_bytes=0,
        parameters=(
            Parameter("", 0, 8, True, "global_buffer"),
            Parameter("", 8, 8, True, "global_buffer"),
            Parameter("", 16, 4, False, "by_value"),
        ),
        hidden=(),
        argument_bytes=20,
        most_items=256,
    )
    assert read_resources(SMALL, "reversed").local_memory_bytes == 256
    spilled = SMALL.replace(".vgpr_spill_count: 0", ".vgpr_spill_count: 3")
    assert read_resources(spilled, "row_sums").spill_bytes == 12
    with pytest.raises(KernelError, match="no metadata of kernel 'k'"):
        read_resources(SMALL, "k")
    hidden = SMALL.replace(".value_kind:     by_value", ".value_kind:     hidden_none")
    assert len(read_resources(hidden, "row_sums").parameters) == 2


@pytest.mark.parametrize(
    ("text", "space", "direction", "n_bytes"),
    [
        ("flat_load_dwordx4 v[0:3], v[4:5]", "global", "load", 16),
        ("global_load_ubyte v3, v0, s[0:1] offset:1", "global", "load", 1),
        ("global_store_short v[5:6], v3, off", "global", "store", 2),
        ("global_load_b96 v[0:2], v[4:5], off", "global", "load", 12),
        ("global_atomic_cmpswap_x2 v[0:1], v[2:3], v[4:7], off glc", "global", "atomic", 8),
        ("global_atomic_add_f64 v[0:1], v[2:3], off", "global", "atomic", 8),
        ("global_atomic_pk_add_f16 v[0:1], v2, off", "global", "atomic", 4),
        ("buffer_store_dword v9, off, s[0:3], 0 offset:4", "private", "store", 4),
        ("buffer_store_dword v3, off, s[0:3], 0 offset:4 ; 4-byte Folded Spill", "private", "store", 4),
        ("scratch_load_dwordx2 v[0:1], off, off offset:8", "private", "load", 8),
        ("ds_read2st64_b64 v[0:3], v4 offset1:1", "local", "load", 16),
        ("ds_write_b8 v0, v1", "local", "store", 1),
        ("ds_load_2addr_b32 v[0:1], v2 offset1:1", "local", "load", 8),
        ("ds_add_u32 v0, v1", "local", "atomic", 4),
        ("s_load_dwordx8 s[8:15], s[4:5], 0x0", "constant", "load", 32),
    ],
)  # fmt: skip
def test_memory(text: str, space: str, direction: str, n_bytes: int) -> None:
    first = instructions(text, "s_endpgm")[0]
    assert access(first) == (space, direction, n_bytes)
    assert first.memory.spill == ("Spill" in text)


@pytest.mark.parametrize(
    ("text", "pipe"),
    [
        ("v_fma_f32 v0, v1, v2, v3", "fma"),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "fma"),
        ("v_dual_fmac_f32 v0, v1, v2 :: v_dual_mov_b32 v3, v4", "fma"),
        ("v_max_f32_e32 v0, v1, v2", "alu"),
        ("v_mul_lo_u32 v0, v1, v2", "alu"),
        ("v_add_f64 v[0:1], v[2:3], v[4:5]", "fp64"),
        ("v_cvt_f64_f32_e32 v[0:1], v2", "fp64"),
        ("v_rsq_f64_e32 v[0:1], v[2:3]", "special"),
        ("v_rcp_iflag_f32_e32 v0, v1", "special"),
        ("v_pk_mul_f16 v0, v1, v2", "fp16"),
        ("v_mfma_f32_4x4x1f32 a[0:3], v0, v1, a[0:3]", "tensor"),
        ("s_mul_i32 s0, s1, s2", "scalar"),
        ("s_nop 1", "wait"),
        ("s_cbranch_vccz .LBB0_1", "branch"),
    ],
)
def test_pipes(text: str, pipe: str) -> None:
    assert instructions(text, ".LBB0_1:", "s_endpgm")[0].pipe == pipe


def test_a_branch_that_is_too_far_for_an_offset() -> None:
    blocks, _ = read_gcn(
        assembly(
            "s_cbranch_scc1 .LBB0_2",
            "s_getpc_b64 s[8:9]",
            ".Lpost_getpc0:",
            "s_add_u32 s8, s8, (.LBB0_3-.Lpost_getpc0)&4294967295",
            "s_addc_u32 s9, s9, (.LBB0_3-.Lpost_getpc0)>>32",
            "s_setpc_b64 s[8:9]",
            ".LBB0_2:",
            "s_nop 0",
            ".LBB0_3:",
            "s_endpgm",
        ),
        "k",
    )
    assert [block.successors for block in blocks] == [(2, 1), (3,), (3,), ()]


def test_a_called_function_returns_to_each_call() -> None:
    text = assembly(
        "s_load_dwordx4 s[0:3], s[6:7], 0x0",
        "v_mov_b32_e32 v1, s1",
        "s_getpc_b64 s[8:9]",
        "s_add_u32 s8, s8, helper@rel32@lo+4",
        "s_addc_u32 s9, s9, helper@rel32@hi+12",
        "s_swappc_b64 s[30:31], s[8:9]",
        "s_nop 0",
        "s_swappc_b64 s[30:31], s[8:9]",
        "s_endpgm",
    )
    text += """\
helper:
	s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)
	flat_load_dword v0, v[0:1]
	s_setpc_b64 s[30:31]
.Lfunc_end1:
"""
    blocks, notes = read_gcn(text, "k")
    assert [block.successors for block in blocks] == [(3,), (3,), (), (1, 2)]
    assert blocks[3].label == "helper"
    assert "Called functions are part of the code: helper." in notes

    code = MachineCode(kernel="k", target="gfx906", blocks=blocks, registers_per_item=8)
    assert loops(code) == ()


def test_notes_on_what_is_approximate() -> None:
    text = assembly(
        "s_getpc_b64 s[8:9]",
        "s_add_u32 s8, s8, helper@rel32@lo+4",
        "s_swappc_b64 s[30:31], s[8:9]",
        "flat_load_dword v0, v[0:1]",
        "x_unknown v1",
        "s_endpgm",
    )
    assert read_gcn(text, "k")[1] == (
        "Instructions of unknown opcode: 1 (x_unknown).",
        "Flat accesses count as accesses to global memory.",
        "Called functions are left out: helper.",
    )

"""What matrix instructions compute and read, against counts by hand."""

from __future__ import annotations

import pytest

from tracegen.compiled.model import Instruction
from tracegen.executed.matrix_work import matrix_work


@pytest.mark.parametrize(
    ("text", "kind", "products", "bytes_read"),
    [
        ("HMMA.16816.F32 R4, R8, R2, R4", "tensor_f16_f32", 16 * 8 * 16, 0),
        ("HMMA.16816.F32.BF16 R4, R8, R2, R4", "tensor_bf16_f32", 16 * 8 * 16, 0),
        ("HMMA.1688.F32.TF32 R4, R8, R2, R4", "tensor_tf32_f32", 16 * 8 * 8, 0),
        ("HMMA.16816.F16 R4, R8, R2, R4", "tensor_f16_f16", 16 * 8 * 16, 0),
        ("IMMA.16832.S8.S8 R4, R8.ROW, R2.COL, R4", "tensor_i8_i32", 16 * 8 * 32, 0),
        ("DMMA.884 R4, R8, R2, R4", "tensor_f64_f64", 8 * 8 * 4, 0),
        ("QMMA.16832.F32.E4M3.E4M3 R4, R8, R2, R4", "tensor_f8_f32", 16 * 8 * 32, 0),
        # A quarter of what four sub-groups share: both factors in local memory, then the second alone.
        ("HGMMA.64x128x16.F32 R24, gdesc[UR8].tnspB, R24", "wgmma_f16_f32", 16 * 128 * 16, (64 + 128) * 16 * 2 / 4),
        ("HGMMA.64x256x16.F32.BF16 R24, R4, gdesc[UR8], R24", "wgmma_bf16_f32", 16 * 256 * 16, 256 * 16 * 2 / 4),
    ],
)  # fmt: skip
def test_nvidias(text: str, kind: str, products: int, bytes_read: float) -> None:
    work = matrix_work(Instruction(opcode=text.split()[0], text=text, pipe="tensor"))
    assert work == (kind, products / 32, bytes_read / 128)


@pytest.mark.parametrize(
    ("opcode", "kind", "products"),
    [
        ("v_mfma_f32_32x32x8f16", "tensor_f16_f32", 32 * 32 * 8),
        ("v_mfma_f32_32x32x4f16", "tensor_f16_f32", 2 * 32 * 32 * 4),
        ("v_mfma_f32_16x16x16bf16_1k", "tensor_bf16_f32", 16 * 16 * 16),
        ("v_mfma_f32_32x32x8_bf16", "tensor_bf16_f32", 32 * 32 * 8),
        ("v_mfma_f32_4x4x1f32", "tensor_f32_f32", 16 * 4 * 4),
        ("v_mfma_f64_16x16x4f64", "tensor_f64_f64", 16 * 16 * 4),
        ("v_mfma_i32_16x16x32_i8", "tensor_i8_i32", 16 * 16 * 32),
    ],
)
def test_amds(opcode: str, kind: str, products: int) -> None:
    """Blocks as in AMD's matrix instruction calculator."""
    work = matrix_work(Instruction(opcode=opcode, text=opcode, pipe="tensor"))
    assert work == (kind, products / 64, 0)


def test_others_are_none() -> None:
    assert matrix_work(Instruction(opcode="FFMA", text="FFMA R0, R1, R2, R3", pipe="fma")) is None
    assert matrix_work(Instruction(opcode="UTCHMMA", text="UTCHMMA", pipe="tensor")) is None

"""Registers that instructions read and write; the lines are from disassemblies of ptxas's code."""

from __future__ import annotations

import re

import pytest

from tracegen.compiled.nvidia.sass import read_sass
from tracegen.compiled.nvidia.sass_operands import access_bytes


def registers(text: str) -> tuple[str, str]:
    line = f'\t.section\t.text.k,"ax",@progbits\n        /*0000*/  {text} ;\n'
    blocks, _ = read_sass(line, "k")
    instruction = blocks[0].instructions[0]
    return " ".join(instruction.reads), " ".join(instruction.writes)


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("@!P0 IADD3 R4, P1, R2, UR4, RZ", "P0 R2 UR4", "R4 P1"),
        ("IADD3.X R5, R3, UR5, RZ, P0, !PT", "R3 UR5 P0", "R5"),
        ("UIADD3 UR4, UP0, UR4, 0x14, URZ", "UR4", "UR4 UP0"),
        ("IMAD.WIDE.U32 R2, P0, R9, 0x4, R2", "R9 R2 R3", "R2 R3 P0"),
        ("IMAD.HI.U32 R3, R7, R5, R8", "R7 R5 R8 R9", "R3"),
        ("LEA.HI.X R3, R0, c[0x0][0x16c], RZ, 0x2, P0", "R0 P0", "R3"),
        ("SHF.L.U64.HI R2, R4, 0x2, R5", "R4 R5", "R2"),
        ("IADD.64 R6, R4.reuse, UR4", "R4 R5 UR4 UR5", "R6 R7"),
        ("SEL.64 R2, R2, 0x10, !P0", "R2 R3 P0", "R2 R3"),
        ("DADD R22, R8, -R22", "R8 R9 R22 R23", "R22 R23"),
        ("DSETP.MIN.AND P2, P3, R26, R4, PT", "R26 R27 R4 R5", "P2 P3"),
        ("LOP3.LUT P0, RZ, R3, 0x1, RZ, 0xc0, !PT", "R3", "P0"),
        ("FSEL R2, |R3|, -R4, !P1", "R3 R4 P1", "R2"),
        ("F2F.F32.F64 R21, R26", "R26 R27", "R21"),
        ("F2F.F64.F32 R8, R16", "R16", "R8 R9"),
        ("F2I.S64.F64.TRUNC R14, R26", "R26 R27", "R14 R15"),
        ("F2I.S64.TRUNC R18, R18", "R18", "R18 R19"),
        ("F2I.F64.TRUNC R2, R4", "R4 R5", "R2"),
        ("I2F.F64.S64 R12, R24", "R24 R25", "R12 R13"),
        ("I2F.S64 R18, R24", "R24 R25", "R18"),
        ("MUFU.RCP64H R3, R5", "R5", "R3"),
        ("CS2R R12, SRZ", "", "R12 R13"),
        ("CS2R.32 R12, SR_CLOCKLO", "", "R12"),
        ("HFMA2 R0, R0.H0_H0, R11.H1_H1, 2, 2", "R0 R11", "R0"),
        ("FADD2 R20, R12.F32x2.HI_LO, R16.F32x2.HI_LO", "R12 R13 R16 R17", "R20 R21"),
        ("SHFL.IDX P1, R5, R0, R2, R3", "R0 R2 R3", "P1 R5"),
        ("VOTE.ANY R7, PT, P0", "P0", "R7"),
        ("VOTE.ALL P1, P0", "P0", "P1"),
        ("P2R R0, PR, RZ, 0x1", "P0 P1 P2 P3 P4 P5 P6", "R0"),
        ("R2P PR, R0, 0x7f", "R0", "P0 P1 P2 P3 P4 P5 P6"),
        ("R2UR UR4, R2", "R2", "UR4"),
        ("MATCH.ALL PT, R11, R10", "R10", "R11"),
        ("BMOV.32.CLEAR RZ, B0", "", ""),
        ("BRX R4 -0xc0", "R4 R5", ""),
        ("RET.REL.NODEC R20 `(k)", "R20 R21", ""),
    ],
)
def test_arithmetic(text: str, reads: str, writes: str) -> None:
    assert registers(text) == (reads, writes)


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("LDG.E.64.CONSTANT.SYS R8, [R8]", "R8 R9", "R8 R9"),
        ("LDG.E.SYS R3, [R2.U32+UR4]", "R2 UR4 UR5", "R3"),
        ("LDG.E.SYS R3, [UR4+0x10]", "UR4 UR5", "R3"),
        ("LDG.E.128 R4, [R26.64+UR6+0x10]", "R26 R27 UR6 UR7", "R4 R5 R6 R7"),
        ("LDG.E.U16 R0, desc[UR4][R4.64+0x2]", "UR4 UR5 R4 R5", "R0"),
        ("LDG.E.ENL2.256 R4, R16, desc[UR4][R2.64]", "UR4 UR5 R2 R3", "R4 R5 R6 R7 R16 R17 R18 R19"),
        ("STG.E.ENL2.256 desc[UR4][R2.64], R8, RZ", "UR4 UR5 R2 R3 R8 R9 R10 R11", ""),
        ("LDS.128 R4, [R2.X16+UR4]", "R2 UR4", "R4 R5 R6 R7"),
        ("LDL.LU.64 R28, [R1+0x20]", "R1", "R28 R29"),
        ("LDC.64 R2, c[0x0][R6+0x18]", "R6", "R2 R3"),
        ("ULDC.64 UR8, c[0x0][0x208]", "", "UR8 UR9"),
        ("LDSM.16.MT88.2 R2, [R29+0x100]", "R29", "R2 R3"),
        ("LDGSTS.E.BYPASS.128 [R29], desc[UR6][R26.64], P0", "R29 UR6 UR7 R26 R27 P0", ""),
        ("RED.E.ADD.F64.RN.STRONG.GPU [R4.64+0x18], R2", "R4 R5 R2 R3", ""),
        ("ATOMG.E.CAS.64.STRONG.GPU PT, R20, [R24+0x20], R24, R26", "R24 R25 R26 R27", "R20 R21"),
        ("ATOMS.CAST.SPIN.64 P0, [R29], R12, R14", "R29 R12 R13 R14 R15", "P0"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR7], RZ", "UR7", "P0"),
        ("QSPC.E.S P0, RZ, [R24]", "R24 R25", "P0"),
    ],
)  # fmt: skip
def test_accesses(text: str, reads: str, writes: str) -> None:
    assert registers(text) == (reads, writes)


@pytest.mark.parametrize(
    ("text", "widths"),
    [
        # D, A, B, C in 32-bit registers of a lane: m * n, m * k, k * n, m * n elements in 32 lanes.
        ("HMMA.16816.F32 R0, R20, R40, R60", (4, 4, 2, 4)),
        ("HMMA.16816.F16 R0, R20, R40, R60", (2, 4, 2, 2)),
        ("HMMA.1688.F32.TF32 R0, R20, R40, R60", (4, 4, 2, 4)),
        ("HMMA.1688.F32.BF16 R0, R20, R40, R60", (4, 2, 1, 4)),
        ("IMMA.16832.S8.S8 R0, R20.ROW, R40.COL, R60", (4, 4, 2, 4)),
        ("IMMA.8816.S8.S8 R0, R20.ROW, R40.COL, R60", (2, 1, 1, 2)),
        ("BMMA.168256.XOR.POPC R0, R20.ROW, R40.COL, R60", (4, 4, 2, 4)),
        ("DMMA.884 R0, R20, R40, R60", (4, 2, 2, 4)),
        ("QMMA.16832.F32.E4M3.E4M3 R0, R20, R40, R60", (4, 4, 2, 4)),
    ],
)
def test_matrix_instructions(text: str, widths: tuple[int, int, int, int]) -> None:
    reads, writes = registers(text)
    result = [int(name[1:]) for name in (*writes.split(), *reads.split())]
    counts = [sum(number // 20 == group for number in result) for group in range(4)]
    assert tuple(counts) == widths


@pytest.mark.parametrize(
    ("opcode", "n_bytes"),
    [
        ("LDG.E.U8", 1),
        ("LDG.E.S8.SYS", 1),
        ("STG.E.U16", 2),
        ("LDG.E", 4),
        ("LDS.U.64", 8),
        ("LDG.E.128.CONSTANT", 16),
        ("LDG.E.ENL2.256", 32),
        ("ATOMG.E.ADD.F64.RN.STRONG.GPU", 8),
        ("ATOMG.E.ADD.F16x2.RN.STRONG.GPU", 4),
        ("RED.E.MAX.64.STRONG.GPU", 8),
        ("LDSM.16.M88.4", 16),
        ("LDSM.16.M88", 4),
    ],
)
def test_bytes_of_an_item(opcode: str, n_bytes: int) -> None:
    assert access_bytes(opcode) == n_bytes


def test_a_pair_is_read_from_its_first_register() -> None:
    reads, _ = registers("STG.E.64 [R2.64], R254")
    assert re.findall(r"R\d+", reads) == ["R2", "R3", "R254", "R255"]

"""Cycles in which operands are read, against those that Huerta et al. (MICRO 2025) measured."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import workload
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.machine_code.binding import bind

TOP = '\t.section\t.text.k,"ax"\n'


def cycles(*texts: str, capability: int = 70) -> list[int]:
    """Of instructions that follow one another in a listing."""
    lines = "".join(
        f"        /*{16 * k:04x}*/                   {t} ;\n" for k, t in enumerate(texts)
    )
    blocks, _ = read_sass(f"{TOP}{lines}        /*fff0*/ EXIT ;\n", "k", capability)
    return [one.read_cycles for block in blocks for one in block.instructions][: len(texts)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FMUL R1, R2, R4", 2),  # a bubble of a cycle
        ("FMUL R1, R2, R5", 1),  # none
        ("FFMA R11, R10, R12, R14", 3),  # two
        ("FFMA R11, R10, R12, R15", 2),
        ("FADD.FTZ R13, -R9, |R13|", 2),
        ("FMUL R5, R13, R13", 1),  # one register
        ("DFMA R4, R6, R8, R10", 3),  # pairs lie in both banks
        ("DADD R4, R6, R8", 2),
        ("FFMA R1, R2, UR4, c[0x0][0x160]", 1),
        ("@!P0 FFMA R1, R2, R4, R6", 3),
        ("LDS.128 R4, [R2]", 1),
        ("MUFU.RSQ R24, R24", 1),
    ],
)
def test_each_bank_delivers_a_register_in_a_cycle(text: str, expected: int) -> None:
    assert cycles(text) == [expected]
    assert cycles(text, capability=61) == [1]


@pytest.mark.parametrize(
    ("texts", "hits"),
    [
        # The examples of their listing 4; R8, R12 and R20 make each read of R2 a second one of its bank.
        (("IADD3 R1, R2.reuse, R3, R8", "FFMA R5, R2, R7, R8", "IADD3 R10, R2, R20, R13"), (1, 0)),
        (
            ("IADD3 R1, R2.reuse, R3, R8", "FFMA R5, R2.reuse, R7, R8", "IADD3 R10, R2, R20, R13"),
            (1, 1),
        ),
        (("IADD3 R1, R2.reuse, R3, R8", "FFMA R5, R7, R2, R8", "IADD3 R10, R2, R20, R13"), (0, 1)),
        (("IADD3 R1, R2.reuse, R3, R8", "FFMA R5, R4, R7, R8", "IADD3 R10, R2, R20, R13"), (0, 0)),
    ],
)
def test_operands_that_are_kept_are_not_read(texts: tuple[str, ...], hits: tuple[int, int]) -> None:
    assert cycles(*texts) == [2, 2 - hits[0], 2 - hits[1]]


def test_a_jump_may_come_from_elsewhere() -> None:
    reads = "FFMA R5, R2, R7, R8"
    text = f"        /*0000*/ IADD3 R1, R2.reuse, R3, R8 ;\n{{}}        /*0010*/ {reads} ;\n        /*0020*/ EXIT ;\n"
    for label, expected in (("", 1), (".L_x_1:\n", 2)):
        blocks, _ = read_sass(TOP + text.format(label), "k")
        (found,) = (i for b in blocks for i in b.instructions if i.text == reads)
        assert found.read_cycles == expected


@needs_nvidia
@pytest.mark.parametrize(("target", "most"), [("sm_61", 1), ("sm_90", 3)])
def test_compiled_code_has_such_reads_from_volta_on(target: str, most: int) -> None:
    source = """__global__ void k(float *y, float a, float b) {
  float s[8];
  for (int k = 0; k < 8; ++k) s[k] = y[k + threadIdx.x];
  for (int k = 0; k < 64; ++k) s[k % 8] = s[(k * 3) % 8] * s[(k * 5 + 1) % 8] + s[(k + 1) % 8];
  for (int k = 0; k < 8; ++k) y[k + threadIdx.x] = s[k];
}"""
    made = workload(source, np.zeros(64, np.float32), 1.0, 2.0, block=32)
    code = next(bind(made, target)).code
    found = [i.read_cycles for block in code.blocks for i in block.instructions]
    assert 1 <= max(found) <= most
    assert (sum(found) > len(found)) == (most > 1)
